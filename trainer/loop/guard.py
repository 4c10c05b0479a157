"""The guard: a new policy version is compared with its parent, and is not served if it is clearly worse."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evovpo.analysis.statistics import Interval, bootstrap_interval
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config, StoreConfig
from evovpo.errors import ConfigError
from evovpo.files import write_json
from evovpo.problem.folder import with_folder_grouping
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem
from trainer.learning.policies import Trainable, save_model
from trainer.loop.probe import ProbeResult, generated_problems, probe
from trainer.loop.steps import writing
from trainer.loop.training_plan import Plan

IS_WORSE = "probe.is_worse"
"""Metric of a version that must not be served."""
PROBE_FILE = "probe.json"
"""In the folder of a training: what its comparison found."""
FEWEST_PROBLEMS = 6
"""On fewer problems no version is called clearly worse: of two equal versions the new one loses on each of 5
by chance once in 32, more often than the 2.5 % that one side of a 95 % interval stands for."""


class Verdict(NamedTuple):
    """Whether a new version is clearly worse than its parent, and the figures that say so."""

    is_worse: bool
    differences: dict[int, Interval]
    """best@k of the new version minus the parent's, by k, paired over problems."""
    reason: str

    def summary(self) -> dict[str, Json]:
        """Return the verdict as JSON."""
        return {
            "is_worse": self.is_worse,
            "reason": self.reason,
            "differences": {
                str(k): {"mean": i.mean, "low": i.low, "high": i.high, "problems": i.n}
                for k, i in self.differences.items()
            },
        }


def clearly_worse(new: ProbeResult, parent: ProbeResult, *, budget: int, margin: float = 0.01) -> Verdict:
    """Return whether `new` has clearly forgotten something that `parent` could: the guard before serving.

    Compared are best@1 and best@k at the search's budget (or the most that were sampled, if fewer), paired
    over the problems. The new version is clearly worse if for one of them the 95 % bootstrap interval of
    the difference lies below 0 and its mean below -`margin`: a loss must be both certain and worth
    mentioning. By chance it refuses a version that is no worse too: of samples of the built-in model compared
    with other samples of it, 2.5 to 3 % on 12 problems or more, 5 to 9 % on 6 to 8. On fewer than
    `FEWEST_PROBLEMS` problems none is. Raises `ConfigError` for probes of different problems.
    """
    ks = sorted({1, min(budget, new.sampled, parent.sampled)})
    differences = differences_by_k(new, parent, "best_at_k", ks)
    shown = ", ".join(f"best@{k} {interval:+.3f}" for k, interval in differences.items())
    worse = [f"best@{k}" for k, i in differences.items() if i.is_below_zero and i.mean < -margin]
    problems = len(new.problems)
    is_worse = bool(worse) and problems >= FEWEST_PROBLEMS
    said = f"clearly worse at {' and '.join(worse)}" if is_worse else "not clearly worse"
    said += f" on {problems} problems"
    if problems < FEWEST_PROBLEMS:
        said = f"too few problems to tell ({problems} of {FEWEST_PROBLEMS})"
    return Verdict(is_worse, differences, f"{said}: {shown}")


def differences_by_k(
    new: ProbeResult, parent: ProbeResult, figure: str, ks: Sequence[int]
) -> dict[int, Interval]:
    """Return for each k the mean paired difference of a figure over problems, with its 95 % interval.

    Raises `ConfigError` unless both probes hold the same problems in the same order.
    """
    if new.problems != parent.problems:
        raise ConfigError(
            f"one probe holds {len(new.problems)} problems and the other {len(parent.problems)}; expected "
            "the same ones in the same order: probe both versions with the same problems"
        )
    pairs = zip(ks, new.values(figure, ks).T, parent.values(figure, ks).T, strict=True)
    return {k: bootstrap_interval([one], [other], np.random.default_rng(0)) for k, one, other in pairs}


def compare_with_parent(
    store: Store,
    plan: Plan,
    trained: Trainable,
    folder: Path,
    problems: Sequence[Problem] | None,
    on_problem: Callable[[int, int], None],
) -> dict[str, float]:
    """Probe the trained model and its parent, keep the comparison in a file, and return its figures.

    None for `problems` stands for generated ones. Without problems, or where the built-in format does not fit
    the runs, nothing is compared.
    """
    runs = [store.run(run_id) for run_id in plan.training.runs]
    if problems is None:
        of_runs = [with_folder_grouping(store.problem(run.problem_id, run.problem_version)) for run in runs]
        fits = not any(expression_fault(problem) for problem in of_runs)
        problems = generated_problems(plan.config.probe.problems if fits else 0)
    if not problems:
        return {}
    candidate = folder / "candidate"
    shutil.rmtree(candidate, ignore_errors=True)
    with writing(candidate):
        save_model(candidate, trained)
    lengths = Counter(len(rows) for one in plan.data for group in one.groups for rows in group.rewards)

    def probed(version: PolicyVersion, before: int) -> ProbeResult:
        return probe(
            version,
            problems,
            answers=lengths.most_common(1)[0][0],
            k_max=plan.config.probe.answers,
            seed=plan.config.run.seed,
            sampling=plan.sampling,
            config=Config(store=StoreConfig(url=store.name)),
            on_problem=lambda done, total: on_problem(before + done, 2 * total),
        )

    parent = probed(plan.start, 0)
    new = probed(PolicyVersion(plan.start.number + 1, plan.start.number, str(candidate)), len(problems))
    verdict = clearly_worse(new, parent, budget=max(run.evaluations for run in runs))
    found: dict[str, Json] = {"version": new.summary(), "parent": parent.summary()}
    found["verdict"] = verdict.summary()
    is_refused = verdict.is_worse and not plan.config.probe.serve_worse
    with writing(folder / PROBE_FILE):
        write_json(folder / PROBE_FILE, found)
    return {
        IS_WORSE: float(is_refused),
        **{
            f"{whose}.{figure}_{k}": value
            for whose, result in (("probe", new), ("probe.parent", parent))
            for figure in ("best_at", "pass_at")
            for k, value in result.means(f"{figure}_k").items()
        },
    }
