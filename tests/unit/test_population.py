"""Islands, fronts, the grid and its cells, against hand-worked cases and slow versions."""

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import PLAIN, judge
from toy_runs import member

from evovpo.search.population import (
    DRIFT_GAIN,
    SIDE_GAIN,
    Grid,
    InsertionStatus,
    Island,
    Member,
    Population,
    by_merit,
)
from evovpo.types import Evaluation, Feature, Problem, Program, Status

vectors = st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 3), min_size=1, max_size=30)
numbers = st.lists(
    st.tuples(st.sampled_from([-40.0, 0.0, 1.0, 3.0, 3.5, 60.0]), st.sampled_from([0.0, 0.5, 1.0])),
    min_size=1,
    max_size=25,
)
"""Pairs of where a program lies on the axis and what it is worth."""


def members(rows: Sequence[Sequence[float]]) -> list[Member]:
    """Return members with these rewards, in order; all sources differ."""
    return [member(f"program {order}", rewards, order) for order, rewards in enumerate(rows)]


def filled(new: Sequence[Member], capacity: int = 100) -> Island:
    island = Island(0, capacity)
    for one in new:
        island.insert(one)
    return island


def dominates(one: Member, other: Member) -> bool:
    pairs = list(zip(one.rewards, other.rewards, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def with_axis(name: str, edges: tuple[float, ...] = (), bins: int = 4) -> Problem:
    return dataclasses.replace(PLAIN, features=(Feature(name, edges, bins),))


def found(program: Program, rewards: tuple[float, float], **metrics: float) -> Evaluation:
    return dataclasses.replace(judge(program), rewards=rewards, metrics=tuple(metrics.items()) or None)


def insert(people: Population, name: str, rewards: tuple[float, float], **metrics: float) -> Member:
    """Insert a program under a name that begins with a number, at island 0."""
    program = Program(f"0 0 # {name}")
    return people.insert(program, found(program, rewards, **metrics), 0)[0]


@given(vectors, st.integers(1, 6))
def test_an_island_keeps_its_bounds_its_best_and_no_two_of_the_same_rewards(
    rows: list[tuple[float, ...]], capacity: int
) -> None:
    island = Island(0, capacity)
    best: tuple[float, bool] | None = None
    for one in members(rows):
        island.insert(one)
        best = one.rank if best is None else max(best, one.rank)
        assert len(island.members) <= capacity
        assert len({each.rewards for each in island.members}) == len(island.members)
        assert island.members[0].rank == best
        assert [each.rank for each in island.members] == sorted(
            (each.rank for each in island.members), reverse=True
        )
        assert island.rewards_N_D.tolist() == [list(each.rewards) for each in island.members]


@given(vectors, st.integers(3, 6))
def test_the_best_at_each_component_stays_while_there_is_room_for_one_each(
    rows: list[tuple[float, ...]], capacity: int
) -> None:
    island = Island(0, capacity)
    for number, one in enumerate(members(rows), 1):
        island.insert(one)
        for place in range(3):
            assert max(m.rewards[place] for m in island.members) == max(row[place] for row in rows[:number])


@given(vectors)
def test_an_island_with_room_keeps_the_newest_of_all_rewards_but_zeros(
    rows: list[tuple[float, ...]],
) -> None:
    offered = members(rows)
    newest: dict[tuple[float, ...], Member] = {}
    for one in offered:
        if any(one.rewards) or one.rewards not in newest:
            newest[one.rewards] = one
    assert {one.program_id for one in filled(offered).members} == {one.program_id for one in newest.values()}


@given(vectors, st.integers(1, 6))
def test_a_front_is_what_a_slow_version_says(rows: list[tuple[float, ...]], capacity: int) -> None:
    island = filled(members(rows), capacity)
    slow = [one for one in island.members if not any(dominates(other, one) for other in island.members)]
    assert island.front == slow


def test_a_program_that_failed_does_not_take_the_place_of_one_that_ran() -> None:
    ran, failed = member("a", (0, 0), 0), dataclasses.replace(member("b", (0, 0), 1), is_ok=False)
    island = filled([ran])
    assert island.insert(failed) is InsertionStatus.REJECTED
    assert island.members == [ran]
    assert filled([failed, ran]).members == [ran]


def test_an_island_says_what_became_of_each_program() -> None:
    island = Island(0, 3)
    assert island.insert(member("a", (0.5, 0.5), 0)) is InsertionStatus.IMPROVED
    assert island.insert(member("b", (0.4, 0.4), 1)) is InsertionStatus.KEPT  # dominated, but there is room
    assert island.insert(member("c", (0.1, 0.6), 2)) is InsertionStatus.IMPROVED  # better in one
    assert island.insert(member("d", (0.1, 0.1), 3)) is InsertionStatus.REJECTED  # full of better ones
    assert island.insert(member("e", (0.5, 0.5), 4)) is InsertionStatus.KEPT  # in place of "a"
    assert [one.source for one in island.members] == ["e", "b", "c"]


def test_a_full_island_gives_up_the_lowest_that_is_best_at_nothing() -> None:
    # "b" has a higher mean than "c", which is best at the third component.
    island = filled(members([(0.9, 0.9, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, 0.6)]), 3)
    assert island.insert(member("new", (0.8, 0.8, 0.0), 3)) is InsertionStatus.KEPT
    assert [one.rewards for one in island.members] == [(0.9, 0.9, 0.0), (0.8, 0.8, 0.0), (0.0, 0.0, 0.6)]


def test_where_all_are_best_at_something_the_lowest_in_rank_goes() -> None:
    island = filled(members([(0.9, 0.0, 0.0), (0.0, 0.8, 0.0)]), 2)
    assert island.insert(member("new", (0.0, 0.0, 0.7), 2)) is InsertionStatus.REJECTED
    assert [one.rewards for one in island.members] == [(0.9, 0.0, 0.0), (0.0, 0.8, 0.0)]
    assert island.insert(member("newer", (0.0, 0.0, 1.0), 3)) is InsertionStatus.IMPROVED
    assert [one.rewards for one in island.members] == [(0.0, 0.0, 1.0), (0.9, 0.0, 0.0)]


def test_by_merit_puts_the_shorter_then_the_older_first() -> None:
    rows = [("bb", 0.5, 0), ("a", 0.5, 1), ("c", 0.5, 2), ("ddd", 0.6, 3)]
    ordered = by_merit([member(text, (mean,), order) for text, mean, order in rows])
    assert [one.source for one in ordered] == ["ddd", "a", "c", "bb"]


def grid_over(*features: Feature) -> Grid:
    return Grid(features, ["row-1", "row-2"])


def test_declared_edges_are_used_as_they_are_and_no_range_changes_them() -> None:
    grid = grid_over(Feature("length", (2.0, 4.0)), Feature("reward:row-2", (0.5,)))
    for text, reward, cell in (("a", 0.0, (0, 0)), ("ab", 0.5, (1, 1)), ("abcde" * 99, 1.0, (2, 1))):
        grid.insert(member(text, (1, reward)))
        assert grid.cell(member(text, (1, reward))) == cell
    assert grid.edges == ((2.0, 4.0), (0.5,))


def test_other_axes_have_equal_bins_between_the_lowest_and_the_highest_value() -> None:
    grid = grid_over(Feature("length", bins=4))
    assert grid.edges == ((),)
    assert [grid.insert(member("x" * length, (0, 0))) for length in (10, 10, 18, 14, 30)] == [
        True, False, True, False, True,
    ]  # fmt: skip
    assert grid.edges == ((15.0, 20.0, 25.0),)
    assert [grid.cell(member("x" * length, (0, 0))) for length in (1, 14, 15, 24, 25, 99)] == [
        (0,), (0,), (1,), (2,), (3,), (3,),
    ]  # fmt: skip


def test_axes_of_score_and_metrics_take_their_values() -> None:
    grid = grid_over(Feature("score", (0.5,)), Feature("metric:size", (10.0,)))
    small, large = ((("size", size),) for size in (9, 10.0))
    assert grid.cell(dataclasses.replace(member("a", (0.0, 0.8)), metrics=small)) == (0, 0)
    assert grid.cell(dataclasses.replace(member("a", (0.3, 0.8)), metrics=large)) == (1, 1)


def test_a_program_without_the_number_of_an_axis_is_in_its_first_cell_and_widens_no_range() -> None:
    grid = grid_over(Feature("metric:size", bins=2))
    for size in (10.0, 20.0):
        grid.insert(dataclasses.replace(member("a", (0, 0)), metrics=(("size", size),)))
    for metrics in ((), (("size", "nan"),), (("size", True),)):
        without = dataclasses.replace(member("b", (0, 0)), metrics=metrics)
        assert not grid.insert(without)
        assert grid.cell(without) == (0,)
    assert grid.edges == ((15.0,),)


@given(numbers)
def test_numbering_anew_loses_no_program_that_is_best_of_its_new_cell(
    rows: list[tuple[float, float]],
) -> None:
    """The best of every cell by the slow version is there, but where it had lost an earlier, wider cell."""
    people = Population(with_axis("metric:x"), 1, 100)
    kept: list[Member] = []
    for order, (x, worth) in enumerate(rows):
        new = insert(people, str(order), (worth, worth), x=x)
        candidates = [*kept, new]
        slow: dict[tuple[int, ...], Member] = {}
        for one in candidates:
            cell = people.grid.cell(one)
            if cell not in slow or (one.rank, one.order) >= (slow[cell].rank, slow[cell].order):
                slow[cell] = one
        assert people.cells == slow
        kept = list(slow.values())
    assert max(one.rank for one in kept) == max((worth, True) for _, worth in rows)


def test_visits_go_with_their_programs_when_cells_are_numbered_anew() -> None:
    people = Population(with_axis("metric:x", bins=2), 1, 10)
    insert(people, "low", (0.1, 0.1), x=0.0)
    insert(people, "high", (0.2, 0.2), x=1.0)
    people.visits[(0,)], people.visits[(1,)] = 3, 5
    far = insert(people, "far", (0.3, 0.3), x=10.0)
    assert {cell: one.source for cell, one in people.cells.items()} == {(0,): "0 0 # high", (1,): far.source}
    assert (people.visits[(0,)], people.visits[(1,)]) == (5, 0)


def test_the_leader_is_the_best_by_rank_the_newest_of_equals_with_the_island_it_came_from() -> None:
    people = Population(PLAIN, 3, 10)
    shown = []
    for place, (text, home) in enumerate(
        (("0.5 0.5 # a", 1), ("0.4 0.5 # b", 2), ("0.5 0.5 # c", 2), ("fail", 0))
    ):
        people.insert(Program(text), judge(Program(text)), home)
        assert people.leader is not None
        shown.append((people.leader.source, people.home, people.leader.order <= place))
    assert shown == [("0.5 0.5 # a", 1, True)] * 2 + [("0.5 0.5 # c", 2, True)] * 2


def test_a_program_that_ran_leads_one_of_the_same_reward_that_failed() -> None:
    people = Population(PLAIN, 1, 10)
    for text in ("0 0 # ran", "fail"):
        people.insert(Program(text), judge(Program(text)), 0)
    assert people.leader is not None
    assert people.leader.source == "0 0 # ran"


def test_gain_is_one_for_a_new_best_and_little_for_a_new_best_at_one_component() -> None:
    people = Population(PLAIN, 1, 10)
    gains = []
    for number, rewards in enumerate([(0.5, 0.5), (0.5, 0.5), (0.6, 0.1), (0.1, 0.5), (0.6, 0.5)]):
        insert(people, str(number), rewards)
        gains.append(people.gain)
    assert gains == [1.0, DRIFT_GAIN, SIDE_GAIN, 0.0, 1.0]


def test_a_new_cell_is_a_small_gain_where_the_problem_has_axes() -> None:
    for features, gain in (((Feature("length", (8.0,)),), SIDE_GAIN), ((), 0.0)):
        people = Population(dataclasses.replace(PLAIN, features=features), 1, 10)
        insert(people, "a", (0.5, 0.5))
        insert(people, "a much longer one", (0.1, 0.1))
        assert people.gain == gain


def test_starting_programs_go_to_every_island_and_later_ones_to_their_own() -> None:
    people = Population(with_axis("length", (12.0,)), 3, 10)
    seed, later = Program("0.1 0.1 # seed"), Program("0.9 0.9 # later")
    found_seed, insertions = people.insert(seed, judge(seed), None)
    assert people.seeds == [found_seed]
    assert [(one.island, str(one.status)) for one in insertions] == [
        (0, "new_cell"), (1, "improved"), (2, "improved"),
    ]  # fmt: skip
    _, insertions = people.insert(later, judge(later), 1)
    assert [(one.island, str(one.status)) for one in insertions] == [(1, "improved")]
    assert [[one.source for one in island.members] for island in people.islands] == [
        [seed.source], [later.source, seed.source], [seed.source],
    ]  # fmt: skip
    assert [one.source for one in people.elites.values()] == [seed.source, later.source]


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.ERROR])
def test_a_failed_program_is_known_as_one(status: Status) -> None:
    people = Population(PLAIN, 1, 10)
    program = Program("0.0 0.0 # slow")
    failed = dataclasses.replace(judge(program), status=status)
    assert not people.insert(program, failed, 0)[0].is_ok
