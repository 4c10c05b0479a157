"""The prompt format of the built-in model, and its vocabulary.

A prompt states how many answers are requested, and shows the examples and possibly a parent program. The
output of an example is written as references to parts of the inputs (`references.py`). A completion has up to
four expressions, separated by `⟦sep⟧`, and then `⟦end⟧`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from evovpo.builtin.chain import BEGIN, END, MAX_ANSWERS, MAX_ROWS, PAD, SEPARATOR, join_chain, split_chain
from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.expressions import ARGUMENTS, MAX_ARGUMENTS
from evovpo.builtin.strings.grammar import PATTERNS
from evovpo.builtin.strings.references import alignment_tokens, describe_inputs, describe_outputs
from evovpo.errors import ProblemError
from evovpo.prompts.request import Answer, PromptRequest
from evovpo.types import Evaluation, Message, ParentRole, Problem, Program, Rollout

PROMPT_END = "⟦out⟧"
_MARKS = (
    "⟦unk⟧", "⟦ex⟧", "⟦to⟧", "⟦par⟧", "⟦ran⟧", "⟦ok⟧", "⟦no⟧", PROMPT_END,
    *(f"⟦m{m}⟧" for m in range(1, MAX_ANSWERS + 1)),
)  # fmt: skip

_METHODS = (
    ".upper()", ".lower()", ".title()", ".capitalize()", ".swapcase()", ".strip()", ".isdigit()",
    ".isalpha()", ".isupper()", ".islower()", ".split()", ".strip(", ".lstrip(", ".rstrip(", ".split(",
    ".rsplit(", ".partition(", ".rpartition(", ".replace(", ".join(", ".zfill(", ".startswith(", ".endswith(",
    ".find(", ".rfind(", ".count(", "re.sub(", "re.findall(", "len(", "str(", "int(",
)  # fmt: skip
_SYNTAX = (
    " if ", " else ", " for w in ", " in ", " not in ", " and ", " or ", "not ", " + ", " - ", " < ", " > ",
    " == ", " != ", ", ", "[w", "''", "[::-1]", ", 1)", ")[0]", ")[2]", ")[-1]", ")[1]",
)  # fmt: skip


def program_tokens() -> list[str]:
    tokens = [*ARGUMENTS, *_METHODS, *_SYNTAX, *(repr(pattern) for pattern in PATTERNS)]
    tokens += [f"[{index}]" for index in range(-4, 6)]
    tokens += [f"[{index}:]" for index in range(-6, 10) if index]
    tokens += [f"[:{index}]" for index in range(-6, 10) if index]
    return tokens


def vocabulary() -> list[str]:
    """Return all tokens in the order of their ids: marks, alignment and program tokens, characters, bytes."""
    characters = [chr(code) for code in range(32, 127)]
    tokens = [PAD, BEGIN, END, SEPARATOR, *_MARKS, *alignment_tokens(), *program_tokens(), *characters]
    return tokens + [f"<0x{byte:02X}>" for byte in range(256)]


_PIECES = sorted(program_tokens(), key=lambda token: (-len(token), token))
_ESCAPED = (re.sub(r"([^A-Za-z0-9 '])", r"\\\1", piece) for piece in _PIECES)
TOKEN_PATTERN = f"⟦[^⟦⟧]*⟧|{'|'.join(_ESCAPED)}|[\\s\\S]"


def encode_prompt(
    inputs: Sequence[Sequence[str]],
    outputs: Sequence[str],
    answers: int,
    parent: str | None = None,
    parent_outputs: Sequence[str | None] = (),
) -> str:
    """Return a prompt's text, which shows N examples (at most `MAX_ROWS`) and requests `answers` programs.

    `parent` is a canonical expression. `parent_outputs` has its N outputs; None stands for an error.
    """
    shown = describe_inputs(inputs)
    wanted = describe_outputs(inputs, outputs)
    parts = [f"⟦m{answers}⟧"]
    parts += [f"⟦ex⟧{row}⟦to⟧{output}" for row, output in zip(shown, wanted, strict=True)]
    if parent is not None:
        parts.append(f"⟦par⟧{parent}")
        got = describe_outputs(inputs, parent_outputs)
        for output, wanted_output, text in zip(parent_outputs, outputs, got, strict=True):
            parts.append("⟦ok⟧" if output == wanted_output else f"⟦no⟧{text}")
    parts.append(PROMPT_END)
    return "".join(parts)


def expression_fault(problem: Problem) -> str:
    """Return the reason that `problem` does not fit the built-in model's format; empty if it fits."""
    if not problem.is_by_example:
        return "it has a scorer instead of examples"
    for number, example in enumerate(problem.train, start=1):
        if not isinstance(example.output, str):
            fit = "make it text if it is a code"
            return f"training row {number} has the result {example.output!r:.40}, which is no text ({fit})"
        for name, value in zip(problem.parameters, example.inputs, strict=False):
            if not isinstance(value, str):
                fit = "leave it out, or make it text"
                return f"training row {number} has {name} = {value!r:.40}, which is no text ({fit})"
    if not 1 <= len(problem.parameters) <= MAX_ARGUMENTS:
        fit = f"1 to {MAX_ARGUMENTS} fit (choose with --columns A,B)"
        return f"it has {len(problem.parameters)} inputs, of which {fit}"
    if {"re", "w", "len", "str", "int"} & set(problem.parameters):
        return "an input is named re, w, len, str or int, names that expressions use"
    return ""


