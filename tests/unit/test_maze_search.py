"""Searches of mazes: prompts show the chosen route, and every search uses its whole budget."""

from __future__ import annotations

import pytest
from mazes import route_rewards, shortest_route

from evovpo.judging.measure import JudgedAnswer
from trainer.domains.arm_training import load_start_model
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import DIAMOND, EXIT, GOLD, LAVA, generate_maze
from trainer.domains.maze.maze_family import (
    MazeFamily,
    prompt_ids,
    route_ids,
    vocabulary,
    walk,
)
from trainer.domains.maze.search import search_mazes, solved_after
from trainer.domains.task_search import Searched, TaskSearch, search_row

MAZE = generate_maze("test-0-1")


def test_a_prompt_shows_a_parent_and_what_it_earned() -> None:
    plain, tokens = prompt_ids(MAZE, 1), vocabulary()
    route = shortest_route(MAZE, MAZE.cells(GOLD)[0])
    for reaches, moves in ((True, route), (False, route[:-1])):
        cells = walk(MAZE, moves).visited[1:]
        shown = prompt_ids(MAZE, 1, moves)[len(plain) - 1 : -1]
        assert shown[: len(cells)] == tuple(route_ids(cells))
        met = {cell for cell in (MAZE.start, *cells) if MAZE.grid[cell] in EXIT + GOLD + DIAMOND + LAVA}
        earned = {f"⟦{MAZE.grid[cell]}{cell // 9}{cell % 9}⟧" for cell in met} if reaches else set()
        assert {tokens[token] for token in shown[len(cells) :]} == earned
        assert reaches == any(route_rewards(MAZE, moves))


def test_a_row_holds_the_figures_of_the_first_routes_by_hand() -> None:
    routes = [JudgedAnswer("U", (0.0, 0.0)), JudgedAnswer("D", (1.0, 0.0)), JudgedAnswer("L", (0.0, 1.0))]
    row = search_row(Searched(routes, 7, solved_after(routes)), [1, 2, 3])
    assert row["best_at_k"] == {"1": 0.0, "2": 0.5, "3": 0.5}
    # E max(w, 1 - w) for a uniform w is 3/4; one answer gets E w = 1/2.
    assert list(row["expected_at_k"].values()) == pytest.approx([0.0, 0.5, 0.75], abs=0.04)
    assert row["pair_at_k"] == {"1": 0.0, "2": 0.0, "3": 1.0}
    assert (row["evaluations"], row["solved_after"], row["is_right"], row["tokens"]) == (3, 3, True, 7)
    assert solved_after(routes[:2]) is None


@pytest.mark.slow
def test_searches_propose_their_budget_and_are_the_same_for_a_seed() -> None:
    family = MazeFamily(model_folder=MAZE_MODEL, shows_parents=True)
    model, mazes = load_start_model(family), family.tasks("test", 2)
    asked: list[str | None] = []

    class Watched(MazeFamily):
        def prompt_ids(self, task: object, answers: int, parent: str | None = None) -> tuple[int, ...]:
            asked.append(parent)
            return family.prompt_ids(task, answers, parent)  # type: ignore[arg-type]

    watched = Watched(model_folder=MAZE_MODEL, shows_parents=True)
    how = TaskSearch(evaluations=16, rollouts=4, temperature=0.5)
    found, again = (search_mazes(model, watched, mazes, how, seed=0) for _ in range(2))
    assert [len(one.answers) for one in found] == [16, 16]
    assert found == again
    assert asked[:2] == [None, None]
    shown = {route.key for one in found for route in one.answers}
    assert {parent for parent in asked if parent is not None} <= shown
    assert any(parent is not None for parent in asked)
