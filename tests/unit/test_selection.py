"""Parent selection and inspirations against hand-worked cases and slow versions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import PLAIN
from toy_runs import PROBLEM

from evovpo.config import SelectionName
from evovpo.search.population import Member, by_merit
from evovpo.search.selection import (
    GOAL_DRAWS,
    SELECTIONS,
    examples,
    goal,
    inspirations,
    lexicase,
    map_elites,
    non_dominated,
    power_law,
)

MATRIX = np.array(
    [
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 1.0],
        [0.0, 1.0, 0.5],
        [1.0, 0.0, 0.0],
        [0.5, 0.5, 0.5],
    ]
)
CELLS = [0, 0, 1, 2, 2]
matrices = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * d), min_size=1, max_size=12)
)


def frequencies(name: str, matrix: np.ndarray, draws: int = 4000) -> list[float]:
    rng = np.random.default_rng(5)
    cells = CELLS if len(matrix) == len(CELLS) else [0] * len(matrix)
    counts = Counter(SELECTIONS[name](matrix, cells, rng) for _ in range(draws))
    return [counts[index] / draws for index in range(len(matrix))]


def test_every_configured_selection_exists() -> None:
    assert set(SELECTIONS) == set(get_args(SelectionName))


def test_lexicase_draws_as_often_as_enumerating_all_orders_says() -> None:
    expected = np.zeros(len(MATRIX))
    orders = list(itertools.permutations(range(3)))
    for order in orders:
        alive = list(range(len(MATRIX)))
        for objective in order:
            best = max(MATRIX[i, objective] for i in alive)
            alive = [i for i in alive if MATRIX[i, objective] == best]
        for index in alive:
            expected[index] += 1 / len(alive) / len(orders)
    assert np.allclose(frequencies("lexicase", MATRIX), expected, atol=0.03)


def test_lexicase_finds_the_specialist_that_a_mean_would_never_pick() -> None:
    specialist_and_generalists = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 1.0, 1.0, 1.0], [0.5, 1.0, 1.0, 1.0]])
    shares = frequencies("lexicase", specialist_and_generalists)
    assert shares[0] == pytest.approx(1 / 4, abs=0.03)
    assert shares[1] == pytest.approx(shares[2], abs=0.04)


def test_dirichlet_picks_each_axis_of_one_hot_programs_equally_often() -> None:
    assert np.allclose(frequencies("dirichlet", np.eye(4)), 1 / 4, atol=0.03)


@given(matrices, st.integers(0, 10_000))
def test_lexicase_dirichlet_and_pareto_never_pick_a_dominated_program(
    rows: list[tuple[float, ...]], seed: int
) -> None:
    matrix = np.array(rows)
    for name in ("lexicase", "pareto"):
        pick = SELECTIONS[name](matrix, [0] * len(rows), np.random.default_rng(seed))
        assert non_dominated(matrix)[pick]
    pick = SELECTIONS["dirichlet"](matrix, [0] * len(rows), np.random.default_rng(seed))
    assert not any((matrix[other] > matrix[pick]).all() for other in range(len(rows)))


def test_pareto_draws_uniformly_from_the_front() -> None:
    assert np.allclose(frequencies("pareto", MATRIX), [1 / 4, 1 / 4, 0, 1 / 4, 1 / 4], atol=0.03)


def test_map_elites_draws_cells_uniformly_and_then_programs() -> None:
    assert np.allclose(frequencies("map-elites", MATRIX), [1 / 6, 1 / 6, 1 / 3, 1 / 6, 1 / 6], atol=0.03)


def test_map_elites_takes_any_cell_numbers() -> None:
    assert map_elites(np.ones((2, 1)), [7, 7], np.random.default_rng(0)) in (0, 1)


def test_power_law_draws_by_rank_of_the_mean() -> None:
    matrix = np.array([[0.1, 0.1], [0.9, 0.9], [0.5, 0.5]])
    total = 1 + 1 / 2 + 1 / 3
    assert np.allclose(frequencies("power-law", matrix), [1 / 3 / total, 1 / total, 1 / 2 / total], atol=0.03)


def test_power_law_shares_a_rank_among_equals() -> None:
    shares = frequencies("power-law", np.ones((2, 2)))
    assert shares[0] == pytest.approx(1 / 2, abs=0.03)


@given(matrices)
def test_non_dominated_is_what_comparing_every_pair_gives(rows: list[tuple[float, ...]]) -> None:
    slow = [
        not any(
            all(o >= m for o, m in zip(other, mine, strict=True))
            and any(o > m for o, m in zip(other, mine, strict=True))
            for other in rows
        )
        for mine in rows
    ]
    assert non_dominated(np.array(rows)).tolist() == slow


@given(matrices, st.integers(0, 10_000))
def test_a_selection_is_a_function_of_the_generator_and_an_index(
    rows: list[tuple[float, ...]], seed: int
) -> None:
    matrix = np.array(rows)
    for select in SELECTIONS.values():
        picks = {select(matrix, [0] * len(rows), np.random.default_rng(seed)) for _ in range(2)}
        assert len(picks) == 1
        assert picks <= set(range(len(rows)))


@pytest.mark.parametrize("select", [lexicase, power_law])
def test_ties_are_broken_by_the_generator_and_not_by_position(select: object) -> None:
    assert callable(select)
    rng = np.random.default_rng(0)
    assert {select(np.ones((3, 2)), [0, 0, 0], rng) for _ in range(50)} == {0, 1, 2}


def test_inspirations_are_what_adds_most_to_the_parent_one_after_the_other() -> None:
    matrix = np.array([[1.0, 0, 0, 0], [1.0, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0.5]])
    rng = np.random.default_rng(0)
    assert inspirations(matrix, 0, 1, rng) in ([2], [3])
    assert {tuple(inspirations(matrix, 1, 3, np.random.default_rng(seed))) for seed in range(20)} == {(2,)}


def test_inspirations_without_gain_are_not_shown() -> None:
    assert inspirations(np.array([[1.0, 1.0], [1.0, 0.0]]), 0, 5, np.random.default_rng(0)) == []
    assert inspirations(MATRIX, 0, 0, np.random.default_rng(0)) == []


@given(matrices, st.integers(0, 1000))
def test_inspirations_each_raise_the_best_of_the_set(rows: list[tuple[float, ...]], seed: int) -> None:
    matrix = np.array(rows)
    picks = inspirations(matrix, 0, 3, np.random.default_rng(seed))
    best = matrix[0]
    for pick in picks:
        raised = np.maximum(best, matrix[pick])
        assert (raised > best).any()
        gains = np.maximum(matrix - best, 0).sum(axis=1)
        assert gains[pick] == pytest.approx(gains.max())
        best = raised


def scored(name: str, reward: float) -> Member:
    return Member(name, name, (reward,), 0)


POOL = [
    scored("parent", 0.5),
    scored("best", 0.9),
    scored("second", 0.8),
    scored("like parent", 0.5),
    scored("like best", 0.9),
    scored("one", 0.25),
    scored("two", 0.25),
    scored("three", 0.125),
]


def shown(top: int, diverse: int, seed: int = 0) -> list[str]:
    found = examples(by_merit(POOL), "parent", top, diverse, np.random.default_rng(seed))
    return [member.program_id for member in found]


def test_examples_are_the_best_by_rank_then_others_of_which_no_two_have_the_same_rewards() -> None:
    assert shown(2, 0) == ["best", "like best"]
    assert shown(0, 0) == []
    drawn = [shown(1, 9, seed) for seed in range(40)]
    assert all(names[0] == "best" for names in drawn)
    # Never the parent, nor what scores as one of those shown.
    assert {frozenset(names[1:]) for names in drawn} == {
        frozenset({"second", "three", "one"}),
        frozenset({"second", "three", "two"}),
    }
    assert Counter(name for seed in range(400) for name in shown(1, 1, seed)[1:]).keys() == {
        "second", "one", "two", "three",
    }  # fmt: skip


def test_examples_follow_from_the_generator() -> None:
    assert shown(1, 2, 5) == shown(1, 2, 5)
    assert len({tuple(shown(1, 2, seed)) for seed in range(40)}) > 3


# Goals


@pytest.mark.parametrize(
    ("front", "worth"),
    [
        ([(1.0, 0.0)], lambda w: w[0]),
        ([(0.9, 0.1), (0.2, 0.6)], lambda w: max(0.9 * w[0] + 0.1 * w[1], 0.2 * w[0] + 0.6 * w[1])),
    ],
)
def test_a_goal_is_the_weighting_under_which_the_best_program_is_worth_least(
    front: list[tuple[float, float]], worth: Callable[[np.ndarray], float]
) -> None:
    drawn = np.random.default_rng(3).dirichlet([1.0, 1.0], GOAL_DRAWS)
    assert goal(PLAIN, front, (), np.random.default_rng(3)) == tuple(min(drawn, key=worth))


@pytest.mark.parametrize("front", [[], [(0.0, 0.0)], [(1.0, 1.0)]])
def test_a_front_that_lacks_all_or_nothing_leaves_the_first_draw(front: list[tuple[float, float]]) -> None:
    drawn = np.random.default_rng(3).dirichlet([1.0, 1.0], GOAL_DRAWS)
    assert goal(PLAIN, front, (), np.random.default_rng(3)) == tuple(drawn[0])


def test_by_example_only_the_rows_that_a_prompt_shows_weigh_anything() -> None:
    front = [(1.0,) * len(PROBLEM.train)]
    weights = goal(PROBLEM, front, (2, 0), np.random.default_rng(0))
    assert sum(weights) == pytest.approx(1.0)
    assert [index for index, weight in enumerate(weights) if weight] == [0, 2]
