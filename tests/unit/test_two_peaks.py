"""A search leaves a lower peak that it climbs first: default settings on a landscape of two."""

import dataclasses
from random import Random

import pytest
from judging import judged
from plain_search import PLAIN, PlainFormat

from evovpo.config import SearchConfig
from evovpo.proposers import text_rollout
from evovpo.search.search import SearchState
from evovpo.types import (
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    Feature,
    Metric,
    Objective,
    Program,
    Sampling,
    Status,
)

PEAKS = dataclasses.replace(
    PLAIN,
    scorer_path=None,
    seeds=(Program("0"),),
    objectives=(Objective("combined_score"),),
    evaluator=EvaluatorFolder(
        "evaluator.py", EvaluatorMode.WHOLE, (Metric("combined_score", 0.0, 5.0, is_soft=True),), left_out=()
    ),
    features=(Feature("metric:x"),),
)


def height(x: float) -> float:
    """Return 1 at the broad peak of 5 and 5 at the narrow one of 15."""
    return 1 - 0.05 * abs(x - 5) if x < 13 else 5 - 0.33 * abs(x - 15)


def judge(program: Program) -> Evaluation:
    x = float(program.source)
    metrics = (("combined_score", height(x)), ("x", x))
    return Evaluation(program.id, "v", Status.OK, (0.5,), "", 0.0, "none", metrics=metrics)


@pytest.mark.parametrize("seed", range(5))
def test_a_search_with_a_feature_finds_the_higher_of_two_peaks(seed: int) -> None:
    search = SearchState(PEAKS, SearchConfig(evaluations=150, islands=5), PlainFormat(), "run", seed)
    rng = Random(seed)
    first = search.ask()
    assert first is not None
    search.tell(judged(search, first, None, judge))
    while (prompt := search.ask()) is not None:
        parent = search.standing.programs[prompt.parent_id or PEAKS.seeds[0].id].program
        text = f"{float(parent.source) + rng.uniform(-2.0, 5.0):.3f}"
        reply = text_rollout(prompt, 0, text, Sampling())
        search.tell(judged(search, prompt, reply, judge))
    assert search.standing.best is not None
    assert float(search.standing.best.program.source) >= 13
    assert search.standing.proposed == 150
