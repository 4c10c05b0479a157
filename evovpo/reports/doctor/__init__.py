"""The doctor's report: its sample, text and JSON."""
