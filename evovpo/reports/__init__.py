"""Read-only answers for people: text, tables, pictures, pages, the live view."""
