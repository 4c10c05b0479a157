"""Reports: text, tables, pictures and live progress."""
