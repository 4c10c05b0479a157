"""Records to prompt text, and completion text to programs, for each prompt format.

`AlignmentFormat` is the format of the built-in model; `RewriteFormat` and `DiffFormat` ask an instruction
model for whole programs or for edits of one, of any problem.
"""

from evovpo.prompts.alignment import AlignmentFormat, alignment_fault, make_program, read_expression
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.request import Answer, Attempt, PromptFormat, Request, Shown, choose_rows
from evovpo.prompts.templates import Templates, load_templates, write_templates

__all__ = [
    "AlignmentFormat",
    "Answer",
    "Attempt",
    "DiffFormat",
    "PromptFormat",
    "Request",
    "RewriteFormat",
    "Shown",
    "Templates",
    "alignment_fault",
    "choose_rows",
    "load_templates",
    "make_program",
    "read_expression",
    "write_templates",
]
