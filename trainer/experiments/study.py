"""Arms × seeds: tune every arm on validation tasks by one rule, train it afresh, compare on test tasks.

Every arm trains the same start model on the same training tasks and stops at the same number of
generated tokens. Its learning rate and KL coefficient are chosen from one grid by the mean of best@k over
`TUNING_KS` on the validation tasks; then it is trained again under other seeds, and only those
trainings are measured on the test tasks, with the start model beside them. Every training is a job with a
file of its own, so that a study stopped at any time goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evovpo.analysis.statistics import Interval, mean_interval, paired_interval
from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import ConfigError
from evovpo.files import write_json
from trainer.domains.domain import Domain
from trainer.experiments.arms import (
    Arm,
    TrainingBudget,
    curves,
    load_start_model,
    measure,
    train,
    with_settings,
)

KS = (1, 2, 3, 6, 12, 24, 48, 96)
TUNING_KS = (1, 3, 6, 12, 24, 48)
ARMS = (
    Arm("grpo", "grpo", 1, 24),
    Arm("max-at-k", "max-at-k", 1, 24),
    Arm("multi-rlvr", "multi-rlvr", 3, 8),
    Arm("vpo", "vpo", 3, 8),
    Arm("vpo-at-c", "vpo-at-c", 3, 8, {"c": 4}),
    Arm("vpo-to-go", "vpo-to-go", 3, 8),
)
"""The arms of the main comparison: 24 answers a prompt each."""
VARIANTS = (
    Arm("grpo-entropy", "grpo", 1, 24, entropy=0.003),
    Arm("vpo-entropy", "vpo", 3, 8, entropy=0.003),
    Arm("vpo-mixed", "vpo", 3, 8, single_share=0.5),
    Arm("vpo-at-c-mixed", "vpo-at-c", 3, 8, {"c": 4}, single_share=0.5),
    Arm("vpo-reuse", "vpo", 3, 8, passes=2),
)
"""Further arms, compared when named: an entropy bonus, single answers mixed in, every sample used twice."""


class StudySettings(NamedTuple):
    """What a study spends, the same for every arm."""

    budget: TrainingBudget
    learning_rates: tuple[float, ...]
    kls: tuple[float, ...]
    seeds: int
    """Trainings of each tuned arm, under the seeds 0, 1, …; tuning uses seed `TUNING_SEED`."""
    validation_tasks: int
    test_tasks: int
    ks: tuple[int, ...] = KS
    start: str = ""
    """Folder of the start model of all arms; empty is the domain's own."""


TUNING_SEED = 1000
FIGURES = ("best_at_k", "pass_at_k", "expected_at_k")


@dataclass(frozen=True)
class Job:
    """One model to train (or the start model as it is) and to measure on one split."""

    arm: Arm
    seed: int
    split: str
    is_trained: bool

    @property
    def name(self) -> str:
        """Return the name of its file."""
        if not self.is_trained:
            return f"start-m{self.arm.answers}-{self.split}"
        settings = f"lr{self.arm.learning_rate:g}-kl{self.arm.kl:g}"
        return f"{self.arm.name}-{settings}-{self.split}-seed{self.seed}"


