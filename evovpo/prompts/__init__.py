"""Records to prompt text, and completion text to programs, for each prompt format.

`RewriteFormat` and `DiffFormat` ask an instruction model for whole programs or for edits of one, of any
problem. The formats of the built-in models are in `evovpo/builtin`.
"""

from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.request import Answer, Attempt, PromptFormat, Request, Shown, choose_rows
from evovpo.prompts.templates import Templates, load_templates, write_templates

__all__ = [
    "Answer",
    "Attempt",
    "DiffFormat",
    "PromptFormat",
    "Request",
    "RewriteFormat",
    "Shown",
    "Templates",
    "choose_rows",
    "load_templates",
    "write_templates",
]
