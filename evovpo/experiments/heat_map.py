"""The different reward vectors that a batch reached on a problem, read from the store."""

import itertools
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.experiments.results import Results
from evovpo.store import Store

_VECTORS_SHOWN = 24
"""Rows of a heat map."""


class HeatMap(NamedTuple):
    """The best different reward vectors that any cell reached on a problem, with a program for each."""

    problem: str
    components: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]
    """Id and source of the shortest program with each vector, best mean reward first."""
    alike: tuple[int, ...]
    """How many different programs have each vector."""
    rewards_N_D: npt.NDArray[np.float64]  # noqa: N815
    vectors: int
    """Different vectors, those included that are not here."""
    judged: int
    """Different programs that were judged for the problem."""


def read_heat_map(store: Store, results: Results, problem: str) -> HeatMap | None:
    """Return the best vectors of a problem over all cells; none if nothing was judged."""
    begun = (result.cell for result in results.cells if result.status is not None)
    runs = [cell.run_id for cell in begun if cell.problem_id == problem]
    judged = store.vectors(runs)
    if not judged:
        return None
    first: dict[tuple[float, ...], str] = {}
    counts: Counter[tuple[float, ...]] = Counter()
    for program, vector in judged:
        first.setdefault(vector, program)
        counts[vector] += 1
    shown = dict(itertools.islice(first.items(), _VECTORS_SHOWN))
    run = store.run(runs[0])
    objectives = store.problem(run.problem_id, run.problem_version).objectives
    return HeatMap(
        problem=problem,
        components=tuple(objective.name for objective in objectives),
        programs=tuple((program, store.program(program).source) for program in shown.values()),
        alike=tuple(counts[vector] for vector in shown),
        rewards_N_D=np.array(list(shown)),
        vectors=len(first),
        judged=len(judged),
    )
