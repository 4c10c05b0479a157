"""Reports of batches: their figures by hand and against SQL, and a page that needs nothing from outside."""

import csv
import gzip
import itertools
import json
import os
import re
import shutil
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell import Shell

from evovpo.analysis.doctor.sample_figures import weightings
from evovpo.analysis.grouping import grouped
from evovpo.analysis.statistics import expected_best
from evovpo.errors import ConfigError
from evovpo.experiments.batch_file import Arm, Batch, Cell, Variant, read_batch
from evovpo.experiments.batch_plan import plan
from evovpo.experiments.results import (
    SOLVED_HELDOUT,
    SOLVED_ROWS,
    CellResult,
    Results,
    best_within,
    named,
    read_results,
)
from evovpo.page.batch_report import (
    arm_curve,
    batch_record,
    heat_map,
    results_json,
    solved_share,
    write_report,
)
from evovpo.page.export import document, packed
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import resolve_problem
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.store import Store
from evovpo.types import RunStatus

pytestmark = pytest.mark.slow

BATCH = Batch(
    name="by hand", problems=tuple(map(Path, "abcd")), evaluations=(100,), seeds=(0, 1),
    proposers=(Variant("p", {}),), strategies=(Variant("one", {}), Variant("two", {})), origin="by hand",
)  # fmt: skip
ONE, TWO = BATCH.arms
STORED = """
name = "stored"
problems = ["strings-hard/drawn-002", "strings-hard/drawn-004"]
evaluations = [64]
seeds = [3, 8]
proposers = ["random"]
strategies = ["islands", "iid"]

[settings]
sandbox.workers = 1
"""


def cell(
    problem: str, arm: Arm, seed: int, solved_after: int | None, status: RunStatus | None = None
) -> CellResult:
    """Return a cell of four components that had two at once, and all of them from `solved_after` on."""
    is_solved = solved_after is not None
    status = status or (RunStatus.SOLVED if is_solved else RunStatus.EXHAUSTED)
    at = Cell(BATCH.run_id(problem, arm, seed), problem, arm, seed)
    row = {"status": status, "solved": is_solved, "solved_after": solved_after, "solved_heldout": None,
           "best_mean_reward": 1.0 if is_solved else 0.5, "proposed": 100, "best_score": None,
           "curve": [(0, 0.0), (10, 0.5), *[(solved_after, 1.0)] * is_solved]}  # fmt: skip
    return CellResult(at, row)


def both(arm: Arm, solved: Mapping[str, Sequence[int | None]]) -> list[CellResult]:
    """Return the cells of an arm: for each problem after how many evaluations each seed solved it."""
    return [
        cell(problem, arm, seed, after)
        for problem, afters in solved.items()
        for seed, after in enumerate(afters)
    ]


def test_the_figures_of_arms_by_hand() -> None:
    none = (None, None)
    first = both(ONE, {"a": (20, 40), "b": none, "c": (60, None), "d": none})
    found = Results(BATCH, [*first, *both(TWO, {"a": (80, 80), "b": none, "c": none, "d": (100, None)})])
    one, two = found.arms
    # One seed solves a and c, the other a: 1.5 of 4 problems; the best are 1, .5, .75, .5 in the mean.
    solved, best = one.mean(SOLVED_ROWS), one.mean(named("best_mean_reward"))
    assert solved is not None
    assert best is not None
    assert (solved.mean, len(one.problems), len(one.seeds)) == (1.5, 4, 2)
    assert best.mean == pytest.approx((1.0 + 0.5 + 0.75 + 0.5) / 4)
    assert 0.0 <= solved.low < 1.5 < solved.high <= 4.0
    assert found.solved_in_any(ONE) == {"a", "c"}
    assert (found.unlocked(ONE), found.unlocked(TWO)) == (("c",), ("d",))
    ((ours, theirs),) = next(found.comparisons()).pairs.values()
    assert (ours, theirs) == (two, one)
    difference = two.minus(one, SOLVED_ROWS).interval
    assert difference.low < difference.mean == 0.0 < difference.high
    shares, bests = arm_curve(one, solved_share), arm_curve(one, best_within)
    assert [shares[k].mean for k in (0, 20, 40, 60, 100)] == [0.0, 1 / 8, 2 / 8, 3 / 8, 3 / 8]
    assert [bests[k].mean for k in (0, 10, 20)] == [0.0, 0.5, 0.5 + 0.5 / 8]


