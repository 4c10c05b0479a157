"""A function of your own judges: outputs of a candidate in, one reward in [0, 1] for each component out.

It runs here, in your process; the candidates run in the sandbox. The proposer, in place of a model, draws
the numbers of a line.
"""

import math
import random

import evovpo

INPUTS = [[0.25], [0.5], [2.0], [4.0]]
NUMBERS = random.Random(0)


def closeness(outputs: list) -> dict[str, float]:
    """Return how near the outputs are to the square roots, below and above 1."""
    rewards = []
    for (x,), output in zip(INPUTS, outputs, strict=True):
        if isinstance(output, evovpo.Failed) or not isinstance(output, int | float):
            rewards.append(0.0)  # the candidate raised, or returned something else
        else:
            rewards.append(max(0.0, 1.0 - abs(output - math.sqrt(x))))
    return {"below 1": min(rewards[:2]), "above 1": min(rewards[2:])}


def propose(messages: list, n: int) -> list[str]:
    """Return n answers."""
    lines = (f"x * {NUMBERS.uniform(0, 1):.2f} + {NUMBERS.uniform(0, 1):.2f}" for _ in range(n))
    return [f"A line with other numbers.\n```python\ndef root(x):\n    return {line}\n```" for line in lines]


run = evovpo.evolve(
    score=closeness,
    proposer=propose,
    seed_program="def root(x):\n    return x\n",
    entry="root",
    inputs=INPUTS,
    evaluations=200,
    store="roots.db",
)
print(run.best.source)
print(run.best.rewards)
