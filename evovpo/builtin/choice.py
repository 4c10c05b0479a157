"""Which built-in model writes for a problem: the one for strings, the one for numeric rules, or none."""

from pathlib import Path

from evovpo.builtin import BUILT_IN_MODEL, FORMULA_MODEL
from evovpo.builtin.formulas.format import FormulaFormat, formula_fault
from evovpo.builtin.strings.format import ExpressionFormat, expression_fault
from evovpo.prompts.request import PromptFormat
from evovpo.types import Problem


def built_in_fault(problem: Problem) -> str:
    """Return why no built-in model can write for `problem`; empty if one can."""
    of_strings, of_numbers = expression_fault(problem), formula_fault(problem)
    if not of_strings or not of_numbers:
        return ""
    has_scorer = problem.scorer_path is not None
    return f"{of_strings}, and {of_numbers}" if has_scorer else of_strings


def built_in_model(problem: Problem) -> Path:
    """Return the folder of the model that writes for `problem`; that for strings where none does."""
    return BUILT_IN_MODEL if formula_fault(problem) else FORMULA_MODEL


def built_in_format(problem: Problem) -> PromptFormat:
    """Return the format of that model. Raises `ProblemError` if none can write for `problem`."""
    return ExpressionFormat(problem) if formula_fault(problem) else FormulaFormat(problem)
