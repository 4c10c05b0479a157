"""Whether a program that was found is right on the rows that no search saw; for reports only."""

from contextlib import ExitStack
from functools import cached_property

from evovpo.judging.evaluator import Evaluator
from evovpo.sandbox import Sandbox
from evovpo.types import Problem, Program


class HeldoutJudge(ExitStack):
    """Judges programs of any problems; a context manager that keeps one sandbox open once it is needed."""

    @cached_property
    def _sandbox(self) -> Sandbox:
        return self.enter_context(Sandbox(workers=1, preload=()))

    def solved_heldout(self, problem: Problem, solution: Program | None) -> bool | None:
        """Return whether a program that is right on all training rows is right on all held-out rows too.

        False for no solution; `None` where the problem has no held-out rows. Raises `SandboxError`.
        """
        if not problem.heldout:
            return None
        return solution is not None and all(Evaluator(problem, self._sandbox).evaluate_heldout(solution))
