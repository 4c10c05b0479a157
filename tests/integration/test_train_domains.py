"""Ten rows of each domain, from the public file to figures of a trained model, by the commands themselves."""

from pathlib import Path

import pytest
import torch
from shell import Shell
from tiny_models import load_folder, write_answering_model

pytest.importorskip("trl")

from tests.support.benchmark_rows import write_jsonl
from tests.unit.test_text_files import FORMATS
from trainer.domains import open_domain, training

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_trl")]

OWN = """
COMPONENTS = ("vowels", "short")

def reward_vectors(completions, **columns):
    return [[[sum(map(text.count, "aeiou")) / 8, 1 / (1 + len(text))]] for text in completions]
"""


def parts(name: str, folder: Path) -> tuple[str, Path, list[str]]:
    """Return a domain's name or file, ten rows of it, and for each row a right answer."""
    if name in FORMATS:
        row, answer, _ = FORMATS[name]
        rows = write_jsonl(folder / "rows.jsonl", list(map(row, range(10))))
        return name, rows, list(map(answer, range(10)))
    (folder / "own.py").write_text(OWN)
    rows = write_jsonl(folder / "rows.jsonl", [{"prompt": f"Say {number}."} for number in range(10)])
    return str(folder / "own.py"), rows, ["a", "io", "aye", "queue"]


@pytest.mark.parametrize("name", [*FORMATS, "yours"])
def test_ten_rows_are_trained_on_and_measured(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    domain, data, answers = parts(name, tmp_path)
    with open_domain(domain, data) as opened:
        start = write_answering_model(tmp_path / "start", opened.prompts, answers)
    about = ("--domain", domain, "--data", data, "--k", "1,16", "--json")
    small = ("--steps=2", "--prompts=4", "--rollouts=4", "--test=1", "--set", "k=2")
    rates = ("--set", "learning_rate=0.05", "--set", "max_completion_length=1")
    trained = Shell(capsys)("train", *about, *small, *rates, "--model", start, "--output", "out")
    assert trained.code == 0, trained.err
    assert trained.json["steps"] == 2
    assert list(trained.json["before"]) == list(trained.json["after"]) == ["1", "16"]
    before, after = (load_folder(folder).state_dict() for folder in (start, tmp_path / "out"))
    assert any(not torch.equal(before[key], after[key]) for key in before)  # rewards told answers apart
    both = Shell(capsys)("measure", *about, "--model", start, "--model", "out")
    assert both.code == 0, both.err
    figures = both.json
    assert (figures["prompts"], figures["answers"], figures["faults"]) == (10, 16, 0)
    assert 0 < figures["best_at_k"]["1"]["mean"] < figures["best_at_k"]["16"]["mean"] <= 1
    assert 0 < figures["pareto_share"]["mean"] <= 1
    assert [one["model"] for one in figures["policies"]] == [str(start), "out"]


@pytest.mark.parametrize("name", ["maze", "maze-conflict", "strings"])
def test_a_bundled_domain_is_trained_on_and_measured_with_its_own_model(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "_BUNDLED_TASKS", 8)
    small = ("--steps=2", "--prompts=2", "--rollouts=4", "--test=2", "--k=1,2", "--set", "k=2")
    rare = ("--set", "check_first_batch=false")  # eight answers, and the start model is weak
    trained = Shell(capsys)("train", "--domain", name, *small, *rare, "--json", "--output", "out")
    assert trained.code == 0, trained.err
    assert 0 <= trained.json["before"]["1"] <= trained.json["before"]["2"] <= 1
    measure = ("measure", "--domain", name, "--model", "out", "--prompts=2", "--k=1,2", "--json")
    figures = Shell(capsys)(*measure).json
    # The same prompts, sampled from the same seed: what the training measured itself.
    after = {k: one["mean"] for k, one in figures["best_at_k"].items()}
    assert after == pytest.approx(trained.json["after"])
