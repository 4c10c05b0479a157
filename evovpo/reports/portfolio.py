"""The portfolio of a run: the best set of programs, and the coverage of all programs."""

from typing import NamedTuple

import numpy as np
from rich.table import Column, Table
from rich.text import Text

from evovpo.analysis.doctor.sample_figures import weightings
from evovpo.analysis.grouping import grouped
from evovpo.analysis.portfolio import Coverage, choose_portfolio, coverage_curve
from evovpo.reports.text import one_line, plain_table, right
from evovpo.runs.stored import RunView
from evovpo.store import Store
from evovpo.types import Problem, Rewards


class PortfolioProgram(NamedTuple):
    """A program of a portfolio; its fields are those of `evovpo show --portfolio K --json`."""

    program_id: str
    source: str
    rewards: Rewards
    share: float
    """Of the random weightings, those under which it is the best of the portfolio."""
    together: float
    """E_w max w·r of the portfolio up to this program."""


def read_portfolio(store: Store, view: RunView, size: int, alpha: float = 1.0) -> list[PortfolioProgram]:
    """Return up to `size` programs of a run that together have the highest expected best reward.

    Under weightings of the components that a trainer sees, Dirichlet(alpha): near 0 one component counts at a
    time. Fewer where one more adds nothing.
    """
    vectors = store.vectors([view.run.id])
    if not vectors:
        return []
    rewards_N_D = grouped(view.problem, [vector for _, vector in vectors])
    found = choose_portfolio(rewards_N_D, weightings(rewards_N_D.shape[1], alpha), size)
    chosen = [vectors[place] for place in found.chosen]
    return [
        PortfolioProgram(name, store.program(name).source, rewards, share, expected)
        for (name, rewards), share, expected in zip(chosen, found.shares, found.expected_best, strict=True)
    ]


def read_coverage(view: RunView) -> list[Coverage]:
    """Return how far the programs of a run reached together as it went on; empty with one component."""
    risen = view.summary.risen
    if not risen or len(view.problem.objectives) == 1:
        return []
    rewards_N_D = grouped(view.problem, [vector for _, vector in risen])
    weights = weightings(rewards_N_D.shape[1])
    return coverage_curve(list(zip((at for at, _ in risen), rewards_N_D, strict=True)), weights)


def portfolio_table(problem: Problem, kept: list[PortfolioProgram]) -> Table:
    """Return a row for each program in the order in which they were chosen."""
    title = f"{len(kept)} programs to keep together, each for its share of random weightings"
    table = plain_table(
        *(right(name, no_wrap=True) for name in ("share", "together", "mean")), Column("program"), title=title
    )
    for one in kept:
        mean = float(np.mean(one.rewards))
        cells = (f"{one.share:.0%}", f"{one.together:.3f}", f"{mean:.3f}")
        table.add_row(*cells, Text(one_line(one.source, problem.entry)))
    table.caption = (
        "together: expected best reward of this program and those above it, under weightings drawn from "
        "Dirichlet(--alpha); the set reaches at least 63 % of what the best set of its size does."
    )
    return table


def coverage_text(coverage: list[Coverage]) -> str:
    """Return in one sentence how far the programs of a run reach together; empty if that is not known."""
    if not coverage:
        return ""
    last = coverage[-1]
    return (
        f"All programs together: {last.expected_best:.3f} expected best under random weightings (E_w), "
        f"hypervolume {last.hypervolume:.3f} (sampled, ± .004 at most)"
    )
