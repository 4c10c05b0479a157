"""The language of the built-in model for numeric rules: one formula over numbers; how prompts show it."""
