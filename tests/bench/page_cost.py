"""What the page costs on large stores: `python tests/bench/page_cost.py --runs N --programs M --json`.

A SQLite file is filled with N small runs of 5 programs each and one run of M programs, 10 components each,
with rows of the same tables that a run writes, but in bulk. Then the read API answers in this process,
without HTTP: the first list of runs and the first look at the large run (which reads a part of it and says
so), the looks until all of it is read, and after that looks between which the run grows by 16 programs.
`wall` is seconds, `cpu` those of this process's CPU.

With `--beside SECONDS` a search with random programs also runs so long twice, in turns with and without a
server whose page is asked every 2 seconds, as an open one asks; `--rounds` repeats it. Compared are its
programs per second and, for a machine with other work, per second of its own CPU; `page_cpu` is what part of
a CPU the server takes. With `--paint` Chromium opens the list and the large run, and says after how many
milliseconds it first drew something, and after how many the table or the chart was there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import insert

from evovpo.config import Config
from evovpo.page import records
from evovpo.page.records import Page
from evovpo.page.source import Source
from evovpo.store import Store
from evovpo.store.tables import (
    candidates,
    evaluations,
    programs,
    prompts,
    rewards,
    rollouts,
    run_events,
    runs,
    tells,
)
from evovpo.types import (
    Objective,
    ParseStatus,
    Problem,
    Program,
    PromptKind,
    Run,
    RunStatus,
    Status,
    content_id,
)

COMPONENTS = 10
GROUP = 8
SMALL = 5
_AT = "2026-01-02T03:04:05+00:00"
PROBLEM = Problem(
    id="large",
    version="large-1",
    statement="Rewards drawn at random.",
    entry="solve",
    parameters=("text",),
    objectives=tuple(Objective(f"row-{number}") for number in range(COMPONENTS)),
    seeds=(Program("def solve(text):\n    return text\n"),),
    scorer_path="score.py",
)


def write(store: Store, run_ids: Sequence[str], first: int, count: int, rng: Random) -> None:
    """Append `count` judged programs to runs that have `first`, one a reply and `GROUP` replies an ask."""
    rows: dict[Any, list[dict[str, Any]]] = {
        table: [] for table in (prompts, programs, rollouts, tells, evaluations, rewards, candidates)
    }
    for run_id, place in product(run_ids, range(first, first + count)):
        sequence, index = divmod(place, GROUP)
        prompt_id, key = f"{run_id}-{sequence}", f"{run_id}-{place}"
        if index == 0:
            ask = {"id": prompt_id, "run_id": run_id, "sequence": sequence, "tells_before": place}
            more = {"island": sequence % 4, "messages": (), "rollouts": GROUP, "answers": 1, "seed": place}
            rows[prompts].append({**ask, "kind": PromptKind.ROOT, **more, "proposals": ()})
        source = f"def solve(text):\n    return text[{place}:] + {run_id!r}\n"
        program_id = content_id(source)
        rows[programs].append({"id": program_id, "source": source})
        rollout = {"id": f"r-{key}", "prompt_id": prompt_id, "index": index, "policy_version": 0}
        rollout |= {"text": source, "tokens": 20, "seconds": 0.01, "model": ""}
        sampling = {"temperature": 1.0, "max_tokens": 99, "grammar_masked": False, "finish_reason": "stop"}
        rows[rollouts].append({**rollout, **sampling})
        tell = {"run_id": run_id, "position": place, "prompt_id": prompt_id, "rollout_index": index}
        rows[tells].append({**tell, "rollout_id": f"r-{key}", "executed": 1})
        judged = {"id": f"e-{key}", "problem_version": "large-1", "program_id": program_id, "private_to": ""}
        how = {"status": Status.OK, "feedback": "", "seconds": 0.01, "isolation": "none"}
        rows[evaluations].append({**judged, **how, "digest": "", "trust": "high"})
        rows[rewards] += [
            {"evaluation_id": f"e-{key}", "objective": j, "name": f"row-{j}", "value": rng.random() ** 4}
            for j in range(COMPONENTS)
        ]
        candidate = {"id": f"c-{key}", "run_id": run_id, "position": place, "slot": 0, "prompt_id": prompt_id}
        what = {"parse_status": ParseStatus.PARSED, "program_id": program_id, "text": "", "reason": ""}
        rows[candidates].append(
            {**candidate, "rollout_id": f"r-{key}", **what, "evaluation_id": f"e-{key}", "executed": True}
        )

    def add(connection: Any) -> None:
        for table, of_table in rows.items():
            if of_table:
                connection.execute(insert(table), of_table)

    store.write(add)


def fill(store: Store, small: int, large: int) -> None:
    """Write the small runs and the large one, which is the newest."""
    rng = Random(0)
    store.add_problem(PROBLEM)
    config = Config().to_json()
    for start in range(0, small, 500):
        names = [f"small-{number:05}" for number in range(start, min(start + 500, small))]
        common = {"problem_id": "large", "problem_version": "large-1", "seed": 0, "evaluations": SMALL}
        run_rows = [{"id": name, **common, "config_json": config, "created_at": _AT} for name in names]
        event_rows = [{"run_id": name, "status": RunStatus.EXHAUSTED, "at": _AT} for name in names]
        store.write(lambda connection, rows=run_rows: connection.execute(insert(runs), rows))
        store.write(lambda connection, rows=event_rows: connection.execute(insert(run_events), rows))
        write(store, names, 0, SMALL, rng)
    store.add_run(Run("large", "large", "large-1", 0, large, config, RunStatus.RUNNING, _AT))
    for start in range(0, large, 5000):
        write(store, ["large"], start, min(5000, large - start), rng)


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """Return how long some work takes, in seconds of the clock and of this process's CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": round(time.perf_counter() - wall, 4), "cpu": round(time.process_time() - cpu, 4)}


