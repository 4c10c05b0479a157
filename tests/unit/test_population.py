"""Fronts, grids and islands against hand-worked cases and a slow archive."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import member

from evovpo.search.population import (
    CELL_CAPACITY,
    LEARNING_PROGRAMS,
    Front,
    Grid,
    InsertionStatus,
    Island,
    Member,
)
from evovpo.types import Feature

vectors = st.lists(
    st.tuples(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 3), st.integers(1, 5)), min_size=1, max_size=25
)


def members(rows: Sequence[tuple[Sequence[float], int]]) -> list[Member]:
    """Return members with the given vectors and lengths of source; all sources differ."""
    return [
        member(chr(ord("A") + order) * length, rewards, order) for order, (rewards, length) in enumerate(rows)
    ]


def dominates(one: Member, other: Member) -> bool:
    pairs = list(zip(one.rewards, other.rewards, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def offer(front: Front, new: Sequence[Member]) -> None:
    for each in new:
        front.insert(each)


@given(vectors)
def test_a_front_with_room_holds_the_shortest_of_each_non_dominated_vector(
    rows: list[tuple[tuple[float, ...], int]],
) -> None:
    offered = members(rows)
    front = Front(1000)
    offer(front, offered)
    best: dict[tuple[float, ...], Member] = {}
    for each in offered:
        if not any(dominates(other, each) for other in offered):
            twin = best.get(each.rewards)
            if twin is None or len(each.source) < len(twin.source):
                best[each.rewards] = each
    assert {m.program_id for m in front.members} == {m.program_id for m in best.values()}


@given(vectors, st.integers(1, 3))
def test_a_front_never_exceeds_its_capacity_and_nothing_in_it_is_dominated(
    rows: list[tuple[tuple[float, ...], int]], capacity: int
) -> None:
    front = Front(capacity)
    for each in members(rows):
        before = list(front.members)
        stayed = front.insert(each)
        assert stayed == (each in front.members)
        assert stayed or front.members == before
        assert len(front.members) <= capacity
        assert not any(a.replaces(b) for a in front.members for b in front.members)


def test_of_equal_vectors_the_shorter_stays_and_of_equal_lengths_the_older() -> None:
    old, equal, shorter = member("bb", (1, 0), 0), member("cc", (1, 0), 1), member("d", (1, 0), 2)
    front = Front(4)
    assert front.insert(old)
    assert not front.insert(equal)
    assert front.insert(shorter)
    assert front.members == [shorter]


def test_a_full_front_gives_up_the_member_whose_loss_costs_least() -> None:
    # Without the second the maxima fall by 0.1 in all; without another by more.
    first, second, third = (
        member("a", (1, 0, 0), 0),
        member("b", (0.9, 0.6, 0), 1),
        member("c", (0, 0.5, 1), 2),
    )
    front = Front(2)
    offer(front, [first, second, third])
    assert front.members == [first, third]


def test_a_full_front_refuses_the_newcomer_whose_loss_costs_least() -> None:
    kept = [member("a", (1, 0, 0), 0), member("c", (0, 0.5, 1), 1)]
    front = Front(2)
    offer(front, kept)
    assert not front.insert(member("b", (0.9, 0.6, 0), 2))
    assert front.members == kept


def test_inserting_a_member_again_changes_nothing() -> None:
    front = Front(3)
    each = member("a", (1, 0), 0)
    assert front.insert(each)
    assert not front.insert(each)
    assert front.members == [each]


def grid_over(*features: Feature) -> Grid:
    return Grid(features, ["row-1", "row-2"])


def test_declared_edges_are_used_as_they_are_from_the_start() -> None:
    grid = grid_over(Feature("length", (2.0, 4.0)), Feature("reward:row-2", (0.5,)))
    assert grid.is_frozen
    assert grid.cell(member("a", (1, 0.0))) == (0, 0)
    assert grid.cell(member("ab", (1, 0.5))) == (1, 1)
    assert grid.cell(member("abcde", (1, 1.0))) == (2, 1)


def test_undeclared_edges_are_quantiles_of_the_first_programs() -> None:
    grid = grid_over(Feature("length", bins=4))
    lengths = [number + 1 for number in range(LEARNING_PROGRAMS)]
    froze = [grid.learn(member("x" * length, (0, 0))) for length in lengths]
    assert froze == [False] * (LEARNING_PROGRAMS - 1) + [True]
    assert grid.edges == ((8.75, 16.5, 24.25),)


def test_learned_edges_never_change_after_they_are_frozen() -> None:
    grid = grid_over(Feature("length"))
    for length in range(1, LEARNING_PROGRAMS + 1):
        grid.learn(member("x" * length, (0, 0)))
    frozen = grid.edges
    probe = member("x" * 20, (0, 0))
    cell = grid.cell(probe)
    for _ in range(3 * LEARNING_PROGRAMS):
        assert not grid.learn(member("y" * 5000, (0, 0)))
    assert (grid.edges, grid.cell(probe)) == (frozen, cell)


def test_programs_of_one_length_give_one_edge_and_not_many_empty_bins() -> None:
    grid = grid_over(Feature("length", bins=8))
    for _ in range(LEARNING_PROGRAMS):
        grid.learn(member("xxx", (0, 0)))
    assert grid.edges == ((3.0,),)


def island_with(edges: tuple[float, ...] = (3.0,), elites: int = 4) -> Island:
    return Island(0, elites, grid_over(Feature("length", edges)))


def test_an_island_says_what_became_of_each_program() -> None:
    island = island_with()
    assert island.insert(member("a", (1, 0), 0)) is InsertionStatus.NEW_CELL
    assert island.insert(member("b", (0, 1), 1)) is InsertionStatus.IMPROVED
    assert island.insert(member("c", (0, 0), 2)) is InsertionStatus.REJECTED
    # Dominated in the archive, but the first of its cell.
    assert island.insert(member("long", (0, 0), 3)) is InsertionStatus.NEW_CELL
    assert [m.source for m in island.elites] == ["a", "b"]
    assert [m.source for m in island.members] == ["a", "b", "long"]
    assert island.rewards_N_D.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert island.cells_N == [0, 0, 1]


def test_what_an_island_shows_follows_every_change() -> None:
    island = island_with()
    for order, (text, rewards) in enumerate(
        [("aa", (1, 0)), ("bb", (0, 1)), ("c", (1, 0)), ("dddd", (1, 1))]
    ):
        island.insert(member(text, rewards, order))
        assert island.rewards_N_D.tolist() == [list(m.rewards) for m in island.members]
        assert len(island.cells_N) == len(island.members)
    assert [m.source for m in island.members] == ["bb", "c", "dddd"]


def test_a_cell_holds_no_more_than_its_capacity() -> None:
    island = Island(0, 1, Grid([Feature("length", (9.0,))], ["a", "b", "c", "d"]))
    pairs = [(first, second) for first in range(4) for second in range(first)]
    for order, pair in enumerate(pairs):
        island.insert(member(f"p{order}", [float(place in pair) for place in range(4)], order))
    assert len(pairs) > CELL_CAPACITY
    assert [len(ids) for ids in island.filled_cells.values()] == [CELL_CAPACITY]


def test_cells_hold_only_members_that_belong_there() -> None:
    island = island_with(edges=(2.0, 3.0), elites=1)
    for order in range(40):
        bits = [float(order >> bit & 1) for bit in range(2)]
        island.insert(member(chr(65 + order % 26) * (1 + order % 4), bits, order))
    placed = {program_id: cell for cell, ids in island.filled_cells.items() for program_id in ids}
    edges = (2.0, 3.0)
    for each in island.members:
        if each.program_id in placed:
            assert placed[each.program_id] == (sum(len(each.source) >= edge for edge in edges),)


def test_the_archive_is_placed_in_cells_when_the_edges_freeze() -> None:
    grid = grid_over(Feature("length", bins=2))
    island = Island(0, 8, grid)
    programs = [
        member("x" * (order + 1), (order % 2, 1 - order % 2), order) for order in range(LEARNING_PROGRAMS)
    ]
    for each in programs:
        if grid.learn(each):
            island.fill_cells()
        assert island.filled_cells == {} or grid.is_frozen
        island.insert(each)
    assert {m.program_id for m in island.elites} <= {
        program_id for ids in island.filled_cells.values() for program_id in ids
    }


@pytest.mark.parametrize("elites", [1, 32])
def test_members_are_listed_oldest_first_once_each(elites: int) -> None:
    island = island_with(elites=elites)
    for order in range(30):
        island.insert(
            member(f"{order:x}" * (1 + order % 5), [float(order >> bit & 1) for bit in range(2)], order)
        )
    orders = [m.order for m in island.members]
    assert orders == sorted(set(orders))
