"""`evovpo measure`: what policies are worth on a domain, in process and behind a server, side by side."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell import Shell
from tiny_models import OWN_DOMAIN, write_tiny_folder

pytest.importorskip("transformers")

from evovpo.analysis.statistics import diversity
from evovpo.judging.measure import JudgedAnswer
from trainer.domains import Domain
from trainer.domains.policy_figures import BY_K, OF_ALL, figures
from trainer.domains.sampling import Ask, JudgedCompletion


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The options of a domain of one's own with two prompts, and a folder of models beside it."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "own.py").write_text(OWN_DOMAIN)
    (folder / "rows.jsonl").write_text("".join(json.dumps({"prompt": one}) + "\n" for one in ("a", "bc")))
    for seed in (0, 1):
        write_tiny_folder(folder / f"model-{seed}", seed=seed)
    return ["--domain", folder / "own.py", "--data", folder / "rows.jsonl", "--k", "1,4"]


def test_figures_are_those_of_the_answers() -> None:
    vectors = [[(1.0, 0.0), (0.0, 1.0)], [(1.0, 1.0), (0.0, 0.0)]]
    prompts: list[dict[str, Any]] = [{"prompt": "a", "id": "first", "stratum": "2 hops"}, {"prompt": "b"}]
    domain = Domain("x", ("one", "other"), 1, prompts, lambda texts, rows: [], 1)
    answered = [
        [JudgedCompletion("", [JudgedAnswer(str(one), one)], 2) for one in answers] for answers in vectors
    ]
    found = figures("x", answered, (1, 2), Ask(2, 0.7), domain)
    assert found.values("best_at_k", 1).tolist() == [[0.5, 0.5]]
    assert found.values("best_at_k", 2).tolist() == [[0.5, 1.0]]
    assert found.values("union_at_k", 2).tolist() == [[1.0, 1.0]]
    assert found.values("pass_at_k", 1).tolist() == [[0.0, 0.5]]
    weights = np.random.default_rng(0).dirichlet(np.ones(2), 64)
    expected = [[weights.max(axis=1).mean(), 1.0]]
    assert found.values("expected_best_at_k", 2) == pytest.approx(np.array(expected))
    assert found.values("diversity").tolist() == [[diversity(one) for one in vectors]] == [[2.0, 2.0]]
    # Neither of the first two beats the other; the second pair has one that beats, and one without rewards.
    assert found.values("pareto_share").tolist() == [[1.0, 0.5]]
    first, second = found.rows()
    assert (first["prompt"], first["id"], first["stratum"]) == (0, "first", "2 hops")
    assert (second["prompt"], second["pass_at_k"]) == (1, {"1": 0.5, "2": 1.0})
    # With weights of the components, these make the one number of an answer.
    weighed = figures("x", answered, (1, 2), Ask(2, 0.7), replace(domain, scalar=(1.0, 3.0)))
    assert weighed.values("best_at_k", 2).tolist() == [[0.75, 1.0]]


@pytest.mark.slow
def test_two_policies_are_measured_side_by_side(
    parts: list[str | Path], evovpo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    models = [Path(str(parts[1])).parent / f"model-{seed}" for seed in (0, 1)]
    both = ["--model", models[0], "--model", models[1]]
    found = evovpo("measure", *parts, *both, "--json").json
    for name in (*BY_K, *OF_ALL):
        intervals = found[name].values() if name in BY_K else [found[name]]
        assert all(0 <= one["low"] <= one["mean"] <= one["high"] for one in intervals)
    assert [one["model"] for one in found["policies"]] == list(map(str, models))
    (difference,) = found["minus_first"]
    for k in ("1", "4"):
        first, second = (one["best_at_k"][k]["mean"] for one in found["policies"])
        assert difference["best_at_k"][k]["mean"] == pytest.approx(second - first)
        assert first == found["best_at_k"][k]["mean"]
    alone = evovpo("measure", *parts, *both[2:], "--json").json
    assert alone == found["policies"][1]
    shown = evovpo("measure", *parts, *both, "--png", "two.png")
    assert shown.code == 0
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "model-0" in shown.out
    hot = evovpo("measure", *parts, *both[:2], "--temperature=0.5", "--temperature=1", "--json").json
    assert [one["temperature"] for one in hot["policies"]] == [0.5, 1.0]


@pytest.mark.slow
def test_what_cannot_be_measured_is_said(parts: list[str | Path], evovpo: Shell) -> None:
    for options, message in (
        ([], "has no start model of its own; give --model"),
        (["--base-url", "http://127.0.0.1:9/v1"], "name the model that the server has"),
        (["--model", "no/such/folder/at/all"], "expected a model folder or a name on the Hugging Face hub"),
        (["--k", "0,1"], "expected whole numbers from 1"),
    ):
        answer = evovpo("measure", *parts, *options)
        assert answer.code == 2
        assert message in answer.err


@pytest.mark.slow
def test_a_model_behind_a_server_is_measured(parts: list[str | Path], evovpo: Shell) -> None:
    pytest.importorskip("openai")
    from fake_server import FakeServer, serve

    server = FakeServer(Path(str(parts[1])).parent / "model-0")
    with serve(server) as url:
        answer = evovpo("measure", *parts, "--model", "base", "--base-url", url, "--json")
    hot = FakeServer(Path(str(parts[1])).parent / "model-0")
    with serve(hot) as url:
        more = ("--top-p=0.9", "--top-k=5", "--repetition-penalty=1.1", "--template=thinks=false")
        said = evovpo("measure", *parts, *more, "--model", "base", "--base-url", url, "--json")
    assert (said.code, said.json["top_p"], said.json["repetition_penalty"]) == (0, 0.9, 1.1)
    assert answer.code == 0, answer.err
    assert (answer.json["model"], answer.json["prompts"], answer.json["answers"]) == ("base", 2, 4)
    assert 0 < answer.json["best_at_k"]["1"]["mean"] < answer.json["best_at_k"]["4"]["mean"] < 1
    assert {request["temperature"] for request in server.completions} == {1.0}
    assert len(answer.json["rows"]) == 2
    assert {request["chat_template_kwargs"]["thinks"] for request in hot.completions} == {False}
    assert {(one["top_p"], one["top_k"], one["repetition_penalty"]) for one in hot.completions} == {
        (0.9, 5, 1.1)
    }
