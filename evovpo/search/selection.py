"""How parents, inspirations and examples are chosen: pure functions of rewards.

All but `examples` and `goal` take `rewards_N_D` (N programs, D objectives, values in [0, 1]) and a generator,
and return an index into N. Ties are broken by the generator, never by position.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evovpo.search.population import Offered
from evovpo.types import Problem

Matrix = npt.NDArray[np.float64]
Selection = Callable[[Matrix, Sequence[int], np.random.Generator], int]
"""(rewards_N_D, cell number of each program, generator) -> index of the chosen program."""

GOAL_DRAWS = 3
"""Weightings of which a goal is one: more ask for one objective alone, 1 looks at no front."""


def lexicase(rewards_N_D: Matrix, cells_N: Sequence[int], rng: np.random.Generator) -> int:  # noqa: N803
    """Return one program by lexicase selection (Spector 2012; Helmuth et al. 2015).

    Objectives are taken in random order; each keeps only the programs that are best on it. A
    specialist on few objectives has a chance that its mean reward would not give it.
    """
    alive = np.arange(len(rewards_N_D))
    for objective in rng.permutation(rewards_N_D.shape[1]):
        if len(alive) == 1:
            break
        column = rewards_N_D[alive, objective]
        alive = alive[column == column.max()]
    return int(alive[rng.integers(len(alive))])


def dirichlet(rewards_N_D: Matrix, cells_N: Sequence[int], rng: np.random.Generator) -> int:  # noqa: N803
    """Return the best program under one random weighting w ~ Dirichlet(1) (VPO, arXiv 2605.22817)."""
    weighted = rewards_N_D @ rng.dirichlet(np.ones(rewards_N_D.shape[1]))
    return _any_of(np.flatnonzero(weighted >= weighted.max() - 1e-12), rng)


def pareto(rewards_N_D: Matrix, cells_N: Sequence[int], rng: np.random.Generator) -> int:  # noqa: N803
    """Return a program drawn uniformly from the non-dominated ones."""
    return _any_of(np.flatnonzero(non_dominated(rewards_N_D)), rng)


def map_elites(rewards_N_D: Matrix, cells_N: Sequence[int], rng: np.random.Generator) -> int:  # noqa: N803
    """Return a program from a cell drawn uniformly among the filled ones (Mouret and Clune 2015)."""
    cells = np.asarray(cells_N)
    filled = np.unique(cells)
    return _any_of(np.flatnonzero(cells == filled[rng.integers(len(filled))]), rng)


def power_law(rewards_N_D: Matrix, cells_N: Sequence[int], rng: np.random.Generator) -> int:  # noqa: N803
    """Return a program drawn by rank of mean reward, with probability proportional to 1 / rank."""
    order = np.lexsort((rng.random(len(rewards_N_D)), -rewards_N_D.mean(axis=1)))
    weights = 1.0 / np.arange(1, len(order) + 1)
    return int(order[rng.choice(len(order), p=weights / weights.sum())])


def inspirations(rewards_N_D: Matrix, parent: int, count: int, rng: np.random.Generator) -> list[int]:  # noqa: N803
    """Return up to `count` programs that add most to what the parent and earlier picks achieve.

    Greedy on the sum over objectives of the gain over the best so far; programs without gain are
    not shown.
    """
    best = rewards_N_D[parent].copy()
    chosen: list[int] = []
    while len(chosen) < count:
        gains = np.maximum(rewards_N_D - best, 0.0).sum(axis=1)
        if gains.max() <= 1e-12:
            break
        pick = _any_of(np.flatnonzero(gains >= gains.max() - 1e-12), rng)
        chosen.append(pick)
        best = np.maximum(best, rewards_N_D[pick])
    return chosen


def examples(
    pool: Sequence[Offered], parent_id: str, top: int, diverse: int, rng: np.random.Generator
) -> list[Offered]:
    """Return programs to show beside a parent: the `top` best, then up to `diverse` drawn from the rest.

    The pool comes by merit, best first, because sorting it for every ask would cost most of the ask.

    Those drawn have rewards that neither the parent nor another one shown has.
    """
    others = [member for member in pool if member.program_id != parent_id]
    best, rest = others[:top], others[top:]
    known = {member.rewards for member in pool if member.program_id == parent_id}
    known |= {member.rewards for member in best}
    drawn = {rest[index].rewards: rest[index] for index in rng.permutation(len(rest)).tolist()}
    return best + [member for rewards, member in drawn.items() if rewards not in known][:diverse]


def goal(
    problem: Problem, front: Iterable[Sequence[float]], rows: Sequence[int], rng: np.random.Generator
) -> tuple[float, ...]:
    """Return a weight for each objective, 1 in all, under which the best vector of a front is worth little.

    Of `GOAL_DRAWS` weightings w ~ Dirichlet(1) it is the one under which that is worth least. By example only
    the training `rows` that a prompt shows weigh anything.
    """
    count = len(problem.objectives)
    columns = rows if problem.is_by_example else range(count)
    weights_K_D = np.zeros((GOAL_DRAWS, count))  # noqa: N806
    weights_K_D[:, columns] = rng.dirichlet(np.ones(len(columns)), GOAL_DRAWS)
    rewards_N_D = np.array([*front]).reshape(-1, count)  # noqa: N806
    worth_K = (weights_K_D @ rewards_N_D.T).max(axis=1, initial=0.0)  # noqa: N806
    return tuple(weights_K_D[worth_K.round(9).argmin()].tolist())


def non_dominated(rewards_N_D: Matrix) -> npt.NDArray[np.bool_]:  # noqa: N803
    """Return the mask (N) of programs that no other program dominates; equal vectors all stay."""
    at_least = (rewards_N_D[:, None, :] >= rewards_N_D[None, :, :]).all(axis=2)
    better = (rewards_N_D[:, None, :] > rewards_N_D[None, :, :]).any(axis=2)
    return np.asarray(~(at_least & better).any(axis=0))


def _any_of(indices: npt.NDArray[np.intp], rng: np.random.Generator) -> int:
    return int(indices[rng.integers(len(indices))])


SELECTIONS: dict[str, Selection] = {
    "lexicase": lexicase,
    "dirichlet": dirichlet,
    "pareto": pareto,
    "map-elites": map_elites,
    "power-law": power_law,
}
"""The ways to select a parent, by the names that the configuration knows."""
