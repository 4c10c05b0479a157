"""What Ray on this machine costs against its own processes: `python tests/bench/ray_cost.py --json`.

Programs that sleep for so many milliseconds are judged, all at once, by the same number of workers: by those
of the sandbox here, and by tasks of Ray, of which one holds several short programs. The two take turns.
Prints for each length milliseconds an evaluation here and on Ray, and the overhead with its range over turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from toy_runs import PROBLEM

from evovpo.config import Config, SandboxConfig
from evovpo.judging.evaluator import Judge
from evovpo.judging.executors import open_executor, programs_at_once
from evovpo.types import Program, Status

SLEEPER = "import time\n\ndef solve(name):\n    # {number}\n    time.sleep({seconds})\n    return name\n"
PROBLEM_OF_ONE_ROW = dataclasses.replace(
    PROBLEM, objectives=PROBLEM.objectives[:1], train=PROBLEM.train[:1], heldout=()
)


def timed(judge: Judge, config: Config, programs: list[Program]) -> float:
    """Return the seconds that an evaluation took, all of them together divided by their number."""
    with ThreadPoolExecutor(programs_at_once(config)) as pool:
        began = time.perf_counter()
        found = list(pool.map(judge.evaluate, programs))
        seconds = time.perf_counter() - began
    assert {one.status for one in found} == {Status.OK}, found[0]
    return seconds / len(programs)


def compare(milliseconds: float, count: int, workers: int, tasks: int, turns: int) -> dict[str, float]:
    """Return what evaluations of this length take here and on Ray, in milliseconds, and the overhead."""
    local = Config(sandbox=SandboxConfig(workers=workers))
    cluster = Config(sandbox=SandboxConfig(workers=tasks, executor="ray"))
    spans: dict[str, list[float]] = {"local": [], "ray": []}
    with (
        open_executor(PROBLEM_OF_ONE_ROW, local) as here,
        open_executor(PROBLEM_OF_ONE_ROW, cluster) as there,
    ):
        for turn in range(-1, turns):  # the first warms up
            for name, judge, config in (("local", here, local), ("ray", there, cluster)):
                texts = (
                    SLEEPER.format(number=f"{name} {turn} {number}", seconds=milliseconds / 1000)
                    for number in range(count)
                )
                span = timed(judge, config, [Program(text) for text in texts])
                if turn >= 0:
                    spans[name].append(span)
    overheads = [there / here - 1 for here, there in zip(spans["local"], spans["ray"], strict=True)]
    return {
        "program_ms": milliseconds,
        "local_ms": 1000 * median(spans["local"]),
        "ray_ms": 1000 * median(spans["ray"]),
        "overhead": median(overheads),
        "lowest": min(overheads),
        "highest": max(overheads),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=200, help="evaluations in a turn")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=2, help="sandbox.workers of Ray; on two cores 2 run")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [
        compare(length, given.programs, given.workers, given.tasks, given.turns) for length in (2.0, 50.0)
    ]
    if given.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['program_ms']:4.0f} ms: {row['local_ms']:.2f} ms here, {row['ray_ms']:.2f} on Ray, "
            f"overhead {row['overhead']:+.0%} [{row['lowest']:+.0%}, {row['highest']:+.0%}]"
        )


if __name__ == "__main__":
    main()
