"""The format of the built-in model for numeric rules (`evovpo/builtin/formulas/prompt_text.py`)."""

import re

from evovpo.builtin.chain import ChainFormat
from evovpo.builtin.formulas.language import ARGUMENTS, canonical, from_source, to_source
from evovpo.builtin.formulas.prompt_text import MAX_COMPONENTS, encode_prompt, level
from evovpo.prompts.request import Request
from evovpo.types import Message, Problem, Program

_INPUT = re.compile(rf"\b[{''.join(ARGUMENTS)}]\b")


def formula_fault(problem: Problem) -> str:
    """Return why the format for numeric rules does not fit `problem`; empty if it does.

    Nothing in a problem with a scorer says that its inputs are numbers, so a starting program has to: one
    that calculates with them, in one formula.
    """
    if problem.is_by_example:
        return "it has examples instead of a scorer"
    if problem.evaluator is not None:
        return "it has an evaluator of its own"
    if not 1 <= len(problem.parameters) <= len(ARGUMENTS):
        return f"it has {len(problem.parameters)} inputs; 1 to {len(ARGUMENTS)} fit"
    if {"abs", "min", "max"} & set(problem.parameters):
        return "an input is named abs, min or max, names that formulas use"
    if len(problem.objectives) > MAX_COMPONENTS:
        return f"it has {len(problem.objectives)} objectives; at most {MAX_COMPONENTS} fit"
    formulas = [from_source(program.source, problem.entry) or "" for program in problem.seeds]
    if not any(len(formula) > 1 and _INPUT.search(formula) for formula in formulas):
        return "no starting program is a formula of its inputs, such as 'return item - remaining'"
    return ""


class FormulaFormat(ChainFormat):
    """A parent formula and its rewards in steps of a tenth in, a chain of formulas out."""

    model = "the built-in model for numeric rules"
    fault = staticmethod(formula_fault)
    read = staticmethod(from_source)

    @staticmethod
    def program(text: str, problem: Problem) -> Program | None:
        """Return the program of an answer that is one formula of the problem's inputs."""
        formula = canonical(text, len(problem.parameters))
        return None if formula is None else Program(to_source(formula, problem.entry, problem.parameters))

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return one message; a parent with its rewards is all that has a place in this format."""
        formula, levels = None, []
        if request.parent is not None:
            formula = from_source(request.parent.program.source, problem.entry)
            levels = [level(reward) for reward in request.parent.evaluation.rewards or ()]
        text = encode_prompt(request.answers, len(problem.parameters), formula, levels)
        return (Message("user", text),)
