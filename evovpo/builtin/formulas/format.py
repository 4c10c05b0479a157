"""The format of the built-in model for numeric rules (`evovpo/builtin/formulas/prompt_text.py`)."""

import functools
import re

from evovpo.builtin.chain import split_chain
from evovpo.builtin.formulas.language import ARGUMENTS, canonical, from_source, to_source
from evovpo.builtin.formulas.prompt_text import MAX_COMPONENTS, encode_prompt, level
from evovpo.builtin.strings.prompt_text import MAX_ROWS
from evovpo.errors import ProblemError
from evovpo.prompts.request import Answer, Request
from evovpo.types import Message, ParentRole, Problem, Program, Rollout

_INPUT = re.compile(rf"\b[{''.join(ARGUMENTS)}]\b")


class FormulaFormat:
    """A parent formula and its rewards in steps of a tenth in, a chain of formulas out."""

    reply_tokens = 160
    max_rows = MAX_ROWS

    def __init__(self, problem: Problem) -> None:
        fault = formula_fault(problem)
        if fault:
            raise ProblemError(
                f"problem '{problem.id}' is not one the built-in model for numeric rules can write programs "
                f"for: {fault}; use another proposer"
            )

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return one message; a parent with its rewards is all that has a place in this format."""
        formula, levels = None, []
        if request.parent is not None:
            formula = read_formula(request.parent.program.source, problem.entry)
            levels = [level(reward) for reward in request.parent.evaluation.rewards or ()]
        text = encode_prompt(request.answers, len(problem.parameters), formula, levels)
        return (Message("user", text),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True for a parent that is one formula."""
        return role is ParentRole.PARENT and read_formula(program.source, problem.entry) is not None

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return the chain's slots; an answer is a program if it is one formula of the problem's inputs."""
        found = []
        for text, span in split_chain(rollout.text, rollout.token_ids)[:answers]:
            formula = canonical(text, len(problem.parameters))
            program = None
            if formula is not None:
                program = Program(to_source(formula, problem.entry, problem.parameters))
            found.append(Answer(text, program, span))
        return found + [Answer("", None, None)] * (answers - len(found))


@functools.lru_cache(maxsize=4096)
def read_formula(source: str, entry: str) -> str | None:
    """Return the canonical formula that function `entry` of `source` returns, or none if it is not one."""
    return from_source(source, entry)


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
    formulas = [read_formula(program.source, problem.entry) or "" for program in problem.seeds]
    if not any(len(formula) > 1 and _INPUT.search(formula) for formula in formulas):
        return "no starting program is a formula of its inputs, such as 'return item - remaining'"
    return ""
