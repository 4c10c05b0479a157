"""The format of the built-in model for strings (`prompt_text.py` beside it): examples in, expressions out."""

import functools

from evovpo.builtin.chain import split_chain
from evovpo.builtin.strings.grammar import MAX_ARGUMENTS
from evovpo.builtin.strings.programs import canonical, from_source, to_source
from evovpo.builtin.strings.prompt_text import MAX_ROWS, encode_prompt
from evovpo.errors import ProblemError
from evovpo.prompts.request import Answer, Request
from evovpo.types import Evaluation, Message, ParentRole, Problem, Program, Rollout

_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's own parser and unparser raise for text that is no program, or one nested too deeply."""


class ExpressionFormat:
    """The format of the built-in model: alignments in, a chain of expressions out."""

    reply_tokens = 160
    max_rows = MAX_ROWS

    def __init__(self, problem: Problem) -> None:
        fault = expression_fault(problem)
        if fault:
            raise ProblemError(
                f"problem '{problem.id}' is not one the built-in model can write programs for: {fault}; "
                "it writes string expressions from examples of strings; use another proposer"
            )

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return one message; a parent and rows are all that has a place in this format."""
        rows, parent = request.rows, request.parent
        chosen = [problem.train[row] for row in rows][:MAX_ROWS]
        inputs = [[str(value) for value in example.inputs] for example in chosen]
        expression, got = None, []
        if parent is not None:
            expression = read_expression(parent.program.source, problem.entry)
            got = [_got(problem, parent.evaluation, row) for row in rows][:MAX_ROWS]
        text = encode_prompt(
            inputs, [str(example.output) for example in chosen], request.answers, expression, got
        )
        return (Message("user", text),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True for a parent that is one expression."""
        return role is ParentRole.PARENT and read_expression(program.source, problem.entry) is not None

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return the chain's slots; an answer is a program if it is one Python expression."""
        found = []
        for text, span in split_chain(rollout.text, rollout.token_ids)[:answers]:
            expression = canonical(text)
            found.append(
                Answer(text, None if expression is None else make_program(expression, problem), span)
            )
        return found + [Answer("", None, None)] * (answers - len(found))


@functools.lru_cache(maxsize=4096)
def read_expression(source: str, entry: str) -> str | None:
    """Return the canonical expression that function `entry` of `source` returns, or none if it is not one."""
    try:
        return from_source(source, entry)
    except _UNREADABLE:
        return None


def make_program(expression: str, problem: Problem) -> Program | None:
    """Return the program that returns a canonical expression, or none if that is nested too deeply."""
    try:
        return Program(to_source(expression, problem.entry, problem.parameters))
    except _UNREADABLE:
        return None


def expression_fault(problem: Problem) -> str:
    """Return why the built-in model's format does not fit `problem`; empty if it does."""
    if not problem.is_by_example:
        return "it has a scorer instead of examples"
    if not 1 <= len(problem.parameters) <= MAX_ARGUMENTS:
        return f"it has {len(problem.parameters)} inputs; 1 to {MAX_ARGUMENTS} fit"
    if {"re", "w", "len", "str", "int"} & set(problem.parameters):
        return "an input is named re, w, len, str or int, names that expressions use"
    for number, example in enumerate(problem.train, start=1):
        if not all(isinstance(value, str) for value in (*example.inputs, example.output)):
            return f"training row {number} holds a value that is no string"
    return ""


def _got(problem: Problem, evaluation: Evaluation, row: int) -> str | None:
    """Return what a parent gave for a training row; none for an error, a non-string or one not kept."""
    if evaluation.rewards is not None and evaluation.rewards[row] >= 1.0:
        # Long outputs are not kept; of a row that passes, the output is known all the same.
        return str(problem.train[row].output)
    output = None if evaluation.outputs is None else evaluation.outputs[row]
    return output if isinstance(output, str) else None
