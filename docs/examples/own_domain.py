"""A domain of your own: words for a slogan, rewarded for three things that one answer rarely has together.

Train on it with `VPOTrainer`, measure any model on it, or, as here, look at what answers are worth.
"""

import json
from pathlib import Path

COMPONENTS = ("mentions", "short", "rhymes")
MAX_TOKENS = 64


def reward_vectors(completions: list[str], topic: list[str], **columns: object) -> list[list[list[float]]]:
    """Return for each completion a row of rewards for each of its answers, one a line: [m, D]."""
    return [
        [rewards(line, wanted) for line in completion.splitlines() if line.strip()][:2]
        for completion, wanted in zip(completions, topic, strict=True)
    ]


def rewards(slogan: str, topic: str) -> list[float]:
    """Return the components of one answer, each in [0, 1]."""
    words = slogan.lower().strip(" .!").split()
    mentions = float(topic in words)
    short = min(1.0, 3 / max(1, len(words)))
    rhymes = float(any(word != words[-1] and word[-2:] == words[-1][-2:] for word in words))
    return [mentions, short, rhymes]


if __name__ == "__main__":
    from trainer.domains import open_domain

    rows = [{"prompt": f"Two slogans about {word}, one a line.", "topic": word} for word in ("tea", "rain")]
    Path("slogans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open_domain(__file__, "slogans.jsonl", answers=2) as domain:
        answers = "Come, brew your tea anew.\nDrink tea."
        (chain,) = domain.judge([answers], domain.prompts[:1])
        for answer in chain:
            print(dict(zip(domain.components, answer.rewards or (), strict=True)))
