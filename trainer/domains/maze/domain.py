"""Mazes as a domain of the study: tasks, prompts, and what a completion is worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from evovpo.errors import ConfigError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Split
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import Maze, generate_maze
from trainer.domains.maze.rewards import COMPONENTS, walk, walk_rewards
from trainer.domains.maze.route_format import MAX_ROUTE_TOKENS, prompt_ids, split_chain

_MISSING = JudgedAnswer(None, (0.0,) * len(COMPONENTS))


@dataclass(frozen=True)
class MazeDomain:
    """The maze of the VPO paper; `convex` chooses the other reading of its reward."""

    convex: bool = False
    model_folder: Path = MAZE_MODEL
    name: str = "maze"
    shows_parents: bool = False

    def max_tokens(self, answers: int) -> int:
        """Return the longest completion worth sampling: every route as long as the largest budget."""
        return answers * MAX_ROUTE_TOKENS

    def tasks(self, split: Split, count: int = 1000, seed: int = 0) -> list[Maze]:
        """Return the first `count` mazes of a split; other splits and seeds give other mazes."""
        return [generate_maze(f"{split}-{seed}-{number}") for number in range(count)]

    def prompt_ids(self, task: Maze, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the prompt for `answers` (1 to 3) routes. Raises `ConfigError` for a parent."""
        if parent is not None:
            raise ConfigError("a prompt of a maze was to show a parent; its format has no place for one")
        return prompt_ids(task, answers)

    def judge(self, task: Maze, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return the first `answers` answers of a completion, filled up with missing ones.

        An answer's key is its moves, cut at the exit. None is ever right in a generated maze, because no
        route takes both gold and diamonds.
        """
        judged = []
        for moves, span in islice(split_chain(task, completion_ids), answers):
            if moves is None:
                judged.append(_MISSING._replace(span=span))
            else:
                found = walk(task, moves)
                rewards = walk_rewards(task, found, convex=self.convex)
                judged.append(JudgedAnswer(found.moves, rewards, span))
        return judged + [_MISSING] * (answers - len(judged))
