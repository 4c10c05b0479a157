"""The different reward vectors that a batch reached on a problem, read from the store."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.experiments.results import Results
from evovpo.store import Store, unescape_text

_VECTORS_SHOWN = 24
"""Rows of a heat map."""
_CHUNK = 500
"""Evaluations whose rewards are read at a time."""


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
    runs = [result.cell.run_id for result in results.cells if result.cell.problem_id == problem]
    marks = {f"run{number}": run for number, run in enumerate(runs)}
    of_runs = ", ".join(f":{name}" for name in marks)
    judged = store.query(
        "SELECT candidates.program_id AS program, max(candidates.evaluation_id) AS evaluation, "
        "max(length(programs.source)) AS length, max(means.mean_reward) AS mean_reward "
        "FROM candidates JOIN programs ON programs.id = candidates.program_id "
        "JOIN (SELECT evaluation_id, avg(value) AS mean_reward FROM rewards "
        f"WHERE evaluation_id IN (SELECT evaluation_id FROM candidates WHERE run_id IN ({of_runs})) "
        "GROUP BY evaluation_id) AS means "
        "ON means.evaluation_id = candidates.evaluation_id "
        f"WHERE candidates.run_id IN ({of_runs}) GROUP BY candidates.program_id "
        "ORDER BY mean_reward DESC, length, program",
        **marks,
    )
    if not judged:
        return None
    first: dict[tuple[float, ...], str] = {}
    counts: Counter[tuple[float, ...]] = Counter()
    for start in range(0, len(judged), _CHUNK):
        chunk = judged[start : start + _CHUNK]
        vectors = _vectors(store, [str(row["evaluation"]) for row in chunk])
        for row in chunk:
            vector = vectors[str(row["evaluation"])]
            first.setdefault(vector, str(row["program"]))
            counts[vector] += 1
    shown = dict(itertools.islice(first.items(), _VECTORS_SHOWN))
    sources = [
        store.query("SELECT source FROM programs WHERE id = :id", id=program)[0]["source"]
        for program in shown.values()
    ]
    named = store.query(
        "SELECT name FROM rewards WHERE evaluation_id = :evaluation ORDER BY objective",
        evaluation=judged[0]["evaluation"],
    )
    return HeatMap(
        problem=problem,
        components=tuple(unescape_text(str(row["name"])) for row in named),
        programs=tuple(
            (program, unescape_text(str(source)))
            for program, source in zip(shown.values(), sources, strict=True)
        ),
        alike=tuple(counts[vector] for vector in shown),
        rewards_N_D=np.array(list(shown)),
        vectors=len(first),
        judged=len(judged),
    )


def _vectors(store: Store, evaluations: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Return the reward vectors of evaluations, by id."""
    marks = {f"e{number}": evaluation for number, evaluation in enumerate(evaluations)}
    found: dict[str, list[float]] = {}
    for row in store.query(
        "SELECT evaluation_id, value FROM rewards "
        f"WHERE evaluation_id IN ({', '.join(f':{name}' for name in marks)}) "
        "ORDER BY evaluation_id, objective",
        **marks,
    ):
        found.setdefault(str(row["evaluation_id"]), []).append(float(row["value"]))
    return {evaluation: tuple(values) for evaluation, values in found.items()}
