"""What a run came to."""

from typing import NamedTuple

from evovpo.types import Trust


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
