"""Prompt formats: records to prompt text, completion text to programs.

`RewriteFormat` and `DiffFormat` ask an instruction model for whole programs or for edits. The format of the
built-in model is in `evovpo/builtin`.
"""
