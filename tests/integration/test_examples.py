"""The examples of the documentation run as they are, each in its own folder and without a network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shell import run_script

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
SAID = {
    "answers_as_candidates": "<support>2, 3</support><answer>Baltic Sea</answer>",
    "ask_and_tell": "row-6",
    "dataframe": "E. Noether",
    "own_domain": "{'mentions': 1.0, 'short': 0.6, 'rhymes': 1.0}",
    "own_examples": "right on the examples: True and on the rest: True",
    "own_proposer": "return 2 ** x",
    "own_scorer": "above 1",
    "read_a_run": "reward:row-1",
    "train": "train_loss",
}

QUICK = {"ask_and_tell", "own_proposer"}
HERE = {"own_examples", "own_scorer", "read_a_run"}
"""Those that load the model, which this process has; the others run in one of their own."""


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES} == set(SAID)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in EXAMPLES
    ],
)
def test_an_example_runs_as_printed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if path.stem == "dataframe":
        pytest.importorskip("pandas")
    if path.stem in HERE:
        monkeypatch.chdir(tmp_path)
        answer = run_script(path, capsys)
        assert answer.code == 0, answer.err
        assert SAID[path.stem] in answer.out
        return
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, **offline, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert SAID[path.stem] in done.stdout
