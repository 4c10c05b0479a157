"""What a run came to."""

from typing import NamedTuple

from evovpo.judging.evaluator import Judge
from evovpo.problem.openevolve.scores import best_combined
from evovpo.search.search import Search
from evovpo.store import Store
from evovpo.types import Evaluation, Trust


class Outcome(NamedTuple):
    """What a run came to; `evovpo evolve --json` prints these fields and the properties `solved_...`."""

    run: str
    solved: bool
    """As `solved_train`."""
    best_mean_reward: float
    """What the search looks for: of the program `best_mean_program_id`, not always of `program`."""
    train_passed: int
    """By the program with the best mean reward, as `train_total` rows or objectives allow."""
    train_total: int
    heldout_passed: int
    heldout_total: int
    evaluations: int
    """Candidates proposed and judged over the whole run."""
    executed: int
    """Of these and the starting programs, how many the sandbox ran."""
    joins: int
    seconds: float
    """Wall-clock seconds of this process's part of the run."""
    program: str
    """Source of the best program: by `combined_score` where there is one, else by mean reward."""
    stopped: str = ""
    """Why it ended before its evaluations were used, other than by being solved; empty if it did not."""
    trust: str = str(Trust.HIGH)
    """`high`, or `low` where candidate and evaluator shared a process."""
    combined_score: float | None = None
    """The highest of the run, and then `program` is the one that has it; none without such a metric."""
    program_id: str = ""
    program_mean_reward: float = 0.0
    """Of `program`; below `best_mean_reward` where another program has that."""
    best_mean_program_id: str = ""
    """Of the program with the best mean reward."""

    @property
    def solved_train(self) -> bool:
        """Every training row (or objective) at full reward, by the program with the best mean reward."""
        return self.solved

    @property
    def solved_heldout(self) -> bool | None:
        """Solved, and the same program right on every held-out row; `None` where there are none."""
        return self.solved and self.heldout_passed == self.heldout_total if self.heldout_total else None

    @property
    def is_by_score(self) -> bool:
        """True if `program` is the best by `combined_score`, and another one has the best mean reward."""
        return self.combined_score is not None and self.program_id != self.best_mean_program_id


def read_outcome(search: Search, evaluator: Judge, store: Store, seconds: float) -> Outcome:
    """Return what the search of a stored run came to, with its best program run on the held-out rows."""
    best = search.best
    assert best is not None, "a run starts by judging the problem's starting programs"
    heldout = evaluator.evaluate_heldout(best.program) if search.problem.heldout else ()
    summary = store.run_summary(search.run_id)
    scored = best_combined(store.scores(search.run_id)) if search.problem.evaluator else None
    program, mean = best.program, best.mean_reward
    if scored is not None:
        program = store.program(scored.program_id)
        mean = mean_reward(store.known_evaluation(search.problem.version, program.id))
    return Outcome(
        run=search.run_id,
        solved=search.is_solved,
        best_mean_reward=best.mean_reward,
        train_passed=best.passed,
        train_total=len(search.problem.objectives),
        heldout_passed=sum(heldout),
        heldout_total=len(heldout),
        evaluations=search.proposed,
        executed=summary.executed,
        joins=search.joined,
        seconds=round(seconds, 3),
        program=program.source,
        stopped=search.stop_reason if not search.is_solved else "",
        trust=str(search.problem.trust),
        combined_score=None if scored is None else scored.combined,
        program_id=program.id,
        program_mean_reward=mean,
        best_mean_program_id=best.program.id,
    )


def mean_reward(evaluation: Evaluation | None) -> float:
    """Return the mean of a judgement's rewards; 0 where there is none."""
    rewards = (evaluation.rewards if evaluation else None) or (0.0,)
    return sum(rewards) / len(rewards)
