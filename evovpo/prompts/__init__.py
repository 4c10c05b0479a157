"""Prompt formats, which write prompts and read programs from completions.

`RewriteFormat` asks an instruction model for whole programs, `DiffFormat` for edits.
"""
