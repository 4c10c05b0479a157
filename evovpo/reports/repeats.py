"""The same run for several random seeds: which seeds, and what the runs came to together.

The runs themselves are ordinary ones, made one after another: each is stored and resumed on its own.
"""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Column, Table
from rich.text import Text

from evovpo.reports.run_report import outcome_json
from evovpo.reports.text import plain_table, reward_text, right
from evovpo.runs.request import RunRequest
from evovpo.runs.stored import Outcome
from evovpo.types import Json


class Repeat(NamedTuple):
    """One of several runs that differ in their seed."""

    seed: int
    outcome: Outcome


def with_seed(request: RunRequest, seed: int) -> RunRequest:
    """Return the request with another seed."""
    return dataclasses.replace(request, config=request.config.changed(run={"seed": seed}))


def repeats_table(repeats: Sequence[Repeat]) -> Table:
    """Return a row for each run, below them the means and the deviation of the best, and who ended early."""
    outcomes = [repeat.outcome for repeat in repeats]
    mean, deviation = _best(repeats)
    spread = reward_text(mean) + ("" if deviation is None else f" ± {deviation:.3f}")
    solved = sum(outcome.solved for outcome in outcomes)
    counts = {
        name: statistics.fmean(getattr(outcome, name) for outcome in outcomes)
        for name in ("evaluations", "executed")
    }
    table = plain_table(
        Column("seed", "mean" if deviation is None else "mean ± std", no_wrap=True),
        Column("run", no_wrap=True),
        Column("solved", f"{solved} of {len(outcomes)}", no_wrap=True),
        right("best mean reward", footer=spread),
        *(right(name, footer=f"{mean:.0f}", no_wrap=True) for name, mean in counts.items()),
        show_footer=True,
    )
    for seed, outcome in repeats:
        solved_text = "yes" if outcome.solved else "no"
        figures = (reward_text(outcome.best_mean_reward), str(outcome.evaluations), str(outcome.executed))
        table.add_row(str(seed), outcome.run, solved_text, *figures)
    ends = [f"seed {seed} ended early: {outcome.stopped}" for seed, outcome in repeats if outcome.stopped]
    if ends:
        table.caption, table.caption_justify = Text("\n".join(ends)), "left"
    return table


def repeats_json(repeats: Sequence[Repeat]) -> dict[str, Json]:
    """Return the same for machines: the runs in order, and the figures over all of them.

    `std_of_best` is the sample standard deviation, null for one run; `solved` counts the same runs as
    `solved_train`, and `solved_heldout` is null where the problem has no held-out rows.
    """
    solved = sum(repeat.outcome.solved_train for repeat in repeats)
    heldout = [repeat.outcome.solved_heldout for repeat in repeats]
    mean, deviation = _best(repeats)
    rows: list[Json] = [{"seed": seed, **outcome_json(outcome)} for seed, outcome in repeats]
    return {
        "runs": rows,
        "solved": solved,
        "solved_train": solved,
        "solved_heldout": None if None in heldout else sum(map(bool, heldout)),
        "mean_of_best": mean,
        "std_of_best": deviation,
    }


def _best(repeats: Sequence[Repeat]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation (n - 1 below) of the best rewards; one run has none."""
    best = [repeat.outcome.best_mean_reward for repeat in repeats]
    return statistics.fmean(best), statistics.stdev(best) if len(best) > 1 else None
