"""Remembers unsuccessful changes (shown in later prompts) and failing programs (to be repaired)."""

import contextlib
from collections import Counter, deque
from collections.abc import Sequence

from evovpo.analysis.scores import compared, failure, merit
from evovpo.prompts.request import Attempt
from evovpo.search.standing import Standing
from evovpo.types import (
    Evaluation,
    JudgedCandidate,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Prompt,
    PromptKind,
    Status,
    Tell,
)

_REPAIRS = 2
_FAILING = 64
_NAMED = 5


def has_failed(problem: Problem, evaluation: Evaluation) -> bool:
    """Return whether a program failed, or the problem's own evaluator returned an error or a score of 0."""
    if evaluation.status is not Status.OK or problem.evaluator is None:
        return evaluation.status.is_candidate_fault
    return (
        bool(failure(dict(evaluation.metrics or ()), evaluation.feedback))
        or merit(problem, evaluation) <= 0.0
    )


class Failures:
    """The latest unsuccessful changes to each program, and the latest failing programs of each island."""

    def __init__(self, standing: Standing, islands: int) -> None:
        self._standing = standing
        self._by_parent: dict[str, deque[Attempt]] = {}
        self._failing: list[deque[str]] = [deque(maxlen=_FAILING) for _ in range(islands)]
        self._repairs: Counter[str] = Counter()

    def attempts(self, parent: str) -> Sequence[Attempt]:
        return self._by_parent.get(parent, ())

    def take(self, island: int) -> Parent | None:
        """Return an island's newest failing program, or None. The same program is returned at most twice."""
        for program_id in reversed(self._failing[island]):
            failing = Parent(program_id, ParentRole.PARENT)
            if self._repairs[program_id] < _REPAIRS and self._standing.can_show(failing):
                self._repairs[program_id] += 1
                return failing
        return None

    def learn(self, prompt: Prompt, tell: Tell, parent: Evaluation | None) -> None:
        """Remember the failures in a reply. `parent` is the evaluation of the changed program."""
        is_mended = False
        homes = self._failing if prompt.kind is PromptKind.SEED else [self._failing[prompt.island]]
        for judged in tell.judged:
            reason = self._reason(judged, parent)
            if reason and parent is not None:
                latest = deque[Attempt](maxlen=self._standing.config.attempts)
                of_parent = self._by_parent.setdefault(parent.program_id, latest)
                of_parent.append(Attempt(judged.candidate.text, reason))
            if judged.evaluation is None or judged.candidate.parse_status is not ParseStatus.PARSED:
                continue
            failed = has_failed(self._standing.problem, judged.evaluation)
            is_mended |= not failed
            if failed:
                for home in homes:
                    home.append(judged.evaluation.program_id)
        if prompt.kind is PromptKind.REPAIR and is_mended and parent is not None:
            with contextlib.suppress(ValueError):
                self._failing[prompt.island].remove(parent.program_id)

    def _reason(self, judged: JudgedCandidate, parent: Evaluation | None) -> str:
        candidate, evaluation = judged.candidate, judged.evaluation
        if candidate.parse_status is ParseStatus.REJECTED:
            return candidate.reason
        if candidate.parse_status is ParseStatus.UNPARSED:
            # An empty slot is not an attempt.
            return candidate.text.strip() and (candidate.reason or "no program could be read from it")
        if (
            candidate.parse_status is ParseStatus.DUPLICATE
            or evaluation is None
            or evaluation.rewards is None
        ):
            return ""
        if evaluation.status.is_candidate_fault:
            return evaluation.feedback or str(evaluation.status)
        problem = self._standing.problem
        old = () if parent is None else compared(problem, parent)
        pairs = list(zip(problem.objectives, compared(problem, evaluation), old, strict=False))
        if not pairs or any(now > before for _, now, before in pairs):
            return ""
        worse = [objective.name for objective, now, before in pairs if now < before][:_NAMED]
        return "no better in anything" + (f", worse in {', '.join(worse)}" if worse else "")
