"""Builds the schedule of a returned order and measures its makespan against the best known one.

A program gets a whole instance, which is what the problem is, and returns an order of jobs: whatever it
computes on the way, start times and makespan are worked out here. Instances: `data/instances.json`.
"""

import json
import math
from pathlib import Path

INSTANCES = json.loads((Path(__file__).parent / "data" / "instances.json").read_text(encoding="utf-8"))
WORST = 0.75
"""Gap to the best known makespan, as a share of it, from which on the reward is 0."""


def part_of(part):
    return {name: instance for name, instance in INSTANCES.items() if instance["part"] == part}


def cases(part="train"):
    return [[instance["jobs"]] for instance in part_of(part).values()]


def makespan(jobs, order):
    """End of the last operation, or none unless `order` names each job once for each of its operations.

    The k-th time a job is named, its k-th operation starts as early as its job and its machine are free
    after what was named before: a semi-active schedule.
    """
    if not isinstance(order, list) or len(order) != sum(map(len, jobs)):
        return None
    done = [0] * len(jobs)
    job_free = [0] * len(jobs)
    machine_free = {}
    for job in order:
        if type(job) is not int or not 0 <= job < len(jobs) or done[job] == len(jobs[job]):
            return None
        machine, duration = jobs[job][done[job]]
        end = max(job_free[job], machine_free.get(machine, 0)) + duration
        job_free[job] = machine_free[machine] = end
        done[job] += 1
    return max(job_free)


def figures(outputs, part="train"):
    """Mean gap of each cluster; infinite where an order is none."""
    gaps = {}
    for output, instance in zip(outputs, part_of(part).values(), strict=True):
        found = makespan(instance["jobs"], output)
        gap = math.inf if found is None else found / instance["best"] - 1.0
        gaps.setdefault(instance["cluster"], []).append(gap)
    return {name: sum(values) / len(values) for name, values in gaps.items()}


def score(outputs):
    return {name: min(1.0, max(0.0, 1.0 - gap / WORST)) for name, gap in figures(outputs).items()}
