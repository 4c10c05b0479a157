"""Projects after the shapes of OpenEvolve's own examples, replies to them, and what OpenEvolve measures.

Every program of a project returns one number, the initial one 1. `scripted` gives the choices of a server,
`searched` evolves such a project with them, and `measured` judges programs by OpenEvolve's own evaluator,
outside of any sandbox.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from openevolve.config import EvaluatorConfig
from openevolve.evaluator import Evaluator
from openevolve_problems import PROGRAM, SHAPES, loading, numbered
from shell import Shell

from evovpo.runs.replay import verify
from evovpo.runs.stored import RunView, stored_run
from evovpo.store import Store
from evovpo.types import Json, Prompt

EXAMPLES: dict[str, dict[str, str]] = {
    # A cost to be minimised and a time beside the score: both fall where the score rises, and the other way.
    "costs": loading(
        """
def evaluate(program_path):
    value = _load(program_path).guess()
    c1 = 1.5 + (value - 3) ** 2
    return {"c1": c1, "eval_time": value / 10, "combined_score": 1 / c1, "validity": True}
"""
    ),
    # A feature of the grid that grows where the score falls.
    "features": loading(
        """
def evaluate(program_path):
    value = _load(program_path).guess()
    return {"radius_variance": value**2, "combined_score": -abs(value - 2), "note": "packed"}
"""
    )
    | {
        "config.yaml": """
database:
  feature_dimensions: [radius_variance, complexity]
  feature_bins: 5
"""
    },
    "cascade": SHAPES["cascade"],
    # No combined_score: OpenEvolve ranks by the mean of what is no feature dimension.
    "mean": loading(
        """
def evaluate(program_path):
    value = _load(program_path).guess()
    return {"accuracy": 1 - abs(value - 2.5) / 10, "speed": value / 100, "complexity": 50 * value, "ok": True}
"""
    ),
    # A number that is always the same, and scores so large that bounded rewards no longer tell them apart.
    "constant": loading(
        """
def evaluate(program_path):
    value = _load(program_path).guess()
    return {"i": 3, "combined_score": 1e15 - abs(value - 5)}
"""
    ),
}
"""Files of a project by its shape."""


def scripted(shape: str) -> Callable[[int], str]:
    """Return the choices of a server by their number: whole programs, of which one in eight fails."""

    def write(number: int) -> str:
        body = f"return {Random(f'{shape} {number}').randrange(65) / 8}"
        body = body if number % 8 else f"raise ValueError({number})"
        return f"```python\n{PROGRAM.replace('return 1.0', body)}```"

    return write


class Searched(NamedTuple):
    """What a search came to."""

    found: dict[str, Any]
    """As `evovpo evolve --json` prints it."""
    said: str
    """On standard error."""
    view: RunView
    sources: dict[str, str]
    """Of the judged programs, by their id."""
    prompts: list[Prompt]


def searched(folder: Path, write: Callable[[int], str], command: Shell, *options: str) -> Searched:
    """Evolve a project by 32 evaluations with the choices of a server, and replay the run."""
    url = f"sqlite:///{folder.parent}/evovpo.db"
    settings = "search.rollouts=8 search.answers=1 search.in_flight=1 prompt.style=rewrite sandbox.workers=2"
    with numbered(write) as address:
        answer = command(
            *("evolve", folder, "--base-url", address, "--model", "m", "--store", url, "--json", "-n", "32"),
            *(part for setting in settings.split() for part in ("--set", setting)),
            *options,
        )
    assert answer.code == 0, answer.err
    with Store.open(url) as store:
        run = answer.json["run"]
        verify(run, store)
        view = stored_run(store, run)
        sources = {item.program_id: store.program(item.program_id).source for item in view.scores}
        prompts = [event for event in store.history(run) if isinstance(event, Prompt)]
    return Searched(answer.json, answer.err, view, sources, prompts)


def measured(folder: Path, sources: Iterable[str], suffix: str = ".py") -> dict[str, dict[str, Json]]:
    """Return the metrics of programs by source, as OpenEvolve's evaluator returns them."""
    config = EvaluatorConfig(max_retries=0, cascade_thresholds=[0.5])
    evaluator = Evaluator(config, str(folder / "evaluator.py"), suffix=suffix)
    return {source: asyncio.run(evaluator.evaluate_program(source)) for source in dict.fromkeys(sources)}
