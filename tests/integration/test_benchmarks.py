"""Every script of tests/bench runs at its smallest size and prints what it says it prints."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tests" / "bench"


def run(name: str, *arguments: str | Path) -> str:
    command = [sys.executable, str(BENCH / name), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def last_json(text: str) -> Any:
    return json.loads(text.splitlines()[-1])


def test_this_file_runs_every_script() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    ran = set(re.findall(r'\brun\("(\w+\.py)"', here))
    scripts = {path.name for path in BENCH.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert ran == scripts


def test_a_step_of_the_search_is_timed() -> None:
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
    run("page_pictures.py", "--out", tmp_path, "--only", "overview,training")
    sizes = ("wide-light", "wide-dark", "narrow-light", "narrow-dark")
    names = {f"{view}-{size}.webp" for view in ("overview", "training") for size in sizes}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_evovpo_and_openevolve_are_timed_side_by_side() -> None:
    rows = ("evovpo_whole_numpy", "evovpo_loop", "openevolve_numpy")
    found = last_json(run("side_by_side.py", "--rows", ",".join(rows), "--iterations", "10",
                          "--largest", "10", "--json"))  # fmt: skip
    assert tuple(found) == rows
    assert all(figures["it_per_s"] > 0 for figures in found.values())


def test_what_openevolve_is_compared_by_is_measured() -> None:
    found = last_json(run("beside_openevolve.py", "--calls", "5", "--json"))
    assert found["evovpo"]["asked_with_exits"] == "5 of 5"
    assert found["evovpo"]["same_twice"]
    assert not found["evovpo"]["key_seen"]
    assert found.keys() == {"evovpo", "openevolve"}


def test_a_terminal_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "terminal.svg"
    run("terminal_recording.py", "--evaluations", "200", "--out", file)
    shown = file.read_text(encoding="utf-8")
    assert [word in shown for word in ("Killed", "$ evovpo resume latest", "<image")] == [True] * 3


def test_search_quality_ranks_arms_and_keeps_its_rows(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json.gz"
    small = ("--arms", "evovpo,hill", "--seeds", "1", "--processes", "1", "--rows", rows)
    found = json.loads(run("search_quality.py", "--json", "--picture", tmp_path / "x.png", *small))
    assert set(found["mean_rank"]) == {"evovpo", "hill"}
    for calls in ("100", "300", "1000"):
        assert sum(ranks[calls] for ranks in found["mean_rank"].values()) == pytest.approx(3.0, abs=0.01)
    assert (tmp_path / "x.png").stat().st_size > 1000
    kept = rows.read_bytes()
    assert "minus hill" in run("search_quality.py", *small)  # at once, from its rows
    assert rows.read_bytes() == kept
