"""A task of ShinkaEvolve is searched with the evaluator of the documentation."""

import shutil
import textwrap
from pathlib import Path

import pytest
from shell import Shell

pytestmark = pytest.mark.slow

ADAPTER = Path(__file__).parents[2] / "docs/examples/shinka/evaluator.py"
INITIAL = """
# EVOLVE-BLOCK-START
def guess():
    return {value}
# EVOLVE-BLOCK-END


def run(seed=None):
    return guess()
"""
WITH_SHINKA = """
from shinka.core import run_shinka_eval


def main(program_path, results_dir):
    run_shinka_eval(
        program_path=program_path, results_dir=results_dir, experiment_fn_name="run", num_runs=1,
        validate_fn=lambda found: (abs(found) < 100, "too large"),
        aggregate_metrics_fn=lambda found: {
            "combined_score": -abs(found[0] - 7.0), "public": {"distance": abs(found[0] - 7.0)},
            "private": {"hidden": found[0]}, "text_feedback": "seven is best",
        },
    )
"""
BY_HAND = """
import json, os, runpy


def main(program_path, results_dir):
    found = runpy.run_path(program_path)["run"]()
    is_correct = abs(found) < 100
    distance = abs(found - 7.0)
    public = {"distance": distance}
    metrics = {"combined_score": -distance, "public": public, "text_feedback": "seven is best"}
    verdict = {"correct": is_correct, "error": None if is_correct else "Validation failed: too large"}
    for name, content in (("metrics", metrics), ("correct", verdict)):
        with open(os.path.join(results_dir, name + ".json"), "w") as file:
            json.dump(content, file)
"""


@pytest.mark.parametrize("evaluate", [BY_HAND, WITH_SHINKA], ids=["by hand", "with its own library"])
def test_a_task_of_shinka_is_judged_by_its_own_evaluate(evaluate: str, evovpo: Shell, tmp_path: Path) -> None:
    if evaluate is WITH_SHINKA:
        pytest.importorskip("shinka.core", reason="shinka-evolve is not installed")
    folder = tmp_path / "task"
    folder.mkdir()
    shutil.copy(ADAPTER, folder)
    (folder / "evaluate.py").write_text(textwrap.dedent(evaluate))
    (folder / "initial.py").write_text(INITIAL.format(value=3.0))
    right = evovpo("check", folder, "--json")
    assert right.code == 0, right.err
    assert right.json["initial"] == {"combined_score": -4.0, "distance": 4.0}
    assert "seven is best" in right.json["feedback"]
    (folder / "initial.py").write_text(INITIAL.format(value=300.0))
    wrong = evovpo("check", folder, "--json")
    assert wrong.code == 3
    assert "Validation failed: too large" in wrong.err + wrong.out
