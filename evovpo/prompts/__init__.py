"""Records to prompt text, and completion text to programs, for each prompt format.

`RewriteFormat` and `DiffFormat` ask an instruction model for whole programs or for edits of one, of any
problem. The formats of the built-in models are in `evovpo/builtin`.
"""
