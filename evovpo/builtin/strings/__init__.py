"""The built-in model's language (one Python expression over strings) and its prompt format."""
