"""Models that judge programs besides the evaluator: metrics as OpenEvolve itself makes of their answers."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from openevolve_problems import BETTER, LOAD, PROGRAM, answered, write_project
from scripted_proposer import ScriptedProposer

from evovpo.config import Config
from evovpo.runs.replay import verify
from evovpo.runs.request import RunRequest, open_request
from evovpo.runs.start_resume import start
from evovpo.store import Store
from evovpo.types import CallOutcome, Evaluation, Prompt, Tell

pytestmark = pytest.mark.slow

EVALUATOR = (
    LOAD
    + """
def evaluate(program_path):
    value = _load(program_path).guess()
    return {"near": value / 4, "combined_score": max(0.0, 1 - abs(4 - value) / 4)}
"""
)
ANSWERS = {
    "strict": 'Here it is:\n```json\n{"readability": 0.25, "efficiency": 0.5, "reasoning": "too plain"}\n```',
    "mild": '{"readability": 0.75, "efficiency": 1, "reasoning": "quite {good}"}',
}
YAML = """
diff_based_evolution: false
llm:
  api_base: URL
  models: [{name: writer}]
  temperature: 1.0
  evaluator_models: [{name: strict, weight: 3}, {name: mild, weight: 1}]
prompt: {template_dir: templates}
evaluator: {use_llm_feedback: true, llm_feedback_weight: 0.2, cascade_evaluation: false}
"""
FILES = {
    "initial_program.py": PROGRAM,
    "evaluator.py": EVALUATOR,
    "templates/evaluation.txt": "Judge this:\n{current_program}\nas {{}}.",
}


def project(tmp_path: Path, url: str) -> Path:
    return write_project(tmp_path / "p", FILES | {"config.yaml": YAML.replace("URL", url)})


def requested(folder: Path, url: str, *settings: str) -> RunRequest:
    changes = Config.read_changes([*settings, f"store.url={url}"])
    return open_request(str(folder), folder / "config.yaml", changes)


def run(folder: Path, tmp_path: Path) -> tuple[Store, str]:
    url = f"sqlite:///{tmp_path}/runs.db"
    settings = ("search.evaluations=2", "search.in_flight=1", "prompt.style=rewrite", "proposer.attempts=1")
    named = requested(folder, url, *settings, "sandbox.workers=2")
    store = Store.open(url, create=True)
    outcome = start(named, store, ScriptedProposer([f"```python\n{BETTER}```", "nothing"]))
    return store, outcome.run


def judgements(store: Store, run_id: str) -> dict[str, Evaluation]:
    return {
        one.candidate.program.source: one.evaluation
        for event in store.history(run_id)
        if isinstance(event, Tell)
        for one in event.judged
        if one.candidate.program and one.evaluation
    }


def their_metrics(folder: Path, source: str) -> dict[str, Any]:
    from openevolve.config import Config
    from openevolve.evaluator import Evaluator
    from openevolve.llm.ensemble import LLMEnsemble
    from openevolve.prompt.sampler import PromptSampler

    config = Config.from_yaml(folder / "config.yaml")
    for model in config.llm.evaluator_models:
        model.api_key, model.retries, model.retry_delay = "k", 0, 0
    sampler = PromptSampler(config.prompt)
    sampler.set_templates("evaluator_system_message")
    ensemble = LLMEnsemble(config.llm.evaluator_models)
    evaluator = Evaluator(config.evaluator, str(folder / "evaluator.py"), ensemble, sampler)
    return asyncio.run(evaluator.evaluate_program(source, "one"))


def test_metrics_are_those_that_openevolve_makes_and_every_request_is_stored(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []

    def choose(body: dict[str, Any]) -> list[str]:
        bodies.append(body)
        return [ANSWERS[body["model"]]]

    with answered(choose) as url:
        folder = project(tmp_path, url)
        expected = {source: their_metrics(folder, source) for source in (PROGRAM, BETTER)}
        theirs = [[one["content"] for one in body["messages"]] for body in bodies]
        bodies.clear()
        store, run_id = run(folder, tmp_path)
    with store:
        found = judgements(store, run_id)
        assert found.keys() == expected.keys()
        for source, evaluation in found.items():
            assert dict(evaluation.metrics or ()) == pytest.approx(expected[source])
            for said in ("reasoning: too plain", "reasoning: quite {good}"):
                assert said in evaluation.feedback  # and so in later prompts
        # By hand, for the better program: (3 * .25 + .75) / 4 and (3 * .5 + 1) / 4, times .2.
        metrics = dict(found[BETTER].metrics or ())
        assert metrics["llm_readability"] == pytest.approx(0.375 * 0.2)
        assert metrics["llm_efficiency"] == pytest.approx(0.625 * 0.2)
        assert metrics["llm_average"] == pytest.approx(0.5 * 0.2)
        assert metrics["combined_score"] == pytest.approx(0.75 * 0.7 + 0.5 * 0.3)
        assert sorted(
            [one["content"] for one in body["messages"]] for body in bodies if body.get("max_tokens") != 1
        ) == sorted(theirs)
        calls = store.calls(run_id)
        assert [call.outcome for call in calls] == [CallOutcome.OK] * 4
        assert sorted(call.model for call in calls) == ["mild", "mild", "strict", "strict"]
        verify(run_id, store)
        first = next(event for event in store.history(run_id) if isinstance(event, Prompt))
        assert {call.prompt_id for call in calls} == {first.id}


@pytest.mark.parametrize(
    "strict", ["I would rather not.", '{"a": ' + "[" * 100_000 + "}"], ids=["talk", "deep"]
)
def test_a_model_that_fails_or_talks_is_left_out_and_no_judgement_is_lost(
    strict: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = {"strict": strict, "mild": 'A draft: {"readability": 0}\n</think>\n' + ANSWERS["mild"]}
    with answered(lambda body: [said[body["model"]]]) as url, caplog.at_level(logging.WARNING):
        store, run_id = run(project(tmp_path, url), tmp_path)
    with store:
        metrics = dict(judgements(store, run_id)[BETTER].metrics or ())
        assert metrics["llm_readability"] == pytest.approx(0.75 * 0.2)
        assert sum("strict gives no scores and is left out" in text for text in caplog.messages) == 2
    store, run_id = run(project(tmp_path / "off", "http://127.0.0.1:9/v1"), tmp_path / "off")
    with store:
        metrics = dict(judgements(store, run_id)[BETTER].metrics or ())
        assert metrics == {"near": 0.75, "combined_score": 0.75}


def test_judges_make_a_problem_of_their_own(tmp_path: Path) -> None:
    folder, url = project(tmp_path, "http://127.0.0.1:9/v1"), f"sqlite:///{tmp_path}/none.db"
    with_judges = requested(folder, url).problem
    without = requested(folder, url, "evaluator.judges=").problem
    assert with_judges.version != without.version
    write_project(folder, {"config.yaml": "max_iterations: 1\n"})
    assert requested(folder, url).problem.version == without.version
