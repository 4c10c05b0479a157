"""The doctor's report: its sample, text and JSON.

The figures and the verdict are made in `evovpo/analysis/doctor`. Names of objectives and problems are
untrusted text here too.
"""
