"""The bundled maze problems: mazes of the generator, usable, and scored as the trainer scores."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mazes import route_rewards

from evovpo.judging.check import check_problem
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite
from trainer.domains.maze.generator import MOVES, generate_maze
from trainer.domains.maze.maze_family import COMPONENTS

SUITE = Path(__file__).resolve().parents[2] / "problems" / "maze"


def scorer(name: str) -> Callable[[list[Any]], dict[str, float]]:
    maze = generate_maze(name)
    names: dict[str, Any] = {}
    exec((SUITE / name / "score.py").read_text(), names)
    assert names["cases"]() == [[list(maze.rows), maze.budget]]
    score: Callable[[list[Any]], dict[str, float]] = names["score"]
    return score


def test_the_suite_lists_six_problems_that_load_with_four_objectives() -> None:
    entries = load_suite(SUITE)
    assert len(entries) == 6
    for entry in entries:
        problem = load_problem(entry.path)
        assert tuple(objective.name for objective in problem.objectives) == COMPONENTS
        assert (problem.entry, problem.parameters) == ("route", ("grid", "budget"))
        assert "\n".join(generate_maze(entry.path.name).rows) in problem.statement


@pytest.mark.parametrize("name", ["maze-1", "maze-3"])
def test_the_check_passes_and_the_starting_program_scores_what_it_says(name: str) -> None:
    report = check_problem(SUITE / name)
    assert report.warnings == ()
    (seed,) = report.seeds
    said = ", ".join(
        f"{component} {value:.3f}"
        for component, value in zip(COMPONENTS, seed.evaluation.rewards, strict=True)
    )
    assert f"Rewards: {said}." in (SUITE / name / "seed.py").read_text()


def test_a_scorer_agrees_with_the_rewards_of_the_trainer() -> None:
    rng = Random(0)
    arrived = 0
    for name in (f"maze-{number}" for number in range(1, 7)):
        maze = generate_maze(name)
        score = scorer(name)
        for _ in range(100):
            drift = ("D" if maze.exit > 40 else "U") + ("R" if maze.exit % 9 else "L")
            moves = "".join(rng.choice(MOVES + 3 * drift) for _ in range(rng.randint(10, 40)))
            found = score([moves])
            assert tuple(found[component] for component in COMPONENTS) == route_rewards(maze, moves)
            arrived += found["completion"] == 1
    assert arrived > 20


@pytest.mark.parametrize("output", [None, 3, ["R", "D"], "right", "RX", ""])
def test_an_output_that_is_no_route_scores_zero(output: object) -> None:
    assert set(scorer("maze-1")([output]).values()) == {0.0}
