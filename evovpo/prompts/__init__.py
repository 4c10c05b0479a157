"""Prompt formats, which write the text of prompts and read programs from completions.

`RewriteFormat` asks an instruction model for whole programs, `DiffFormat` for edits. The format of the
built-in model is in `evovpo/builtin`.
"""
