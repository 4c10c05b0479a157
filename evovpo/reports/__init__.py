"""Read-only reports: text, tables, pictures and live progress."""
