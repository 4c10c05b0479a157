"""The guard: compares a new policy version with earlier ones and refuses one that is clearly worse.

Earlier ones are its parent, version 0 and the best so far, in sampling and in searches with joins. All that
was trained and probed on the same problems is compared with version 0 together: small losses add up.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import AutoConfig

from evovpo.analysis.statistics import Interval, bootstrap_interval
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config, RunConfig, StoreConfig
from evovpo.errors import ConfigError, PolicyError
from evovpo.files import write_json
from evovpo.problem.folder import with_folder_grouping
from evovpo.proposers.policy_folders import base_version
from evovpo.proposers.sampler import check_supported
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem, content_id
from trainer.learning.policy_models import TrainableModel, save_model
from trainer.loop.probe import ProbeResult, generated_problems, probe
from trainer.loop.steps import writing
from trainer.loop.training_plan import TrainingPlan

IS_WORSE = "probe.is_worse"
"""Metric of a version that must not be served."""
PROBE_FILE = "probe.json"
"""In the folder of a training: what its comparison found."""
FEWEST_PROBLEMS = 6
"""On fewer problems no version is called clearly worse: of two equal versions the new one loses on each of 5
by chance once in 32, more often than the 2.5 % that one side of a 95 % interval stands for."""


class GuardVerdict(NamedTuple):
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


def clearly_worse(
    new: ProbeResult, parent: ProbeResult, *, budget: int, margin: float = 0.01
) -> GuardVerdict:
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
    return GuardVerdict(is_worse, differences, f"{said}: {shown}")


Values = dict[str, list[float]]
"""By figure, one value for each problem that was probed."""


def losses(new: Values, earlier: dict[str, Values], margin: float = 0.01) -> list[str]:
    """Return sentences: the figures in which `new` is clearly worse than an earlier version."""
    found = []
    for name, old in earlier.items():
        for figure in new.keys() & old.keys():
            interval = bootstrap_interval([new[figure]], [old[figure]], np.random.default_rng(0))
            if interval.is_below_zero and interval.mean < -margin and interval.n >= FEWEST_PROBLEMS:
                found.append(f"{figure} than {name} ({interval:+.3f})")
    return sorted(found)


def solved_in_searches(
    version: PolicyVersion, problems: Sequence[Problem], config: Config
) -> tuple[list[float], int]:
    """Return for each problem 1.0 if a search of its own solves it, on held-out rows too; and all tokens."""
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


def uncompared(store: Store, plan: TrainingPlan) -> str:
    """Return why a new version cannot be compared with earlier ones, or nothing if it can.

    A probe asks in the built-in model's format for strings, and samples in this process: for runs that asked
    otherwise, or models that are served because this process cannot sample from them, it says nothing.
    """
    for run_id in plan.training.runs:
        run = store.run(run_id)
        config = Config.from_json(run.config_json)
        problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
        if fault := expression_fault(problem):
            return f"probes are of strings by example, and {problem.id} is not: {fault}"
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
    """Probe the trained model and earlier versions, keep the comparison in a file, and return its figures.

    None for `problems` stands for generated ones. Without problems, or where generated ones say nothing
    (`uncompared`), nothing is compared. What an earlier training of the folder probed on the same problems in
    the same way is read from its file.
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
    # Only how the run searched: its servers are of no use to a model in this process.
    search = Config(
        search=of_run.search.changed(evaluations=max(1, evaluations)),
        sampling=of_run.sampling,
        run=RunConfig(seed=seed),
    )
    names = [f"{problem.id} {problem.version}" for problem in problems]
    probed_on = content_id(settings.model_dump_json(), str(budget), str(seed), *names)
    known = _values_known(store, folder.parent, probed_on)
    best = max(known, key=lambda at: sum(map(np.mean, known[at].values())), default=0)
    numbers = list(dict.fromkeys((plan.start.number, 0, best)))
    left = [number for number in numbers[1:] if number not in known]
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
            on_problem=lambda at, total: on_problem(done + at, (2 + len(left)) * total),
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

    parent, known[plan.start.number] = probed(plan.start)
    known |= {number: probed(store.policy_version(number))[1] for number in left}
    new, values = probed(PolicyVersion(-1, plan.start.number, str(candidate)))
    together = [values, *(found for number, found in known.items() if number)]
    pooled = {figure: np.mean([found[figure] for found in together], 0).tolist() for figure in values}
    # Best@k beside the parent is the verdict's own.
    own = {figure: found for figure, found in known[plan.start.number].items() if "@" not in figure}
    lost = losses(values, {f"version {number}": known[number] for number in numbers[1:]})
    lost += losses(values, {f"version {plan.start.number}": own})
    lost += [f"{one}, all trained versions together" for one in losses(pooled, {"version 0": known[0]})]
    verdict = clearly_worse(new, parent, budget=budget)
    if lost and not verdict.is_worse:
        verdict = verdict._replace(is_worse=True, reason=f"clearly worse at {'; '.join(lost)}")
    by_version = {"new": values} | {str(number): found for number, found in known.items()}
    found = {
        "version": new.summary(),
        "parent": parent.summary(),
        "verdict": verdict.summary(),
        "probed_on": probed_on,
        "values": by_version,
    }
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
            f"probe.difference.best_at_{k}.{name}": float(value)
            for k, interval in verdict.differences.items()
            for name, value in (("mean", interval.mean), ("low", interval.low), ("high", interval.high))
        },
    }


def _values_known(store: Store, trainings: Path, probed_on: str) -> dict[int, Values]:
    """Return by number what is known of versions that were probed on the same problems in the same way."""
    numbers = {version.config_hash: version.number for version in store.policy_versions()}
    known: dict[int, Values] = {}
    for file in trainings.glob(f"*/{PROBE_FILE}"):
        found = json.loads(file.read_text(encoding="utf-8"))
        if found.get("probed_on") == probed_on and file.parent.name in numbers:
            known[numbers[file.parent.name]] = found["values"].pop("new")
            known |= {int(number): values for number, values in found["values"].items()}
    return known