def run_study(
    domain_name: str,
    out: Path,
    settings: StudySettings,
    arms: Sequence[Arm] = ARMS,
    processes: int = 2,
    on_job: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> dict[str, Any]:
    """Run what is missing of a study and return its results; `out` keeps every job and the results.

    `on_job` is told the name of each job that ends, how many have, and how many there are. Raises
    `ConfigError` if `out` holds a study with other settings.
    """
    _check_settings(out, domain_name, settings)
    grid = [
        with_settings(arm, learning_rate, kl)
        for arm in arms for learning_rate in settings.learning_rates for kl in settings.kls
    ]  # fmt: skip
    shapes = {arm.answers: Arm(f"start, m = {arm.answers}", arm.objective, arm.answers, 1) for arm in arms}
    first = [Job(arm, 0, split, False) for arm in shapes.values() for split in ("validation", "test")]
    first += [Job(arm, TUNING_SEED, "validation", True) for arm in grid]
    total = len(first) + len(arms) * settings.seeds
    done = 0

    def count(name: str) -> None:
        nonlocal done
        done += 1
        on_job(name, done, total)

    with worker_pool(processes) as pool:
        tuning = _run_jobs(pool, domain_name, out, settings, first, count)
        chosen = {
            arm.name: max(
                (candidate for candidate in grid if candidate.name == arm.name),
                key=lambda candidate: _tuning_score(
                    tuning[Job(candidate, TUNING_SEED, "validation", True).name]
                ),
            )
            for arm in arms
        }
        last = [Job(arm, seed, "test", True) for seed in range(settings.seeds) for arm in chosen.values()]
        final = _run_jobs(pool, domain_name, out, settings, last, count)
    results = summarise(settings, arms, chosen, grid, tuning | final)
    write_json(out / "results.json", results)
    return results


def _run_jobs(
    pool: ProcessPoolExecutor,
    domain_name: str,
    out: Path,
    settings: StudySettings,
    jobs: Sequence[Job],
    count: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    waiting: dict[Future[None], Path] = {}
    for job in jobs:
        path = out / "jobs" / f"{job.name}.json"
        if path.exists():
            found[job.name] = json.loads(path.read_text())
            count(job.name)
        else:
            waiting[pool.submit(run_job, domain_name, job, settings, path)] = path
    try:
        for future in as_completed(waiting):
            future.result()
            path = waiting[future]
            found[path.stem] = json.loads(path.read_text())
            count(path.stem)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return found


def run_job(domain_name: str, job: Job, settings: StudySettings, path: Path) -> None:
    """Train and measure one model and write its file; a diverged training is a result too."""
    import torch
    from transformers.utils import logging as transformers_logging

    from evovpo.errors import DivergedError

    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()
    began, cpu = time.monotonic(), time.process_time()
    with open_domain(domain_name, settings.start) as domain:
        log: list[dict[str, float]] = []
        diverged = ""
        model = None
        if job.is_trained:
            try:
                model, log = train(job.arm, domain, settings.budget, job.seed, on_step=log.append)
            except DivergedError as error:
                diverged = str(error)
        if model is None:
            model = load_start_model(domain)
        is_test = job.split == "test"
        tasks = domain.tasks(
            "test" if is_test else "validation",
            settings.test_tasks if is_test else settings.validation_tasks,
        )
        ks = settings.ks if is_test else TUNING_KS
        measured = measure(model, domain, tasks, job.arm.answers, max(ks), seed=7)
        found = curves(measured, ks)
    write_json(
        path,
        {
            "arm": dataclasses.asdict(job.arm),
            "seed": job.seed,
            "split": job.split,
            "diverged": diverged,
            "ks": list(ks),
            **{figure: np.round(values, 5).tolist() for figure, values in found._asdict().items()},
            "diversity": float(np.mean([task.measure.diversity for task in measured])),
            "distinct_share": float(np.mean([task.measure.distinct_share for task in measured])),
            "faulty_completions": sum(task.measure.faults for task in measured),
            "measured_tokens": sum(task.tokens for task in measured),
            "tokens": log[-1]["tokens"] if log else 0.0,
            "steps": len(log),
            "log": [{name: round(value, 5) for name, value in row.items()} for row in log],
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "seconds": round(time.monotonic() - began, 1),
        },
    )


@contextmanager
def open_domain(name: str, start: str = "") -> Iterator[Domain]:
    """Yield a domain by name, ready to judge, with its own start model or the one in the folder `start`.

    Raises `ConfigError` for an unknown one.
    """
    if name == "strings":
        from trainer.domains.strings.domain import StringDomain

        with StringDomain(Path(start) if start else BUILT_IN_MODEL) as domain:
            yield domain
    elif name == "maze":
        from trainer.domains.maze import MAZE_MODEL
        from trainer.domains.maze.domain import MazeDomain

        yield MazeDomain(model_folder=Path(start) if start else MAZE_MODEL)
    else:
        raise ConfigError(f"unknown domain {name!r}; expected strings or maze")


def summarise(
    settings: StudySettings,
    arms: Sequence[Arm],
    chosen: Mapping[str, Arm],
    grid: Sequence[Arm],
    jobs: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what the study found: means, and paired differences to GRPO and to the start model by k.

    `minus_start` compares with the start model asked for single answers, if the study has that: independent
    sampling, the stronger baseline; `minus_own_start` with the start model asked for what the arm is asked.
    Intervals are over tasks and training seeds.
    """
    start = {m: jobs[f"start-m{m}-test"] for m in sorted({arm.answers for arm in arms})}
    baseline = start[min(start)]
    finals = {
        arm.name: [jobs[Job(chosen[arm.name], seed, "test", True).name] for seed in range(settings.seeds)]
        for arm in arms
    }
    reference = finals.get("grpo")
    found: dict[str, Any] = {
        "settings": settings._asdict() | {"budget": settings.budget._asdict()},
        "ks": list(settings.ks),
        "grid": {
            arm.name: [
                {
                    "learning_rate": candidate.learning_rate,
                    "kl": candidate.kl,
                    "score": _tuning_score(jobs[Job(candidate, TUNING_SEED, "validation", True).name]),
                    "chosen": candidate == chosen[arm.name],
                }
                for candidate in grid
                if candidate.name == arm.name
            ]
            for arm in arms
        },
        "start": {f"m = {m}": _means([job], settings.ks) for m, job in start.items()},
        "arms": {},
    }
    for name, trained in finals.items():
        entry = _means(trained, settings.ks)
        entry["minus_start"] = _differences(trained, [baseline], settings.ks)
        entry["minus_own_start"] = _differences(trained, [start[chosen[name].answers]], settings.ks)
        entry["logs"] = [job["log"] for job in trained]
        if reference is not None and trained is not reference:
            entry["minus_grpo"] = _differences(trained, reference, settings.ks)
        found["arms"][name] = entry
    return found


def _means(jobs: Sequence[Mapping[str, Any]], ks: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for figure in FIGURES:
        values = np.array([job[figure] for job in jobs])
        found[figure] = {
            str(k): _interval(mean_interval(values[:, :, i], np.random.default_rng(i)))
            for i, k in enumerate(ks)
        }
    for figure in ("diversity", "distinct_share", "tokens", "steps", "measured_tokens"):
        found[figure] = float(np.mean([job[figure] for job in jobs]))
    found["diverged"] = sum(bool(job["diverged"]) for job in jobs)
    return found


def _differences(
    jobs: Sequence[Mapping[str, Any]], reference: Sequence[Mapping[str, Any]], ks: Sequence[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for figure in FIGURES:
        ours = np.array([job[figure] for job in jobs])
        theirs = np.array([job[figure] for job in reference])
        found[figure] = {
            str(k): _interval(paired_interval(ours[:, :, i], theirs[:, :, i], np.random.default_rng(i)))
            for i, k in enumerate(ks)
        }
    return found


def _interval(interval: Interval) -> dict[str, float]:
    return {name: round(getattr(interval, name), 5) for name in ("mean", "low", "high")}


def _tuning_score(job: Mapping[str, Any]) -> float:
    return 0.0 if job["diverged"] else float(np.mean(job["best_at_k"]))


def _check_settings(out: Path, domain_name: str, settings: StudySettings) -> None:
    (out / "jobs").mkdir(parents=True, exist_ok=True)
    path = out / "study.json"
    wanted = json.loads(json.dumps({"domain": domain_name, "settings": settings._asdict()}))
    if path.exists() and json.loads(path.read_text()) != wanted:
        raise ConfigError(
            f"{out} holds a study with other settings ({path}); finish it with those, or choose another "
            "folder"
        )
    write_json(path, wanted)


@contextmanager
def worker_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Yield fresh processes to train in, with one thread each."""
    # Large blocks that go back to the system after every product cost a fifth of the time.
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        os.environ.setdefault(name, str(1 << 33))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield pool
