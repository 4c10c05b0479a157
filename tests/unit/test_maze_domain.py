"""The maze as a domain of the study: splits, prompts, judgements, figures of a pool."""

import numpy as np
import pytest
from mazes import chain_ids

pytest.importorskip("torch")

from evovpo.errors import ConfigError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.arm_training import TrainingArm, TrainingBudget, train
from trainer.domains.catalogue import open_family
from trainer.domains.domain import Split, TaskFamily
from trainer.domains.maze.generator import NEIGHBOURS, Maze
from trainer.domains.maze.maze_family import MazeFamily

DOMAIN: TaskFamily = MazeFamily()
TASK = Maze("S.LG.....#..G...........................B...................L..........D........E", budget=25)
EDGE = [*range(1, 9), *range(17, 81, 9)]
EDGE_REWARDS = (1.0, 0.5, 1.0, 0.5)
ZEROS = (0.0, 0.0, 0.0, 0.0)


def test_splits_and_seeds_have_no_maze_in_common() -> None:
    splits: tuple[Split, ...] = ("train", "validation", "test")
    tasks = [task for split in splits for seed in (0, 1) for task in DOMAIN.tasks(split, 40, seed)]
    assert len(set(tasks)) == len(tasks)


def test_a_chain_is_judged_answer_by_answer_in_exactly_as_many_slots_as_asked_for() -> None:
    # Both gold cells and the diamond without lava: a hand-made maze allows it.
    all_items = [1, 10, 11, 12, 3, *range(4, 9), *range(17, 81, 9)]
    found = DOMAIN.judge(TASK, chain_ids([EDGE, [5], [1, 2], all_items]), 5)
    assert found[:3] == [
        JudgedAnswer(8 * "R" + 8 * "D", EDGE_REWARDS, (0, 16)),
        JudgedAnswer(None, ZEROS, (17, 18)),
        JudgedAnswer("RR", ZEROS, (19, 21)),
    ]
    assert (found[3].rewards, found[3].is_right) == ((1.0, 1.0, 1.0, 1.0), True)
    assert found[4] == JudgedAnswer(None, ZEROS)
    assert len(DOMAIN.judge(TASK, chain_ids([EDGE, [1], [2]]), 1)) == 1
    assert DOMAIN.judge(TASK, [], 2) == [JudgedAnswer(None, ZEROS, (0, 0)), JudgedAnswer(None, ZEROS)]


def test_a_repeated_route_keeps_its_key_whatever_follows_the_exit() -> None:
    longer = [*EDGE, 79]
    first, second = DOMAIN.judge(TASK, chain_ids([EDGE, longer]), 2)
    assert first.key == second.key
    assert first.rewards == second.rewards
    assert second.span == (17, 34)


def test_a_training_on_prompts_with_parents_is_refused_before_anything_is_spent() -> None:
    class Untouched(MazeFamily):
        def tasks(self, split: Split, count: int = 1000, seed: int = 0) -> list[Maze]:
            raise AssertionError("tasks were made for a training that cannot be")

    arm = TrainingArm("vpo", 3, 8, parent_share=0.25)
    with pytest.raises(ConfigError, match=r"parent_share is 0\.25, and prompts of the domain maze"):
        train(arm, Untouched(), TrainingBudget(tokens=1000), 0)
    with pytest.raises(ConfigError, match="was not taught"):
        DOMAIN.prompt_ids(TASK, 1, "RR")


def route_to_each_end(maze: Maze) -> list[list[int]]:
    """Return a shortest route within the budget to the exit with each set of items that one can take."""
    items = {cell: 1 << place for place, cell in enumerate([*maze.cells("G"), *maze.cells("D")])}
    routes: dict[tuple[int, int], list[int]] = {(maze.start, 0): []}
    frontier = list(routes)
    for _ in range(maze.budget):
        reached = []
        for cell, taken in frontier:
            if cell == maze.exit:
                continue
            for near in NEIGHBOURS[cell]:
                state = (near, taken | items.get(near, 0))
                if maze.grid[near] != "#" and state not in routes:
                    routes[state] = [*routes[cell, taken], near]
                    reached.append(state)
        frontier = reached
    return [route for (cell, _), route in routes.items() if cell == maze.exit]


def test_maze_conflict_pays_for_gold_or_diamonds_and_its_ceilings_are_those_of_every_maze() -> None:
    middles = (np.arange(1000) + 0.5) / 1000
    weightings = np.stack([middles, 1 - middles], axis=1)
    with open_family("maze-conflict") as domain:
        for maze in domain.tasks("test", 12):
            assert domain.prompt_ids(maze, 1) == DOMAIN.prompt_ids(maze, 1)
            vectors = []
            for route in route_to_each_end(maze):
                (answer,) = domain.judge(maze, chain_ids([route]), 1)
                (all_four,) = DOMAIN.judge(maze, chain_ids([route]), 1)
                assert answer.rewards is not None
                assert all_four.rewards is not None
                assert answer.rewards == all_four.rewards[1:3]
                vectors.append(answer.rewards)
            rewards = np.array(vectors)
            assert (rewards.min(axis=1) == 0).all()
            assert rewards.mean(axis=1).max() == 0.5
            assert (weightings @ rewards.T).max(axis=1).mean() == pytest.approx(0.75)
            assert rewards.max(axis=0).mean() == 1
        assert domain.judge(maze, chain_ids([[1], [5]]), 3)[0].rewards == (0.0, 0.0)
        assert domain.judge(maze, [], 1)[0].rewards == (0.0, 0.0)
