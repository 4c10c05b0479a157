"""Prompt formats, which turn records into prompt text and completions into programs.

`RewriteFormat` and `DiffFormat` ask an instruction model for whole programs or edits. `evovpo/builtin` has
the format of the built-in model.
"""