def test_a_problem_with_a_score_of_its_own_shows_the_best_of_it() -> None:
    solved: dict[str, tuple[int | None, ...]] = {"a": (None, 40), "b": (None, None)}
    found = [*both(ONE, solved), *both(TWO, solved)]
    for one, score in zip(found, (2.5, 2.635) + (None,) * 6, strict=True):
        assert one.row is not None
        one.row.update(best_score=score, score_name="combined_score")
    table = batch_record(Results(BATCH, found))["parts"][-1]
    shown = {problem: cells[0] for problem, *cells in table["rows"]}
    assert shown == {"a": "**solved 1 of 2**, best combined_score 2.635", "b": "best 0.500"}


def test_only_problems_with_all_seeds_ended_count_and_the_verdict_says_how_many_have_not() -> None:
    open_still = [cell("b", TWO, 0, 10), cell("b", TWO, 1, None, RunStatus.RUNNING)]
    ended = both(ONE, {"a": (20, 40), "b": (10, 10)}) + both(TWO, {"a": (20, None)})
    found = Results(BATCH, ended + open_still)
    assert [len(arm.problems) for arm in found.arms] == [2, 1]
    assert found.arms[1].minus(found.arms[0], SOLVED_ROWS).interval.n == 1
    assert found.verdict()[0].startswith("1 of 8 runs have not ended")


def test_an_arm_wins_only_by_an_interval_without_zero() -> None:
    problems = [f"p{number}" for number in range(12)]
    never = both(ONE, dict.fromkeys(problems, (None, None)))
    clear = Results(BATCH, [*never, *both(TWO, dict.fromkeys(problems, (50, 50)))])
    assert clear.verdict() == [
        "(p, two, 100) against (p, one, 100): solved by search +12.0 of 12 [+12.0, +12.0], p = 0.00049 "
        "(ahead), unlocks 12 that (p, one, 100) never solves and lacks 0 that it solves (2 seeds each)."
    ]
    once = {problem: (50, None) if problem == "p0" else (None, None) for problem in problems}
    unclear = Results(BATCH, [*never, *both(TWO, once)])
    assert "+0.5 of 12 [+0.0, " in unclear.verdict()[0]
    assert "p = 1 (no clear difference)" in unclear.verdict()[0]
    # Three problems that agree have an interval without width, and show next to nothing: p = 2 / 2^3.
    few = Results(BATCH, [one for one in clear.cells if one.cell.problem_id in problems[:3]])
    assert "[+3.0, +3.0], p = 0.25 (no clear difference)" in few.verdict()[0]


