"""Read-only reports: text, tables, pictures and the live view."""
