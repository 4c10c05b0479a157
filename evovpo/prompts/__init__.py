"""Records to prompt text, and completion text to programs, for each prompt format.

`AlignmentFormat` and `FormulaFormat` are the formats of the built-in models; `RewriteFormat` and `DiffFormat`
ask an instruction model for whole programs or for edits of one, of any problem.
"""

from evovpo.prompts.alignment import AlignmentFormat, alignment_fault, make_program, read_expression
from evovpo.prompts.built_in import built_in_fault, built_in_format, built_in_model
from evovpo.prompts.formula import FormulaFormat, formula_fault
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.request import Answer, Attempt, PromptFormat, Request, Shown, choose_rows
from evovpo.prompts.templates import Templates, load_templates, write_templates

__all__ = [
    "AlignmentFormat",
    "Answer",
    "Attempt",
    "DiffFormat",
    "FormulaFormat",
    "PromptFormat",
    "Request",
    "RewriteFormat",
    "Shown",
    "Templates",
    "alignment_fault",
    "built_in_fault",
    "built_in_format",
    "built_in_model",
    "choose_rows",
    "formula_fault",
    "load_templates",
    "make_program",
    "read_expression",
    "write_templates",
]
