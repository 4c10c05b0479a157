"""Train the built-in model for numeric rules from scratch: `python -m trainer.recipes.formula_model OUT`.

The loop, the optimisers and the files are those of `trainer.recipes.pretrain`; here are the tokenizer, the
data and the sizes. The data know no problem: chains of random formulas, and for half of the prompts a random
parent with chains of random changes of it. The reward digits beside a parent are random too. So the model
knows the language, and that a parent is there to be changed; what a good formula is, and what the digits
mean, it can only learn from a search.
"""

from functools import partial
from random import Random

from evovpo.builtin.chain import join_chain
from evovpo.builtin.formulas.format import LEVELS, MAX_COMPONENTS, TOKEN_PATTERN, encode_prompt, vocabulary
from evovpo.builtin.formulas.sampler import FormulaSampler
from trainer.recipes.pretrain import Language, PretrainConfig, main, text_block
from trainer.recipes.tokenizer import word_tokenizer

_ANSWERS = (1, 2, 3, 4)
_ANSWER_WEIGHTS = (5, 1, 3, 1)
_INPUTS = (1, 2, 3, 4)
_INPUT_WEIGHTS = (1, 2, 4, 1)
_PARENT_SHARE = 0.5
_COMPONENTS = (2, 4, 8, 8, 12, MAX_COMPONENTS)

FORMULA_CONFIG = PretrainConfig(
    hidden_size=64,
    layers=4,
    heads=2,
    intermediate_size=192,
    steps=800,
    processes=2,
    batch_tokens=1600,
    block_sequences=512,
    block_batches=17,
    warmup_steps=50,
)
"""The recipe of the model that is shipped."""


def sample_sequence(rng: Random) -> tuple[str, str]:
    """Return prompt and completion of one training sequence."""
    inputs = rng.choices(_INPUTS, _INPUT_WEIGHTS)[0]
    answers = rng.choices(_ANSWERS, _ANSWER_WEIGHTS)[0]
    sampler = FormulaSampler(rng, inputs)
    if rng.random() >= _PARENT_SHARE:
        return encode_prompt(answers, inputs), join_chain([sampler.formula() for _ in range(answers)])
    parent = sampler.formula()
    # Parents of a search are the fruit of changes, and a chain changes its parent in several ways.
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        parent = sampler.mutant(parent)
    centre = rng.randrange(LEVELS)
    levels = [min(max(centre + rng.randint(-3, 3), 0), LEVELS - 1) for _ in range(rng.choice(_COMPONENTS))]
    chain = [sampler.mutant(parent) for _ in range(answers)]
    return encode_prompt(answers, inputs, parent, levels), join_chain(chain)


FORMULAS = Language(
    partial(word_tokenizer, vocabulary(), TOKEN_PATTERN, 768),
    partial(text_block, "formulas:", sample_sequence),
)

if __name__ == "__main__":
    main(__doc__, FORMULA_CONFIG, FORMULAS)