def costs(path: Path, small: int, large: int, looks: int) -> dict[str, Any]:
    """Return what the read API costs on a store of these sizes."""
    with Store.open(str(path)) as store:
        fill(store, small, large)
        found: dict[str, Any] = {"runs": small + 1, "programs_of_the_large": large}
        found["store_mb"] = round(path.stat().st_size / 2**20)
        source = Source(str(path))
        found["first_list"] = timed(lambda: records.runs_record(source, Page()))
        found["list_again"] = timed(lambda: records.runs_record(source, Page()))
        found["first_look"] = timed(lambda: records.run_record(source, "large"))
        more = []
        while not source.figures(source.store().run("large")).is_whole:
            more.append(timed(lambda: records.run_record(source, "large")))
        found["looks_until_read"] = len(more)
        found["seconds_until_read"] = round(sum(one["wall"] for one in more), 2)
        for name, look in (
            ("list", lambda: records.runs_record(source, Page())),
            ("overview", lambda: records.run_record(source, "large")),
            ("programs", lambda: records.programs_record(source, "large", Page(), "mean_reward")),
            ("population", lambda: records.programs_record(source, "large", Page(0, 1000), "mean_reward")),
        ):
            grown = []
            for _ in range(looks):
                write(store, ["large"], large, 16, Random(large))
                large += 16
                grown.append(timed(look))
            found[name] = {key: statistics.median(one[key] for one in grown) for key in ("wall", "cpu")}
        source.close()
    return found


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process and the children that it waited for have used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def page_open(path: Path, shares: list[float]) -> Iterator[None]:
    """Serve a store and ask for its newest run every 2 seconds, as an open page does.

    Appends the part of a CPU that the server took.
    """
    command = [sys.executable, "-m", "evovpo", "serve", "--port", "0", "--no-browser", "--store", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.wait(2.0):
                with urllib.request.urlopen(f"{address}api/runs?limit=1") as answer:
                    newest = json.load(answer)["runs"][0]["id"]
                urllib.request.urlopen(f"{address}api/runs/{newest}").read()

        asking = threading.Thread(target=ask)
        began, cpu = time.perf_counter(), cpu_seconds(server.pid)
        asking.start()
        yield
        shares.append((cpu_seconds(server.pid) - cpu) / (time.perf_counter() - began))
        is_over.set()
        asking.join()
        server.terminate()


def painted(path: Path) -> dict[str, Any]:
    """Return when Chromium drew first, and when the content was there, in milliseconds since it was asked."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("EVOVPO_CHROMIUM") or shutil.which("chromium")
    command = [sys.executable, "-m", "evovpo", "serve", "--port", "0", "--no-browser", "--store", str(path)]
    found: dict[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as player:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, place, content in (
            ("list", "#/runs", "main tbody"),
            ("run", "#/run/large", "main svg.chart"),
        ):
            times = []
            for _ in range(5):
                page = browser.new_page()
                page.goto(f"{address}{place}")
                page.wait_for_selector(content, timeout=120_000)
                first = "performance.getEntriesByType('paint').at(-1).startTime"
                times.append([round(page.evaluate(what)) for what in (first, "performance.now()")])
                page.close()
            found[name] = {"first_paint": [one[0] for one in times], "content": [one[1] for one in times]}
        browser.close()
        server.terminate()
    return found


def searched(path: Path, seconds: float) -> tuple[float, float]:
    """Return the programs of a search that is stopped after so long, per second and per second of CPU."""
    name = "strings-hard/drawn-000"
    command = [sys.executable, "-m", "evovpo", "evolve", name, "-n", "1000000", "--proposer", "random"]
    with Store.open(str(path)) as store:
        before = {row.run for row in store.runs()}
        with subprocess.Popen(
            [*command, "--store", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run:
            while not (new := [row for row in store.runs() if row.run not in before and row.evaluations]):
                time.sleep(0.2)
            start = store.run_summary(new[0].run).proposed
            began, cpu = time.perf_counter(), cpu_seconds(run.pid)
            time.sleep(seconds)
            done = store.run_summary(new[0].run).proposed - start
            taken, cpu = time.perf_counter() - began, cpu_seconds(run.pid) - cpu
            run.terminate()
    return done / taken, done / cpu


def beside(folder: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Return the rates of a search alone and with an open page, in turns, and the mean losses as shares."""
    alone, watched, shares = [], [], list[float]()
    for number in range(rounds):
        alone.append(searched(folder / f"alone-{number}.db", seconds))
        path = folder / f"page-{number}.db"
        with Store.open(str(path)), page_open(path, shares):
            watched.append(searched(path, seconds))
    found: dict[str, Any] = {"page_cpu": [round(one, 4) for one in shares]}
    for place, name in enumerate(("per_second", "per_cpu_second")):
        pair = [[round(one[place], 2) for one in rates] for rates in (alone, watched)]
        loss = 1 - statistics.fmean(pair[1]) / statistics.fmean(pair[0])
        found[name] = {"alone": pair[0], "with_page": pair[1], "loss": round(loss, 4)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--looks", type=int, default=5)
    parser.add_argument("--beside", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--paint", action="store_true", help="ask Chromium too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = costs(Path(folder, "large.db"), arguments.runs, arguments.programs, arguments.looks)
        if arguments.paint:
            found["paint"] = painted(Path(folder, "large.db"))
        if arguments.beside:
            found["search"] = beside(Path(folder), arguments.beside, arguments.rounds)
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
