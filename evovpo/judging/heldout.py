"""Whether a program that was found is right on the rows that no search saw; for reports only."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from evovpo.judging.evaluator import Evaluator
from evovpo.sandbox import Sandbox
from evovpo.types import Problem, Program


class HeldoutJudge:
    """Judges programs of any problems; a context manager that keeps one sandbox open once it is needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def solved_heldout(self, problem: Problem, solution: Program | None) -> bool | None:
        """Return whether a program that is right on all training rows is right on all held-out rows too.

        False for no solution; `None` where the problem has no held-out rows. Raises `SandboxError`.
        """
        if not problem.heldout:
            return None
        if solution is None:
            return False
        if self._sandbox is None:
            self._sandbox = self._stack.enter_context(Sandbox(workers=1, preload=()))
        return all(Evaluator(problem, self._sandbox).evaluate_heldout(solution))
