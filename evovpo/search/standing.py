"""Keeps the evaluated programs of a search, finds the best one, and decides on early stopping."""

import math

from evovpo.analysis.scores import COMBINED, merit, number
from evovpo.config import SearchConfig
from evovpo.prompts.request import CHANGES, Change, PromptFormat, ShownProgram
from evovpo.search.judged_programs import JudgedPrograms
from evovpo.types import Evaluation, Parent, Problem, Program, Prompt, PromptKind, Status


class Standing:
    """The results of a search so far, for strategies and reports."""

    def __init__(self, problem: Problem, config: SearchConfig, prompt_format: PromptFormat) -> None:
        self.programs = JudgedPrograms()
        self.tells = 0
        self.proposed = 0
        """Number of judged candidates so far that count against the budget."""
        self.joined = 0
        self.best: ShownProgram | None = None
        """The best program by `merit`, objectives passed, success and shortness; None if none is judged."""
        self.problem = problem
        self.config = config
        self.prompt_format = prompt_format
        self._improved_at = 0
        self._rank, self._reached = (-math.inf, -1, False, 0), -math.inf

    @property
    def passed(self) -> int:
        return 0 if self.best is None else self.best.evaluation.passed

    @property
    def stop_reason(self) -> str:
        """The reason to end the search early (target reached or no progress), or an empty string."""
        target, patience = self.config.target, self.config.patience
        if target is not None and self._reached >= target:
            return f"the target of {target} is reached"
        if patience is not None and patience <= self.proposed - self._improved_at:
            return f"no better program in {patience} evaluations"
        return ""

    @property
    def is_solved(self) -> bool:
        return self.passed == len(self.problem.objectives)

    @property
    def is_over(self) -> bool:
        return bool(self.stop_reason) or (self.is_solved and self.config.stop_when_solved)

    def go_on(self, config: SearchConfig, prompt_format: PromptFormat) -> None:
        self.config, self.prompt_format = config, prompt_format
        self._improved_at = self.proposed

    def can_show(self, parent: Parent) -> bool:
        """Return whether a prompt can show the program `parent.program_id` in the role `parent.role`."""
        program = self.programs[parent.program_id].program
        return self.prompt_format.can_show(self.problem, program, parent.role)

    def count(self, prompt: Prompt, candidates: int) -> None:
        """Count an evaluated reply with this number of `candidates`. New programs must also go to `take`."""
        self.tells += 1
        self.proposed += candidates if not prompt.kind.is_free else 0
        self.joined += candidates if prompt.kind is PromptKind.JOIN else 0

    def take(
        self, program: Program, evaluation: Evaluation, parent: ShownProgram | None = None, idea: str = ""
    ) -> None:
        """Add an evaluated program and update `best`. `idea` describes how the program changes `parent`."""
        changes: tuple[Change, ...] = ()
        if idea and parent is not None:
            change = Change(idea, merit(self.problem, parent.evaluation), merit(self.problem, evaluation))
            changes = (*parent.changes, change)[-CHANGES:]
        new = ShownProgram(program, evaluation, changes)
        self.programs.add(new)
        found = merit(self.problem, evaluation)
        rank = (found, evaluation.passed, evaluation.status is Status.OK, -len(program.source))
        if rank > self._rank:
            if rank[:2] > self._rank[:2]:
                self._improved_at = self.proposed
            self.best, self._rank = new, rank
        score = None if self.problem.has_one_score else number(dict(evaluation.metrics or ()).get(COMBINED))
        self._reached = max(self._reached, found if score is None else score)
