"""A search leaves a lower peak that it climbs first: default settings on a landscape of two."""

import dataclasses
from random import Random

import pytest
from plain_search import PLAIN, PlainFormat

from evovpo.config import SearchConfig
from evovpo.proposers import rollout_id
from evovpo.search.search import SearchState
from evovpo.types import (
    Candidate,
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    Feature,
    JudgedCandidate,
    Metric,
    Objective,
    ParseStatus,
    Program,
    Prompt,
    Rollout,
    Sampling,
    Status,
    Tell,
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


def judged(prompt: Prompt, program: Program, search: SearchState, owner: str) -> JudgedCandidate:
    x = float(program.source)
    known = search.evaluation(program.id)
    metrics = (("combined_score", height(x)), ("x", x))
    found = known or Evaluation(program.id, "v", Status.OK, (0.5,), "", 0.0, "none", metrics=metrics)
    status = ParseStatus.DUPLICATE if known else ParseStatus.PARSED
    candidate = Candidate(owner, prompt.id, owner, 0, status, program, None, prompt.parents, program.source)
    return JudgedCandidate(candidate, found, known is None)


@pytest.mark.parametrize("seed", range(5))
def test_a_search_with_a_feature_finds_the_higher_of_two_peaks(seed: int) -> None:
    search = SearchState(PEAKS, SearchConfig(evaluations=150, islands=5), PlainFormat(), "run", seed)
    rng = Random(seed)
    first = search.ask()
    assert first is not None
    search.tell(Tell(first.id, None, (judged(first, PEAKS.seeds[0], search, "seed"),)))
    while (prompt := search.ask()) is not None:
        parent = search.programs[prompt.parent_id or PEAKS.seeds[0].id].program
        text = f"{float(parent.source) + rng.uniform(-2.0, 5.0):.3f}"
        owner = rollout_id(prompt.id, 0)
        reply = Rollout(owner, prompt.id, 0, 0, text, None, None, None, Sampling(), "stop", 0.0)
        search.tell(Tell(prompt.id, reply, (judged(prompt, Program(text), search, owner),)))
    assert search.best is not None
    assert float(search.best.program.source) >= 13
    assert search.proposed == 150
