"""Reports, which only read data: text, tables, pictures and live progress."""
