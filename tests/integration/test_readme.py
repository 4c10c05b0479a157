"""The README's blocks do what they say when they are pasted, one after the other, into an empty folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROBE = "{0} probe.problems=2 {0} probe.answers=2 {0} probe.evaluations=0 "
SMALLER = {
    "evovpo loop strings-family": "evovpo loop strings-family --limit 1 --jobs 1 --evaluations 24 "
    + PROBE.format("--train-set"),
    "evovpo retrain strings-hard/drawn-004 ": "evovpo retrain strings-hard/drawn-004 "
    + PROBE.format("--set"),
    "--set proposer.policy=served": "--set proposer.policy=served --evaluations 24",
    "evovpo doctor ": "evovpo doctor --set search.evaluations=96 ",
    "evovpo evolve invoices": "evovpo evolve invoices --evaluations 24",
    "--evaluations 300": "--evaluations 48",
}
"""What is made smaller, so that the blocks end within a minute."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def pasted(block: str) -> str:
    """Return a block as it is run here: what installs is left out, since that is done."""
    for text, smaller in SMALLER.items():
        assert text in README
        block = block.replace(text, smaller)
    return block.rpartition("pip install -e '.[local,ui]' && ")[2]


def needs_more(block: str) -> bool:
    return "--base-url" in block or "pytest" in block


@pytest.mark.slow
def test_the_commands_end_well_one_after_the_other(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "evovpo"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m evovpo "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    ran = [pasted(block) for block in blocks("bash") if not needs_more(block)]
    assert len(ran) == 4
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    for text in ran:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_evolving_from_python_gives_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)
    run = names["run"]
    assert run.best.source in capsys.readouterr().out
    assert len(run.best.rewards) == 3
    assert (tmp_path / "names.db").exists()


@pytest.mark.slow
def test_training_from_python_takes_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("python")[1], names)
    steps = [row for row in names["trainer"].state.log_history if "set_score" in row]
    assert names["trainer"].state.global_step == 2
    assert steps[-1]["set_score"] > 0.0
