"""The language of the built-in model for strings: one Python expression over strings; how prompts show it."""
