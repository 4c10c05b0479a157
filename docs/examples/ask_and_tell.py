"""Your loop, your model, your judge: evovpo only decides what to ask next and what to keep."""

import random

import evovpo

TARGET = "evolve"
letters = random.Random(0)


def write(messages: tuple, count: int) -> list[str]:
    """Stand in for a model: programs that know some word."""
    words = ["".join(letters.choices("elov", k=len(TARGET))) for _ in range(count)]
    return [f"```python\ndef letter(place):\n    return '{word}'[place]\n```" for word in words]


def judge(source: str) -> dict[str, float] | None:
    """Return a reward for each row; None says that the program failed. Run untrusted code in a sandbox."""
    scope: dict = {}
    try:
        exec(source, scope)
        found = [scope["letter"](place) for place in range(len(TARGET))]
    except Exception:
        return None
    return {f"row-{place + 1}": float(found[place] == TARGET[place]) for place in range(len(TARGET))}


search = evovpo.Search(
    examples=[((place,), letter) for place, letter in enumerate(TARGET)],
    entry="letter",
    evaluations=200,
)
while not search.is_solved and (prompt := search.ask()) is not None:
    texts = write(prompt.messages, prompt.rollouts) if prompt.has_model else []
    rewards = {source: judge(source) for source in search.programs(prompt, texts)}
    search.tell(prompt, texts, rewards)
print(search.best)