def test_without_any_run_the_report_says_so_and_gives_no_figure() -> None:
    cells = itertools.product("ab", BATCH.arms, BATCH.seeds)
    found = Results(BATCH, [CellResult(Cell("x", *one), None) for one in cells])
    assert (arm_curve(found.arms[0], solved_share), [*found.comparisons()]) == ({}, [])
    assert results_json(found)["arms"][0]["solved_train"] is None  # type: ignore[index, call-overload]
    record = batch_record(found)
    assert record["ended"] == [0, 8]
    assert "8 of 8 runs have not ended" in record["sentences"][0]
    assert [part["kind"] for part in record["parts"]] == ["table", "table"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    (folder / "stored.toml").write_text(STORED)
    url = f"sqlite:///{folder / 'runs.db'}"
    _, works = plan(str(folder / "stored.toml"), url)
    with Store.open(url) as store:
        for work in works[:-1]:
            start(RunRequest(work.problem, work.config, run_id=work.cell.run_id), store)
    return folder


def answers_in(page: Path) -> dict[str, Any]:
    stored = json.loads(re.search(r'id="stored">(.*)</script>', page.read_text(encoding="utf-8"))[1])  # type: ignore[index]
    parts = (json.loads(gzip.decompress(b64decode(part))) for part in stored["parts"])
    return {path: answer for part in parts for path, answer in part.items()}


def test_the_figures_are_those_of_plain_sql(stored: Path) -> None:
    with Store.open(str(stored / "runs.db"), create=False) as store:
        found = read_results(read_batch(str(stored / "stored.toml")), store)
        solved = {
            row["run"]
            for row in store.query(
                "SELECT DISTINCT c.run_id AS run FROM candidates c JOIN rewards r USING (evaluation_id) "
                "GROUP BY c.id HAVING min(r.value) >= 1"
            )
        }
        best = {
            row["run"]: row["best"]
            for row in store.query(
                "SELECT run, max(mean) AS best FROM (SELECT c.run_id AS run, avg(r.value) AS mean "
                "FROM candidates c JOIN rewards r USING (evaluation_id) GROUP BY c.id) GROUP BY run"
            )
        }
        proposed = {
            row["run"]: row["n"]
            for row in store.query(
                "SELECT c.run_id AS run, count(*) AS n FROM candidates c "
                "JOIN prompts p ON p.id = c.prompt_id WHERE p.kind NOT IN ('seed', 'shorten') "
                "GROUP BY c.run_id"
            )
        }
        assert 0 < len(solved) < 7
        for one in found.cells[:-1]:
            run, row = one.cell.run_id, one.row
            assert row is not None
            assert (row["solved"], row["proposed"]) == (run in solved, proposed[run])
            assert row["best_mean_reward"] == pytest.approx(best[run])
            problem = load_problem(resolve_problem(one.cell.problem_id))
            vectors = grouped(problem, [vector for _, vector in store.vectors([run])])
            together = expected_best(vectors, weightings(vectors.shape[1]))
            assert row["best_mean_reward"] <= row["expected_best"] == pytest.approx(together)
            assert vectors.prod(axis=1).max() <= row["hypervolume"] + 0.015
            assert row["hypervolume"] <= vectors.max(axis=0).prod() + 0.015
        assert found.cells[-1].row is None
        heat = heat_map(store, found, "strings-hard/drawn-004")
        assert heat is not None
        runs_of = [one.cell.run_id for one in found.cells if one.cell.problem_id == "strings-hard/drawn-004"]
        programs = {
            row["program_id"]
            for run in runs_of
            for row in store.query("SELECT program_id FROM candidates WHERE run_id = :run", run=run)
        }
        version = store.run(runs_of[0]).problem_version
        judged = [store.known_evaluation(version, program) for program in programs if program]
        alike = Counter(one.rewards for one in judged if one is not None and one.rewards)
        assert {tuple(row["values"]): row["alike"] for row in heat["rows"]} == alike  # all are shown
        means = [np.mean(row["values"]) for row in heat["rows"]]
        assert means == sorted(means, reverse=True)
        assert heat["note"] == f"{len(alike)} vectors of {alike.total()} different programs."


def test_the_page_opens_without_a_network_and_its_tables_hold_the_same_numbers(
    stored: Path, evovpo: Shell
) -> None:
    command = partial(evovpo, "batch", stored / "stored.toml", "--report-only", "--json")
    answer = command("--store", stored / "runs.db")
    assert answer.code == 0
    assert answer.json["page"] == "evovpo-out/report-stored/report.html"
    page = Path(answer.json["page"])
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:,|#)|url\((?!#)", text)
    report = answers_in(page)["/api/report"]["report"]
    assert report["ended"] == [7, 8]
    assert [part["kind"] for part in report["parts"]] == ["table", "chart", "chart", "table", "map", "map"]
    assert "strings-hard/drawn-004" in [row[0] for row in report["parts"][3]["rows"]]
    with Path("evovpo-out/report-stored/cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == answer.json["cells"] == 8
    for arm in answer.json["arms"]:
        ended = [row for row in rows if row["strategy"] == arm["strategy"] and row["status"]]
        evaluations = sum(int(row["proposed"]) for row in ended) / len(ended)
        assert (len(ended), evaluations) == (arm["finished"], arm["mean_evaluations"])
    figures = json.loads(Path("evovpo-out/report-stored/results.json").read_text())
    assert figures == {key: answer.json[key] for key in figures}
    assert command("--store", stored / "runs.db").json == answer.json
    assert page.read_text(encoding="utf-8") == text


CHROMIUM = os.environ.get("EVOVPO_CHROMIUM") or shutil.which("chromium")
YELLOWS = """[...document.querySelectorAll(".heat td span")].filter(
  (cell) => cell.style.background === "rgb(253, 231, 37)").length"""
"""How many cells of heat maps have the colour of 1."""


@pytest.mark.skipif(CHROMIUM is None, reason="no browser: `.ci/chromium` installs one")
def test_a_browser_shows_the_page_and_lets_nothing_else_in(stored: Path, tmp_path: Path) -> None:
    player = pytest.importorskip("playwright.sync_api", reason="browsers are driven by playwright")
    with Store.open(str(stored / "runs.db"), create=False) as store:
        found = read_results(read_batch(str(stored / "stored.toml")), store)
        file = write_report(store, found, tmp_path)[0]
    with player.sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, said = browser.new_page(), list[str]()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: said.append(message.text))
        page.goto(file.as_uri())
        page.wait_for_selector(".heat td span")
        rewards = [
            row["values"]
            for part in answers_in(file)["/api/report"]["report"]["parts"]
            if part["kind"] == "map"
            for row in part["rows"]
        ]
        assert page.evaluate(YELLOWS) == sum(values.count(1.0) for values in rewards) > 0
        assert said == []
        hostile = "<img src=http://127.0.0.1:9/x.png><script>alert(1)</script></body>"
        file.write_text(file.read_text(encoding="utf-8").replace("</body>", hostile), encoding="utf-8")
        with (
            page.expect_console_message(lambda message: "127.0.0.1:9" in message.text) as picture,
            page.expect_console_message(lambda message: "inline script" in message.text) as script,
        ):
            page.goto(file.as_uri())
        for refused in (picture.value, script.value):
            assert "Content Security Policy" in refused.text
        browser.close()


def test_untrusted_text_stays_text_on_the_page(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m $x^2$"
    found = Results(BATCH, [cell(hostile, arm, seed, 20) for arm in BATCH.arms for seed in BATCH.seeds])
    record = batch_record(found)
    page = document(["report"], [packed({"/api/report": {"report": record}})])
    assert "alert(1)" not in page
    assert len(re.findall("<script", page)) == 2
    assert hostile in [
        row[0] for part in record["parts"] for row in part.get("rows", ()) if part["kind"] == "table"
    ]


def test_a_report_with_fewer_runs_takes_the_place_of_no_other(stored: Path, evovpo: Shell) -> None:
    report = partial(evovpo, "batch", stored / "stored.toml", "--report-only")
    store = stored / "runs.db"
    Store.open("empty.db").close()
    empty = report("--store", "empty.db", "--out", "out")
    assert empty.code == 2
    assert empty.err.strip() == (
        "error: sqlite:///empty.db has no run of stored; give the --store that has them"
    )
    assert not Path("out").exists()
    assert report("--store", store, "--out", "out").code == 0
    page = Path("out/report.html").read_bytes()
    for other, limit in (("empty.db", ()), (store, ("--limit", "1"))):
        answer = report("--store", other, "--out", "out", *limit)
        assert answer.code == 2
        assert ", the report in out 7; give " in answer.err
        assert Path("out/report.html").read_bytes() == page
    assert report("--store", store, "--out", "out").code == 0


def test_a_folder_that_cannot_be_written_is_one_clear_error(stored: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Store.open(str(stored / "runs.db"), create=False) as store:
        found = read_results(read_batch(str(stored / "stored.toml")), store)
        with pytest.raises(ConfigError, match="give another --out"):
            write_report(store, found, tmp_path / "file")


def test_json_has_each_value_with_its_interval(stored: Path) -> None:
    with Store.open(str(stored / "runs.db"), create=False) as store:
        answer: Any = results_json(read_results(read_batch(str(stored / "stored.toml")), store))
    for arm in answer["arms"]:
        assert set(arm) >= {"proposer", "strategy", "seeds", "solved_train", "unlocked"}
        reached = [arm[name] for name in ("best_mean_reward", "expected_best", "hypervolume")]
        for value in (arm["solved_train"], *reached, *arm["best_after"].values()):
            assert value["low"] <= value["value"] <= value["high"]
        assert "64" in arm["solved_after"]
        assert arm["solved_heldout"]["value"] <= arm["solved_train"]["value"]


def test_held_out_figures_rest_on_the_problems_that_have_such_rows() -> None:
    solved = {"x": [40, 50], "y": [40, None], "z": [60, 70]}
    cells = both(ONE, solved) + both(TWO, solved)
    judged = {("x", 0): True, ("x", 1): False, ("y", 0): True, ("y", 1): False}
    for one in cells:
        assert one.row is not None
        one.row["solved_heldout"] = judged.get((one.cell.problem_id, one.cell.seed))
    found = Results(BATCH, cells)
    arm = found.arms[0]
    solved, heldout = arm.mean(SOLVED_ROWS), arm.mean(SOLVED_HELDOUT, found.with_heldout(arm))
    assert solved is not None
    assert (solved.mean, solved.n) == (2.5, 3)
    assert heldout is not None
    assert (heldout.mean, heldout.n) == (1.0, 2)
