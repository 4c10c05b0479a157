"""Teach the start model for mazes to read a parent: `python -m trainer.recipes.maze.parents OUT`.

Half of the prompts show a route with what it earned, as a search does. The answer keeps the first part of
that route, perhaps nothing of it, and goes on by other cells; of a few such routes it is the first that is
worth no less in the mean. The other half are those of `trainer.recipes.maze.pretrain`, from whose model this
begins.
"""

from dataclasses import replace
from functools import partial
from random import Random

from transformers import PreTrainedTokenizerFast

from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import Maze, draw_maze
from trainer.domains.maze.maze_family import (
    TOKEN_PATTERN,
    chain_ids,
    prompt_ids,
    read_route,
    route_ids,
    route_rewards,
    vocabulary,
)
from trainer.recipes.maze.pretrain import MAZE_CONFIG, draw_route
from trainer.recipes.maze.pretrain import sample_block as plain_block
from trainer.recipes.pretrain import PretrainData, Sequence, main
from trainer.recipes.tokenizer import word_tokenizer

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


PARENTS = PretrainData(partial(word_tokenizer, vocabulary(), TOKEN_PATTERN, 256), sample_block)

if __name__ == "__main__":
    main(__doc__, PARENTS_CONFIG, PARENTS)
