"""A function of your own writes: messages and n in, n texts out. It may be `async`.

This one needs no model; put a call to yours in its place.
"""

import evovpo

IDEAS = ["x * 2", "x + 2", "x ** 2", "2 ** x"]
asked = 0


def propose(messages: list[dict[str, str]], n: int) -> list[str]:
    """Return the next ideas, as an instruction model would answer."""
    global asked
    asked += n
    texts = []
    for number in range(asked - n, asked):
        idea = IDEAS[number % len(IDEAS)]
        texts.append(f"```python\ndef double(x):\n    return {idea}\n```")
    return texts


run = evovpo.evolve(
    examples=[((2,), 4), ((3,), 8), ((5,), 32)],
    entry="double",
    statement="Find the rule behind the numbers.",
    proposer=propose,
    evaluations=40,
    store="rule.db",
)
print(run.best.source, run.best.rewards)
