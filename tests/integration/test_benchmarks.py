"""Every script of tests/bench runs at its smallest size and prints what it says it prints."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pytest
from shell import run_script

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tests" / "bench"
BATCH = """
name = "faults"
problems = ["strings/user-name"]
evaluations = [160]
[settings]
sandbox.workers = 1
[[proposers]]
name = "random"
proposer.name = "random"
"""
TASKS = [
    {"name": "copy", "train": [{"inputs": ["a"], "output": "a"}], "test": []},
    {
        "name": "hard",
        "train": [{"inputs": ["ab"], "output": "q7"}, {"inputs": ["b"], "output": "zz1"}],
        "test": [{"inputs": ["c"], "output": "c"}],
    },
]
"""The first is solved by its starting program, the other by none."""


class Run(Protocol):
    def __call__(self, name: str, *arguments: str | Path, code: int = 0) -> str: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a script in this process and returns what it prints; it must end with `code`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(name: str, *arguments: str | Path, code: int = 0) -> str:
        ended, out, err = run_script(BENCH / name, *arguments, capsys=capsys)
        assert ended == code, f"{name} ended with {ended}:\n{out}{err}"
        return out if code == 0 else out + err

    return run


def apart(name: str, *arguments: str | Path, code: int = 0) -> str:
    """Run a script that kills, or is timed, in a process of its own; else as `run`."""
    return ended([BENCH / name, *arguments], code)


def ended(command: Sequence[str | Path], code: int = 0) -> str:
    """Run Python with a command line; return standard output, or both streams after a fault."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stdout + done.stderr


def last_json(text: str) -> Any:
    """Return the last line of a script's output, read as JSON."""
    return json.loads(text.splitlines()[-1])


def test_this_file_runs_every_script() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    ran = set(re.findall(r'\b(?:run|apart)\("(\w+\.py)"', here))
    scripts = {path.name for path in BENCH.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert ran == scripts


def test_string_tasks_are_counted_with_and_without_joins(run: Run, tmp_path: Path) -> None:
    file, progress = tmp_path / "tasks.json", tmp_path / "progress.json"
    file.write_text(json.dumps(TASKS))
    found = last_json(run("strings_benchmark.py", file, "--programs", "24", "--proposer", "random",
                          "--set", "search.rollouts=4", "--progress", progress, "--json"))  # fmt: skip
    assert (found["tasks"], found["solved_train"], found["solved_without_joins"]) == (2, 1, 1)
    assert found["per_task"]["hard"]["without_joins"]["joins"] == 0
    assert set(json.loads(progress.read_text())) == {"copy", "hard"}


def test_a_suite_is_counted_by_proposer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "user-name").symlink_to(ROOT / "problems" / "strings" / "user-name")
    found = last_json(
        run("suite_benchmark.py", tmp_path / "two", "--evaluations", "8", "--proposers", "random", "--json")
    )
    assert found["problems"] == 1
    assert found["random"]["solved_unseen"] == [0]


def test_a_step_of_the_search_is_timed(run: Run) -> None:
    found = last_json(run("search_cost.py", "--programs", "60", "--samples", "2", "--json"))
    names = {"ask_tell_ms_median", "ask_tell_cpu_ms_median", "ask_tell_ms_p99", "commit_ms_median"}
    names |= {"commit_cpu_ms_median", "store_mb", "resume_seconds", "show_seconds", "rss_mb"}
    names |= {"resume_cpu_seconds", "show_cpu_seconds", "programs"}
    assert set(found) == names
    assert all(value > 0 for value in found.values())


@pytest.mark.skipif(
    shutil.which("chromium") is None or find_spec("playwright") is None,
    reason="no browser: `.ci/chromium` installs one",
)
def test_the_pictures_of_the_page_are_made(tmp_path: Path) -> None:
    apart("page_pictures.py", "--out", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"overview.png", "lineage.png", "population.png"}


def test_a_batch_under_faults_gives_the_rows_of_one_left_alone(run: Run, tmp_path: Path) -> None:
    file, alone, disturbed = tmp_path / "batch.toml", tmp_path / "alone.db", tmp_path / "disturbed.db"
    file.write_text(BATCH)
    ended(["-m", "evovpo", "batch", file, "--store", alone])
    said = apart("batch_faults.py", file, disturbed, "--jobs", "1", "--trees", "1", "--workers", "0",
               "--sandboxes", "0", "--disks", "0", "--between", "5", "10")  # fmt: skip
    assert "killed the whole tree" in said
    assert "ended with exit code 0" in said
    assert run("same_rows.py", alone, disturbed).splitlines()[-1] == "the same rows"
    assert "is there already" in apart("batch_faults.py", file, disturbed, code=2)


def test_evovpo_and_openevolve_are_timed_side_by_side() -> None:
    rows = ("evovpo_whole_numpy", "evovpo_loop", "openevolve_numpy")
    found = last_json(apart("side_by_side.py", "--rows", ",".join(rows), "--iterations", "10",
                          "--largest", "10", "--json"))  # fmt: skip
    assert tuple(found) == rows
    assert all(figures["it_per_s"] > 0 for figures in found.values())


def test_what_openevolve_is_compared_by_is_measured() -> None:
    found = last_json(apart("beside_openevolve.py", "--calls", "5", "--json"))
    assert found["evovpo"]["kept_after_kill"] == found["evovpo"]["asked_with_exits"] == "5 of 5"
    assert found["evovpo"]["same_twice"]
    assert not found["evovpo"]["key_seen"]
    assert found.keys() == {"evovpo", "openevolve"}


def test_the_order_of_objectives_is_read_from_what_measure_printed(run: Run, tmp_path: Path) -> None:
    results, picture = ROOT / "docs" / "results", tmp_path / "covered.png"
    seeds = sorted((results / "maze-conflict").glob("seed-*.json"))
    lines = run("conflict_order.py", *seeds, "--png", picture).splitlines()
    assert picture.stat().st_size > 10_000
    page = (results / "maze-conflict.md").read_text(encoding="utf-8").splitlines()
    assert all(line in page for line in lines)
    at_first = {line.split(" | ")[0][2:]: float(line.split(" | ")[5]) for line in lines[5:8]}
    assert at_first["grpo"] < at_first["max-at-k"] < at_first["vpo-at-k"]  # E_w best@12


def test_a_batch_on_a_cluster_whose_nodes_die_has_the_rows_of_one_here(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'evovpo[ray]'")
    file, alone, disturbed = tmp_path / "batch.toml", tmp_path / "alone.db", tmp_path / "disturbed.db"
    file.write_text(BATCH)
    ended(["-m", "evovpo", "batch", file, "--store", alone])
    said = apart("ray_faults.py", file, disturbed, "--nodes", "1", "--every", "20")
    assert "exit code 0" in said
    assert run("same_rows.py", alone, disturbed).splitlines()[-1] == "the same rows"


def test_search_quality_ranks_arms_and_keeps_its_rows(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    small = ("--arms", "evovpo,hill", "--seeds", "1", "--processes", "1", "--rows", rows)
    found = json.loads(run("search_quality.py", "--json", "--picture", tmp_path / "x.png", *small))
    assert set(found["mean_rank"]) == {"evovpo", "hill"}
    for calls in ("100", "300", "1000"):
        assert sum(ranks[calls] for ranks in found["mean_rank"].values()) == pytest.approx(3.0, abs=0.01)
    assert (tmp_path / "x.png").stat().st_size > 1000
    kept = rows.read_text(encoding="utf-8")
    assert "minus hill" in run("search_quality.py", *small)  # at once, from its rows
    assert rows.read_text(encoding="utf-8") == kept
