"""The guard compares a new policy version with earlier versions, and refuses it if it is clearly worse.

The earlier versions are the new version's parent and, because small losses add up, version 0. The guard
compares how good the sampled answers are, and how many problems searches solve.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import AutoConfig

from evovpo.analysis.statistics import Interval, bootstrap_interval
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config, RunConfig, StoreConfig
from evovpo.errors import PolicyError
from evovpo.files import write_json
from evovpo.problem.folder import with_folder_grouping
from evovpo.proposers.policy_folders import base_version
from evovpo.proposers.sampler import check_supported
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem
from trainer.learning.policy_models import TrainableModel, save_model
from trainer.loop.probe import ProbeResult, generated_problems, probe
from trainer.loop.steps import writing
from trainer.loop.training_plan import TrainingPlan

IS_WORSE = "probe.is_worse"
"""Name of the metric that marks a version that must not be served."""
PROBE_FILE = "probe.json"
FEWEST_PROBLEMS = 6
"""Minimum number of problems for a verdict. An equally good version loses on all of 5 in 1 of 32 cases."""
Values = dict[str, list[float]]
"""For each statistic, one value per probed problem."""


class GuardVerdict(NamedTuple):
    """The verdict of the guard: whether a new version is clearly worse than an earlier version, and why."""

    is_worse: bool
    differences: dict[str, Interval]
    """For each statistic, the new version minus its parent, paired over problems."""
    reason: str

    def summary(self) -> dict[str, Json]:
        return {
            "is_worse": self.is_worse,
            "reason": self.reason,
            "differences": {
                figure: {"mean": i.mean, "low": i.low, "high": i.high, "problems": i.n}
                for figure, i in self.differences.items()
            },
        }


def clearly_worse(new: Values, earlier: Mapping[str, Values], margin: float = 0.01) -> GuardVerdict:
    """Return a verdict on whether `new` is clearly worse than an earlier version in any statistic.

    `earlier` maps names of versions to their values; the first version is the parent. A version is clearly
    worse if, for one statistic, the 95 % bootstrap interval of the difference lies below 0 and the mean
    difference lies below -`margin`. With fewer than `FEWEST_PROBLEMS` problems, no version is clearly worse.
    When a model was compared with itself, the share of false alarms was 2.5 to 3 % with 12 problems or more,
    and 5 to 9 % with 6 to 8 problems.
    """
    found = {
        name: {figure: bootstrap_interval([new[figure]], [values[figure]]) for figure in new}
        for name, values in earlier.items()
    }
    lost = [
        f"{figure} than {name} ({interval:+.3f})"
        for name, by_figure in found.items()
        for figure, interval in by_figure.items()
        if interval.is_below_zero and interval.mean < -margin
    ]
    differences = next(iter(found.values()))
    problems = next(iter(differences.values())).n
    shown = ", ".join(f"{figure} {interval:+.3f}" for figure, interval in differences.items())
    said = f"not clearly worse on {problems} problems: {shown}"
    if problems < FEWEST_PROBLEMS:
        said = f"too few problems to tell ({problems} of {FEWEST_PROBLEMS}): {shown}"
    elif lost:
        said = f"clearly worse on {problems} problems at {'; '.join(lost)}"
    return GuardVerdict(bool(lost) and problems >= FEWEST_PROBLEMS, differences, said)


def solved_in_searches(
    version: PolicyVersion, problems: Sequence[Problem], config: Config
) -> tuple[list[float], int]:
    """Search each problem, and return the outcomes and the total number of tokens.

    An outcome is 1.0 if the problem is solved, including its held-out rows, and 0.0 otherwise.
    """
    from evovpo.proposers.local import LocalProposer, load_local_policy

    config = config.changed(proposer={"name": "local", "model": version.path, "policy": "start"})
    start_model = PolicyVersion(0, None, version.path)
    loaded = load_local_policy(start_model)
    with Store.open("sqlite://") as store:
        outcomes = [
            start(RunRequest(problem, config), store, LocalProposer(start_model, loaded=loaded))
            for problem in problems
        ]
        tokens = sum(store.run_summary(outcome.run).tokens for outcome in outcomes)
    return [float(one.solved and one.solved_heldout is not False) for one in outcomes], tokens


def uncompared(store: Store, plan: TrainingPlan) -> str:
    """Return the reason why a new version cannot be compared with earlier versions; empty if it can."""
    for run_id in plan.training.runs:
        run = store.run(run_id)
        config = Config.from_json(run.config_json)
        problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
        if fault := expression_fault(problem):
            return f"probes need problems on strings by example, and {problem.id} is not one: {fault}"
        is_chat = config.proposer.name == "own" or config.proposer.endpoint == "chat"
        if is_chat or config.prompt.style not in ("auto", "alignment"):
            asked = "by chat" if is_chat else f"in the style {config.prompt.style}"
            return f"probes ask in the built-in model's format, and run {run_id} asked {asked}"
    model = AutoConfig.from_pretrained(
        base_version(plan.start).path, local_files_only=True, trust_remote_code=False
    )
    try:
        for name in model.architectures or ():
            check_supported(name, model)
    except PolicyError as error:
        return str(error)
    return ""


def compare_with_earlier(
    store: Store,
    plan: TrainingPlan,
    trained: TrainableModel,
    folder: Path,
    problems: Sequence[Problem] | None,
    on_problem: Callable[[int, int], None],
) -> dict[str, float]:
    """Compare the trained model with earlier versions, write the result to a file, and return its metrics.

    If `problems` is None, generated problems are used. Nothing is compared, and there are no metrics, if
    `problems` is empty or the versions cannot be compared (`uncompared`).
    """
    runs = [store.run(run_id) for run_id in plan.training.runs]
    if problems is None:
        problems = generated_problems(0 if uncompared(store, plan) else plan.config.probe.problems)
    if not problems:
        return {}
    candidate = folder / "candidate"
    shutil.rmtree(candidate, ignore_errors=True)
    with writing(candidate):
        save_model(candidate, trained)
    lengths = Counter(len(rows) for one in plan.data for group in one.groups for rows in group.rewards)
    settings, seed = plan.config.probe, plan.config.run.seed
    budget = max(run.evaluations for run in runs)
    evaluations = min(settings.evaluations, budget)
    of_run = Config.from_json(runs[-1].config_json)
    # Only search settings: a model in this process does not use the run's servers.
    search = Config(
        search=of_run.search.changed(evaluations=max(1, evaluations)),
        sampling=of_run.sampling,
        run=RunConfig(seed=seed),
    )
    earlier = {"its parent": plan.start}
    if plan.start.number:
        earlier["version 0"] = plan.start_model
    done = tokens = 0

    def probed(version: PolicyVersion) -> tuple[ProbeResult, Values]:
        nonlocal done, tokens
        result = probe(
            version,
            problems,
            answers=lengths.most_common(1)[0][0] if lengths else 1,
            k_max=settings.answers,
            seed=seed,
            sampling=plan.sampling,
            config=Config(store=StoreConfig(url=store.name)),
            on_problem=lambda at, total: on_problem(done + at, (1 + len(earlier)) * total),
        )
        done += len(problems)
        tokens += result.tokens
        ks = sorted({1, min(budget, result.sampled)})
        columns = result.values("best_at_k", ks).T.tolist()
        values = {f"best@{k}": column for k, column in zip(ks, columns, strict=True)}
        if evaluations:
            values["solved in searches"], searched = solved_in_searches(version, problems, search)
            tokens += searched
        return result, values

    compared = {name: probed(version) for name, version in earlier.items()}
    new, values = probed(PolicyVersion(-1, plan.start.number, str(candidate)))
    parent, _ = compared["its parent"]
    verdict = clearly_worse(values, {name: found for name, (_, found) in compared.items()})
    found = {"version": new.summary(), "parent": parent.summary(), "verdict": verdict.summary()}
    is_refused = verdict.is_worse and not settings.serve_worse
    with writing(folder / PROBE_FILE):
        write_json(folder / PROBE_FILE, found)
    return {
        IS_WORSE: float(is_refused),
        "guard_tokens": float(tokens),
        **{
            f"{whose}.{figure}_{k}": value
            for whose, result in (("probe", new), ("probe.parent", parent))
            for figure in ("best_at", "pass_at")
            for k, value in result.means(f"{figure}_k").items()
        },
        **{
            f"probe.difference.{figure.replace('@', '_at_')}.{name}": float(value)
            for figure, interval in verdict.differences.items()
            for name, value in (("mean", interval.mean), ("low", interval.low), ("high", interval.high))
        },
    }
