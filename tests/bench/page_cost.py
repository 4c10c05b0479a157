"""What the page costs on large stores: `python tests/bench/page_cost.py --runs N --programs M --json`.

A SQLite file is filled with N small runs of 5 programs each and one run of M programs, 10 components each,
with rows of the same tables that a run writes, but in bulk. Then the read API answers in this process,
without HTTP: the first list of runs and the first look at the large run (which reads a part of it and says
so), the looks until all of it is read, and after that looks between which the run grows by 16 programs.
`wall` is seconds, `cpu` those of this process's CPU.

With `--beside SECONDS` one search with random programs also runs beside a server whose page is asked every
2 seconds, as an open one asks, in turns so long without, with, with and without it; `--rounds` repeats them.
Compared are its replies per second and, for a machine with other work, per second of its own CPU, with a
95 % interval over the rounds; `page_cpu` is what part of a CPU the server takes while it is asked. With
`--paint` Chromium opens the list and the large run, and says after how many milliseconds it first drew
something, and after how many the table or the chart was there. `--store FILE` keeps the large store, and
takes it as it is where it was kept before.
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
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from sqlalchemy import insert

from evovpo.analysis.statistics import bootstrap_interval
from evovpo.config import Config
from evovpo.page import records
from evovpo.page.source import Source
from evovpo.store import Store
from evovpo.store.tables import (
    candidate_parents,
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
    ParentRole,
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


def source_of(run_id: str, place: int) -> str:
    return f"def solve(text):\n    return text[{place}:] + {run_id!r}\n"


def write(store: Store, run_ids: Sequence[str], first: int, count: int, rng: Random) -> None:
    """Append `count` judged programs to runs that have `first`, one a reply and `GROUP` replies an ask."""
    rows: dict[Any, list[dict[str, Any]]] = {
        table: []
        for table in (prompts, programs, rollouts, tells, evaluations, rewards, candidates, candidate_parents)
    }
    for run_id, place in product(run_ids, range(first, first + count)):
        sequence, index = divmod(place, GROUP)
        prompt_id, key = f"{run_id}-{sequence}", f"{run_id}-{place}"
        if index == 0:
            ask = {"id": prompt_id, "run_id": run_id, "sequence": sequence, "tells_before": place}
            more = {
                "island": sequence % 4,
                "messages": (),
                "rollouts": GROUP,
                "answers": 1,
                "seed": place,
                "way": "",
            }
            rows[prompts].append({**ask, "kind": PromptKind.ROOT, **more, "proposals": ()})
        source = source_of(run_id, place)
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
        if place:
            earlier = content_id(source_of(run_id, rng.randrange(place)))
            parent = {"candidate_id": f"c-{key}", "position": 0, "program_id": earlier}
            rows[candidate_parents].append({**parent, "role": ParentRole.PARENT})

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
    is_new = not path.exists()
    with Store.open(str(path)) as store:
        if is_new:
            fill(store, small, large)
        large = store.last_tell("large") + 1
        found: dict[str, Any] = {"runs": small + 1, "programs_of_the_large": large}
        found["store_mb"] = round(path.stat().st_size / 2**20)
        source = Source(str(path))
        found["first_list"] = timed(lambda: records.runs_record(source))
        found["list_again"] = timed(lambda: records.runs_record(source))
        found["first_look"] = timed(lambda: records.run_record(source, "large"))
        more = []
        while not source.figures(source.store().run("large")).is_whole:
            more.append(timed(lambda: records.run_record(source, "large")))
        found["looks_until_read"] = len(more)
        found["seconds_until_read"] = round(sum(one["wall"] for one in more), 2)
        for name, look in (
            ("list", lambda: records.runs_record(source)),
            ("overview", lambda: records.run_record(source, "large")),
            ("programs", lambda: records.programs_record(source, "large", sort="mean_reward")),
            ("population", lambda: records.programs_record(source, "large", limit=1000, sort="mean_reward")),
            ("filtered", lambda: records.programs_record(source, "large", sort="mean_reward", island=3)),
            ("answers", lambda: records.answers_record(source, "large", parse_status="unparsed")),
            ("children", lambda: source.store().children("large", content_id(source_of("large", 0)), 20)),
        ):
            grown = []
            for _ in range(looks):
                write(store, ["large"], large, 16, Random(large))
                large += 16
                grown.append(timed(look))
            found[name] = {key: statistics.median(one[key] for one in grown) for key in ("wall", "cpu")}
        source.close()
    return found


@contextmanager
def serving(path: Path) -> Iterator[tuple[int, str]]:
    """Serve a store until the block ends; the server's process and its address."""
    command = [sys.executable, "-m", "evovpo", "serve", "--port", "0", "--no-browser", "--store", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.pid, server.stdout.readline().strip()
        server.terminate()


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process and the children that it waited for have used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def asked(address: str, run: str) -> Iterator[list[int]]:
    """Ask for a run every 2 seconds, as an open page does, until the block ends; the sizes of the answers."""
    is_over, sizes = threading.Event(), list[int]()

    def ask() -> None:
        while not is_over.is_set():
            with urllib.request.urlopen(f"{address}api/runs/{run}") as answer:
                sizes.append(len(answer.read()))
            is_over.wait(2.0)

    asking = threading.Thread(target=ask)
    asking.start()
    yield sizes
    is_over.set()
    asking.join()


def painted(path: Path) -> dict[str, Any]:
    """Return when Chromium drew first, and when the content was there, in milliseconds since it was asked."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("EVOVPO_CHROMIUM") or shutil.which("chromium")
    found: dict[str, Any] = {}
    with serving(path) as (_, address), sync_playwright() as player:
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
    return found


def beside(path: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Return the rate of one search without and with an open page, in turns, and what it loses.

    A round is four turns: without, with, with, without; so a rate that rises or falls evenly changes nothing.
    """
    problem = "strings-hard/drawn-000"
    command = [sys.executable, "-m", "evovpo", "evolve", problem, "-n", "10000000", "--proposer", "random"]
    command += ["--store", str(path), "--set", "search.stop_when_solved=false"]
    rates: dict[str, list[list[float]]] = {"per_second": [], "per_cpu_second": []}
    answers, page_cpu = 0, 0.0
    with Store.open(str(path)) as store, serving(path) as (server, address):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, **quiet) as search:
            while not (begun := [row for row in store.runs() if row.evaluations]):
                time.sleep(0.2)
            run = begun[0].run

            def turn(is_open: bool) -> list[float]:
                nonlocal answers, page_cpu
                with asked(address, run) if is_open else nullcontext([]) as sizes:
                    began = [
                        store.last_tell(run),
                        time.perf_counter(),
                        *map(cpu_seconds, (search.pid, server)),
                    ]
                    time.sleep(seconds)
                    ended = [
                        store.last_tell(run),
                        time.perf_counter(),
                        *map(cpu_seconds, (search.pid, server)),
                    ]
                told, took, cpu, own = (late - early for late, early in zip(ended, began, strict=True))
                answers, page_cpu = answers + len(sizes), page_cpu + own
                return [told / took, told / cpu]

            time.sleep(20.0)  # it also warms up
            for _ in range(rounds):
                turns = [turn(is_open) for is_open in (False, True, True, False)]
                for place, kind in enumerate(rates):
                    first, second, third, fourth = (one[place] for one in turns)
                    rates[kind].append([(first + fourth) / 2, (second + third) / 2])
            proposed = store.last_tell(run)
            search.terminate()
    found: dict[str, Any] = {"tells": proposed, "answers": answers}
    found["page_cpu"] = round(page_cpu / (2 * rounds * seconds), 4)
    for kind, pairs in rates.items():
        losses = [1 - watched / alone for alone, watched in pairs]
        middle, low, high, n = bootstrap_interval(losses, None, np.random.default_rng(0))
        loss = {"loss": round(middle, 4), "low": round(low, 4), "high": round(high, 4), "rounds": n}
        found[kind] = {**loss, "pairs": [[round(one, 2) for one in pair] for pair in pairs]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--looks", type=int, default=5, help="at what grows; 0 leaves the API out")
    parser.add_argument("--store", type=Path, metavar="FILE")
    parser.add_argument("--beside", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--paint", action="store_true", help="ask Chromium too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.store or Path(folder, "large.db")
        found = costs(path, arguments.runs, arguments.programs, arguments.looks) if arguments.looks else {}
        print(json.dumps(found), file=sys.stderr, flush=True)  # what comes next takes minutes
        if arguments.paint:
            found["paint"] = painted(path)
            print(json.dumps(found["paint"]), file=sys.stderr, flush=True)
        if arguments.beside:
            found["search"] = beside(Path(folder, "search.db"), arguments.beside, arguments.rounds)
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
