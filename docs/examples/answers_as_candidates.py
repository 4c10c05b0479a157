"""A search over answers instead of programs: a row of a domain is a problem, its reward vector the judge.

A candidate is a function that returns the answer's text, so that every strategy, the store and all reports
work as they do for programs. `write` stands in for a model; put a call to yours in its place, with the
domain's own prompt, which the statement is.
"""

import itertools
import json
from pathlib import Path

import evovpo
from trainer.domains import open_domain

FACTS = {
    "Ys": "Drowned off Brittany.",
    "Lyonesse": "Drowned off Cornwall.",
    "Vineta": "Its bells ring at Easter.",
    "A wall in the water": "Vineta lay in the Baltic Sea.",
}
question = {
    "question": "In which sea did the town lie whose bells are heard at Easter?",
    "paragraphs": [
        {"idx": idx, "title": title, "paragraph_text": text}
        for idx, (title, text) in enumerate(FACTS.items())
    ],
    "question_decomposition": [{"paragraph_support_idx": 2}, {"paragraph_support_idx": 3}],
    "answer": "the Baltic Sea",
    "answer_aliases": ["Baltic"],
}
Path("question.jsonl").write_text(json.dumps(question) + "\n")
domain = open_domain("musique", "question.jsonl")
row = domain.prompts[0]


def score(outputs: list) -> dict[str, float]:
    """Return the reward vector of the one answer that a candidate returned."""
    (text,) = outputs
    ((answer,),) = domain.judge([text if isinstance(text, str) else ""], [row])
    return dict(zip(domain.components, answer.rewards, strict=True))


seas = ("Celtic Sea", "Baltic Sea", "Atlantic")
guesses = itertools.cycle(itertools.product(("0, 1", "1, 2", "2, 3", "3"), seas))


def write(messages: list[dict[str, str]], n: int) -> list[str]:
    """Return n answers, each as the function that returns it."""
    drawn = itertools.islice(guesses, n)
    texts = [f"<support>{support}</support><answer>{sea}</answer>" for support, sea in drawn]
    return [f"```python\ndef answer(task):\n    return {text!r}\n```" for text in texts]


run = evovpo.evolve(
    score=score,
    statement=row["prompt"][0]["content"],
    seed_program="def answer(task):\n    return ''\n",
    entry="answer",
    inputs=[[""]],
    proposer=write,
    evaluations=40,
    store="answers.db",
)
print(run.best.source, run.best.rewards)
