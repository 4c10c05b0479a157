"""Every program that a run has judged, and which of them a prompt can show."""

from __future__ import annotations

from evovpo.prompts import PromptFormat, Shown
from evovpo.types import Evaluation, ParentRole, Problem, Program


class Programs:
    """The judged programs of a run by id."""

    def __init__(self, problem: Problem, prompt_format: PromptFormat) -> None:
        self._problem = problem
        self._format = prompt_format
        self._shown: dict[str, Shown] = {}

    def add(self, program: Program, evaluation: Evaluation) -> None:
        """Keep a program with its judgement."""
        self._shown[program.id] = Shown(program, evaluation)

    def __contains__(self, program_id: str) -> bool:
        return program_id in self._shown

    def __getitem__(self, program_id: str) -> Shown:
        return self._shown[program_id]

    def get(self, program_id: str | None) -> Shown | None:
        """Return a program with its judgement; None for one that was not judged, or for no program."""
        return None if program_id is None else self._shown.get(program_id)

    def can_show(self, program_id: str, role: ParentRole) -> bool:
        """True if the prompt format can show a judged program in this part."""
        return self._format.can_show(self._problem, self._shown[program_id].program, role)
