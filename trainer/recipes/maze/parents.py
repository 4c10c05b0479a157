"""Teach the start model for mazes to read a parent: `python -m trainer.recipes.maze.parents OUT`.

It begins from the model of `trainer.recipes.maze.pretrain`, whose prompts are half of these. The other half
show a route with what it earned, as a search does; the answer keeps the first part of that route, perhaps
nothing of it, and of a few such routes is the first that is worth no less in the mean.
"""

from dataclasses import replace
from random import Random

from transformers import PreTrainedTokenizerFast

from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import Maze, draw_maze
from trainer.domains.maze.maze_family import chain_ids, prompt_ids, read_route, route_ids, route_rewards
from trainer.recipes.maze.pretrain import MAZE_CONFIG, MAZES, draw_route
from trainer.recipes.maze.pretrain import sample_block as plain_block
from trainer.recipes.pretrain import Sequence, main

_CHILDREN_PER_MAZE = 4
_DRAWS = 4
PARENTS_CONFIG = replace(MAZE_CONFIG, steps=600, muon_rate=0.003, adam_rate=1e-3, start=str(MAZE_MODEL))


def sample_block(seed: int, index: int, sequences: int, tokenizer: PreTrainedTokenizerFast) -> list[Sequence]:
    """Return block `index` of the endless data: the same for the same seed, whatever came before."""
    rng = Random(f"parents:{seed}:{index}")
    block = plain_block(seed, index, sequences // 2, tokenizer)
    while len(block) < sequences:
        maze = draw_maze(rng)
        for _ in range(min(_CHILDREN_PER_MAZE, sequences - len(block))):
            parent = draw_route(maze, rng)
            prompt = list(prompt_ids(maze, 1, _moves(maze, parent)))
            block.append((prompt + chain_ids([draw_child(maze, parent, rng)]), len(prompt)))
    rng.shuffle(block)
    return block


def draw_child(maze: Maze, parent: tuple[int, ...], rng: Random) -> tuple[int, ...]:
    """Return a route that begins as `parent` does: of a few the first worth no less, or the last of them."""
    least = sum(route_rewards(maze, _moves(maze, parent)))
    for _ in range(_DRAWS):
        child = draw_route(maze, rng, parent[: rng.randrange(len(parent))])
        if child != parent and sum(route_rewards(maze, _moves(maze, child))) >= least:
            break
    return child


def _moves(maze: Maze, route: tuple[int, ...]) -> str:
    moves = read_route(maze, route_ids(route))
    assert moves is not None
    return moves


PARENTS = MAZES._replace(sample_block=sample_block)

if __name__ == "__main__":
    main(PARENTS_CONFIG, PARENTS)
