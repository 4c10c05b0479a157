"""Train the start model for mazes from scratch: `python -m trainer.recipes.maze.pretrain OUT`.

The loop, the optimisers and the files are those of `trainer.recipes.pretrain`; here are the data (mazes from
`trainer.domains.maze.generator`, chains of routes from `trainer.recipes.maze.examples`) and the sizes. It
teaches the format and rough competence only: the arms of a study start from this model.
"""

from random import Random

from transformers import PreTrainedTokenizerFast

from trainer.domains.maze.generator import draw_maze
from trainer.domains.maze.route_format import chain_ids, prompt_ids
from trainer.recipes.maze.examples import RouteSampler, draw_chain
from trainer.recipes.maze.tokenizer import build_tokenizer
from trainer.recipes.pretrain import Language, PretrainConfig, Sequence, main

_CHAINS_PER_MAZE = 4
_ANSWERS = (1, 2, 3)
_ANSWER_WEIGHTS = (4, 1, 5)

MAZE_CONFIG = PretrainConfig(
    hidden_size=128,
    layers=4,
    heads=4,
    intermediate_size=256,
    steps=2000,
    processes=1,
    batch_tokens=4800,
    block_sequences=1024,
    block_batches=15,
)
"""The recipe of the model that is shipped."""


def sample_block(seed: int, index: int, sequences: int, tokenizer: PreTrainedTokenizerFast) -> list[Sequence]:
    """Return block `index` of the endless data: the same for the same seed, whatever came before.

    The format writes token ids itself, so that the tokenizer is not used.
    """
    rng = Random(f"routes:{seed}:{index}")
    block: list[Sequence] = []
    while len(block) < sequences:
        maze = draw_maze(rng)
        sampler = RouteSampler(maze)
        for _ in range(min(_CHAINS_PER_MAZE, sequences - len(block))):
            answers = rng.choices(_ANSWERS, _ANSWER_WEIGHTS)[0]
            prompt = list(prompt_ids(maze, answers))
            block.append((prompt + chain_ids(draw_chain(sampler, answers, rng)), len(prompt)))
    return block


MAZES = Language(build_tokenizer, sample_block)

if __name__ == "__main__":
    main(__doc__, MAZE_CONFIG, MAZES)
