"""The chain of answers that a built-in model writes: answers between `⟦sep⟧` marks, closed by `⟦end⟧`."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from evovpo.builtin.functions import Language
from evovpo.errors import ProblemError
from evovpo.prompts.request import Answer
from evovpo.types import ParentRole, Problem, Program, Rollout

MAX_ANSWERS = 4
MAX_ROWS = 7
"""Examples shown in one prompt; a caller with more chooses which."""
PAD, BEGIN, END, SEPARATOR = "⟦pad⟧", "⟦begin⟧", "⟦end⟧", "⟦sep⟧"
PAD_ID, BEGIN_ID, END_ID, SEPARATOR_ID = 0, 1, 2, 3


def split_chain(text: str, token_ids: Sequence[int] | None) -> list[Answer]:
    """Return the answers of a completion in order, not read yet; the end mark is not part of any."""
    texts = text.split(END)[0].split(SEPARATOR)
    spans = chain_spans(token_ids or ())
    known = spans if token_ids is not None and len(spans) == len(texts) else [None] * len(texts)
    return [Answer(part, None, span) for part, span in zip(texts, known, strict=True)]


def chain_spans(token_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return the range of tokens of each answer; the end mark and what follows belong to none."""
    spans = []
    start = 0
    for position, token in enumerate([*token_ids, END_ID]):
        if token in (SEPARATOR_ID, END_ID):
            spans.append((start, position))
            start = position + 1
            if token == END_ID:
                break
    return spans


def join_chain(answers: Sequence[str]) -> str:
    """Return the completion text of `answers`, end mark included."""
    return SEPARATOR.join(answers) + END


class ChainFormat:
    """What the formats of the built-in models share: a parent in a language, chains of it back."""

    reply_tokens = 160
    max_rows = MAX_ROWS
    rollouts = 8
    ways: ClassVar[Mapping[str, float]] = {"fresh": 0.5, "specialist": 0.45, "climb": 0.05}
    others = 0
    model: ClassVar[str]
    advice: ClassVar[str] = "use another proposer"
    fault: Callable[[Problem], str]
    """Returns why the format does not fit a problem; empty if it does."""
    language: ClassVar[Language]

    def __init__(self, problem: Problem) -> None:
        if fault := self.fault(problem):
            refused = f"problem '{problem.id}' is not one {self.model} can write programs for"
            raise ProblemError(f"{refused}: {fault}; {self.advice}")

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True for a parent that is one expression."""
        return (
            role is ParentRole.PARENT and self.language.from_source(program.source, problem.entry) is not None
        )

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        """Return a chain, end mark included; what is not of the language is an empty answer."""
        found = [self.language.from_source(program.source, problem.entry) for program in programs]
        return join_chain([expression or "" for expression in found])

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return the chain's slots; an answer is a program if it is one expression of the language."""
        found: list[Answer] = []
        for slot in split_chain(rollout.text, rollout.token_ids)[:answers]:
            expression = self.language.canonical(slot.text, len(problem.parameters))
            program = None if expression is None else self.language.program(expression, problem)
            found.append(slot._replace(program=program))
        return found + [Answer("", None, None)] * (answers - len(found))