class ExpressionFormat:
    """The prompt format of the built-in model, which is described at the top of this file."""

    reply_tokens = 160
    max_rows = MAX_ROWS
    rollouts = 8
    ways: ClassVar[Mapping[str, float]] = {"fresh": 0.5, "explore": 0.45, "climb": 0.05}
    others = 0

    def __init__(self, problem: Problem) -> None:
        if fault := expression_fault(problem):
            raise ProblemError(
                f"the built-in model cannot write programs for the problem '{problem.id}': {fault}; "
                "it writes string expressions from examples of strings; give --base-url URL --model NAME"
            )

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return a prompt of one message, which shows training rows and the parent program, if any."""
        rows, parent = request.rows, request.parent
        chosen = [problem.train[row] for row in rows][:MAX_ROWS]
        inputs = [[str(value) for value in example.inputs] for example in chosen]
        expression, got = None, []
        if parent is not None:
            expression = expressions.from_source(parent.program.source, problem.entry)
            got = [_got(problem, parent.evaluation, row) for row in rows][:MAX_ROWS]
        text = encode_prompt(inputs, [str(row.output) for row in chosen], request.answers, expression, got)
        return (Message("user", text),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True if a prompt can show `program`: `role` is `PARENT`, and the program is a single expression."""
        return (
            role is ParentRole.PARENT and expressions.from_source(program.source, problem.entry) is not None
        )

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        """Return a completion with one answer per program, empty for a program that is not one expression."""
        found = [expressions.from_source(program.source, problem.entry) for program in programs]
        return join_chain([expression or "" for expression in found])

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return exactly `answers` answers of a rollout. Invalid or missing answers have no `program`."""
        found: list[Answer] = []
        for slot in split_chain(rollout.text, rollout.token_ids)[:answers]:
            expression = expressions.canonical(slot.text)
            program = None if expression is None else expressions.to_program(expression, problem)
            found.append(slot._replace(program=program))
        return found + [Answer("", None, None)] * (answers - len(found))


def _got(problem: Problem, evaluation: Evaluation, row: int) -> str | None:
    if evaluation.rewards is not None and evaluation.rewards[row] >= 1.0:
        # Evaluations omit long outputs, but on a passed row the output equals the expected output.
        return str(problem.train[row].output)
    output = None if evaluation.outputs is None else evaluation.outputs[row]
    return output if isinstance(output, str) else None
