"""The simulation of tests/bench/fleet.py against real runs, and what it says of fleets, as pictures.

    python tests/bench/fleet_checked.py --json
    python tests/bench/fleet_checked.py --pictures docs/scale

The real runs are those of the driver with 1, 2 and 4 evaluators and a store in a file; servers and
evaluators only wait, exactly as long as in the simulation. The searcher's costs are measured just before, by
the clock on the wall, as the speed of the runs is: on a machine that others use too, what they
leave is part of the cost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from fleet import (
    SLOTS,
    TASK,
    Costs,
    Fleet,
    judgement,
    names_of,
    new_search,
    rollout_of,
    simulate,
)
from search_cost import measured_costs

from evovpo.config import Config
from evovpo.reports.pictures import COLOURS, MARKS, new_figure, write_png
from evovpo.runs.driver import Driver
from evovpo.search.search import Search
from evovpo.store import Store
from evovpo.types import Evaluation, Program, Prompt, Rollout, Run, RunStatus, Sampling


class Waiting:
    """Proposer and judge of a real run that only wait, as long as in the simulation."""

    policy_version = 0

    def __init__(self, fleet: Fleet, search: Search) -> None:
        self.fleet, self.search = fleet, search
        self.servers = asyncio.Semaphore(fleet.gpus * fleet.slots)
        self.parents: dict[str, str | None] = {}

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        async with self.servers:
            await asyncio.sleep(self.fleet.request_seconds(f"{prompt.run_id}.{prompt.sequence}"))
        self.parents |= {name: prompt.parent_id for index in indices for name in names_of(prompt, index)}
        return [rollout_of(prompt, index) for index in indices]

    async def aclose(self) -> None:
        return None

    def evaluate(self, program: Program) -> Evaluation:
        time.sleep(self.fleet.judging_seconds(program.source))
        return judgement(self.search, program, self.parents.get(program.source))


def real(fleet: Fleet, evaluations: int, seed: int = 0) -> float:
    """Return the evaluations a second of a real run with a store in a file."""
    search = new_search(evaluations, seed)
    config = search.config.changed(in_flight=fleet.open_asks)
    run = Run(search.run_id, TASK.id, TASK.version, seed, evaluations, "{}", RunStatus.RUNNING, "")
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/real.db") as store:
        store.add_problem(TASK)
        store.add_run(run)
        waiting = Waiting(fleet, search)
        driver = Driver(search, Config(search=config), waiting, waiting, store, workers=fleet.evaluators)
        began = time.monotonic()
        asyncio.run(driver.run())
        return search.proposed / (time.monotonic() - began)


def check(costs: Costs, evaluations: int) -> dict[str, dict[str, float]]:
    """Return the speed of real runs with 1, 2 and 4 evaluators, as simulated, and the relative error."""
    found = {}
    for workers in (1, 2, 4):
        fleet = Fleet(1, workers, slots=2, in_flight=4, sampling=1.0, judging=0.4, failures=0.02)
        wanted = evaluations / simulate(fleet, costs, evaluations).seconds
        happened = real(fleet, evaluations)
        error = wanted / happened - 1
        found[str(workers)] = {"simulated": wanted, "real": happened, "error": error}
    return found


def draw(folder: Path, costs: Costs, scale: float) -> dict[str, Any]:
    """Simulate the fleets of docs/scale.md, write two pictures, and return their figures."""
    opened = [(most, count) for most in (256, 1024) for count in (1, 4, 16, 64, 256, 1000)]
    fleets = [
        Fleet(count, 100 * count, in_flight=min(most, 16 * count))
        for most, count in opened
        if most == 256 or 16 * count >= most
    ]
    modes = [
        Fleet(max(1, most // 8), 20 * most, in_flight=most, is_lock_step=is_lock_step)
        for most in (1, 8, 32, 128)
        for is_lock_step in (False, True)
    ]
    tails = [
        Fleet(4, 80, tail=tail, in_flight=32, is_lock_step=is_lock_step)
        for tail in (0.0, 3.0, 1.5, 1.2)
        for is_lock_step in (False, True)
    ]
    work = [(fleet, 0, round(scale * max(60, 1.5 * fleet.in_flight))) for fleet in fleets]
    work += [(fleet, 0, round(320 * scale)) for fleet in tails]
    work += [
        (fleet, seed, round(scale * max(300, 4 * fleet.in_flight))) for fleet in modes for seed in (0, 1)
    ]
    with ProcessPoolExecutor(3) as pool:
        begun = [pool.submit(simulate, fleet, costs, count * SLOTS, seed) for fleet, seed, count in work]
        rows = [
            {**fleet._asdict(), "seed": seed, "groups": count, **one.result()._asdict()}
            for (fleet, seed, count), one in zip(work, begun, strict=True)
        ]
    last = len(fleets), len(fleets) + len(tails)
    found = {"costs": costs._asdict(), "fleets": rows[: last[0]], "stragglers": rows[last[0] : last[1]]}
    found |= {
        name: [row for row in rows[last[1] :] if row["is_lock_step"] == is_lock_step]
        for name, is_lock_step in (("asynchronous", False), ("lock_step", True))
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleet.json").write_text(json.dumps(found) + "\n")
    _draw_fleets(found, folder / "fleets.png")
    _draw_knowledge(found, folder / "asynchrony.png")
    return found


def _axes(figure: Any, place: int, title: str, x: str) -> Any:
    axes = figure.add_subplot(1, 2, place)
    axes.set_title(title, loc="left", fontsize=12)
    axes.set_xlabel(x, fontsize=10)
    axes.set_xscale("log")
    axes.grid(axis="y", alpha=0.25)
    axes.tick_params(labelsize=9.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def _line(axes: Any, number: int, x: list[float], y: list[float], label: str) -> None:
    style = {"color": COLOURS[number], "marker": MARKS[number], "linewidth": 1.8, "markersize": 6}
    axes.plot(x, y, label=label, **style)


def _draw_fleets(found: dict[str, Any], path: Path) -> None:
    figure = new_figure(12.5, 4.8)
    speed = _axes(figure, 1, "Programs judged a second", "GPUs, with 100 evaluators each")
    busy = _axes(figure, 2, "Share of its time that the searcher works", "GPUs, with 100 evaluators each")
    for number, most in enumerate((256, 1024)):
        rows = [row for row in found["fleets"] if row["in_flight"] == min(most, 16 * row["gpus"])]
        rows = [row for row in rows if most == 256 or row["in_flight"] == most]
        x, label = [row["gpus"] for row in rows], f"at most {most:,} asks open"
        _line(speed, number, x, [row["evaluations_per_second"] for row in rows], label)
        _line(busy, number, x, [row["searcher_busy"] for row in rows], label)
    speed.axhline(SLOTS / sum(found["costs"].values()), color="#5B5B5B", linestyle="--", linewidth=1.2)
    speed.annotate(
        "all that one searcher can tell",
        (1, SLOTS / sum(found["costs"].values())),
        (0, 4),
        textcoords="offset points",
        fontsize=9.5,
        color="#5B5B5B",
    )
    speed.set_yscale("log")
    busy.set_ylim(0, 1.03)
    for axes in (speed, busy):
        axes.set_xticks([1, 4, 16, 64, 256, 1000], ["1", "4", "16", "64", "256", "1,000"])
        axes.set_xticks([], minor=True)
        axes.legend(frameon=False, fontsize=10, loc="upper left" if axes is busy else "lower right")
    figure.suptitle("One searcher and a growing fleet, simulated", fontsize=14, x=0.01, ha="left")
    write_png(figure, path)


def _draw_knowledge(found: dict[str, Any], path: Path) -> None:
    figure = new_figure(12.5, 4.8)
    best = _axes(figure, 1, "Best mean reward after equal evaluations", "asks open at a time")
    stale = _axes(figure, 2, "Groups told between an ask and its own tell, median", "asks open at a time")
    for number, name in enumerate(("asynchronous", "lock_step")):
        x = sorted({row["in_flight"] for row in found[name]})
        for axes, figure_of in ((best, "best_mean_reward"), (stale, "staleness_median")):
            rows = [[row[figure_of] for row in found[name] if row["in_flight"] == most] for most in x]
            _line(axes, number, x, [sum(row) / len(row) for row in rows], name.replace("_", " "))
            for most, row in zip(x, rows, strict=True):
                axes.plot([most] * len(row), row, ".", color=COLOURS[number], alpha=0.5)
    for axes in (best, stale):
        axes.set_xticks([1, 8, 32, 128], ["1", "8", "32", "128"])
        axes.set_xticks([], minor=True)
        axes.legend(frameon=False, fontsize=10)
    figure.suptitle("What asynchrony costs, simulated; dots are seeds", fontsize=14, x=0.01, ha="left")
    write_png(figure, path)


def main() -> None:
    """Compare, or draw, and print."""
    parser = argparse.ArgumentParser(description="Check the simulation against real runs, or draw pictures.")
    parser.add_argument("--evaluations", type=int, default=480, help="of each real run")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw what docs/scale.md shows")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the evaluations of each picture")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.pictures:
        found: dict[str, Any] = draw(options.pictures, Costs(*measured_costs()), options.scale)
    else:
        costs = Costs(*measured_costs(clock=time.perf_counter))
        found = {**check(costs, options.evaluations), "costs": costs._asdict()}
    print(json.dumps(found, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
