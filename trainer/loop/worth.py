"""Compares a loop's last version with its start model on held-out problems: gain and cost."""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from evovpo.analysis.statistics import bootstrap_interval
from evovpo.config import Config
from evovpo.errors import TrainingError
from evovpo.experiments.break_even import UNITS, ArmCosts, BreakEven
from evovpo.experiments.break_even import compare as pays_after
from evovpo.experiments.pool import Message, TaskDone, run_all
from evovpo.files import file_digests, written_whole
from evovpo.judging.measure import Measure
from evovpo.proposers.local import load_model
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem, content_id
from trainer.loop.guard import solved_in_searches
from trainer.loop.loop import Loop
from trainer.loop.probe import KS, ProbeResult, cpu_seconds, probe
from trainer.loop.training_plan import ignore
from trainer.loop.turns import Turns

ANSWERS = KS[-1]
"""Number of answers to each held-out problem, from each measured version."""
_PARTS = 4
_FEW_TARGETS = 30
"""Fewer imitation targets than this are only memorised; a trial with a gain had 229 targets."""
_MOSTLY = 0.8


class LoopResult(NamedTuple):
    """Result of a loop; `evovpo loop --json` prints these fields."""

    rounds: int
    policy_versions: int
    weights_changed: bool
    """Whether the last trained version differs from the start model in any weight."""
    before: Json
    """Statistics of the start model on held-out problems; None without held-out problems.

    `best_at_k` and `pass_at_k` have a value for each k. `solved_heldout` is the expected number of problems
    solved with `answers` answers to each problem. `solved_by_answers` has this number for each k.
    `solved_in_searches` counts problems solved by searches with joins. Held-out rows must be right too.
    """
    after: Json
    """The same statistics of the last trained version, even if it is not served."""
    served: int
    break_even: Json
    """For each unit of cost, after how many problems the loop has paid for itself; empty without training."""
    verdict: str


class LoopComparison(NamedTuple):
    """The measurements of the start model and the last version on the held-out problems."""

    before: ProbeResult
    after: ProbeResult
    spent: dict[str, dict[str, ArmCosts]]
    """For each unit, the costs of the `start` model and of the `trained` version; empty without training."""

    def break_even(self) -> list[BreakEven]:
        return [
            pays_after("trained", "start", "iid", unit, by_arm["trained"], by_arm["start"])
            for unit, by_arm in self.spent.items()
        ]


class _Measured(NamedTuple):
    probe: ProbeResult
    cpu_seconds: float
    solved: float
    """Number of problems solved by searches with joins."""

    def costs(self, unit: str, training: float) -> ArmCosts:
        cost = self.probe.tokens if unit == "tokens" else self.cpu_seconds
        cost *= ANSWERS / self.probe.sampled
        solved_S_T = self.probe.values("solved_at_k", [ANSWERS]).T
        return ArmCosts(training, np.full(solved_S_T.shape, cost / solved_S_T.size), solved_S_T)

    def figures(self) -> dict[str, Json]:
        by_answers = self.probe.values("solved_at_k", KS).sum(axis=0).tolist()
        figures: dict[str, Json] = {
            "answers": ANSWERS,
            "problems": len(self.probe.problems),
            "solved_heldout": by_answers[-1],
            "solved_by_answers": dict(zip(map(str, KS), by_answers, strict=True)),
            "solved_in_searches": self.solved,
        }
        for name in ("best_at_k", "pass_at_k"):
            figures[name] = {str(k): value for k, value in self.probe.means(name).items()}
        return figures


def compare(turns: Turns, rounds: int) -> tuple[LoopResult, LoopComparison | None]:
    """Return the result of a loop and, if problems were held out, the measurements behind the result."""
    loop, store = turns.loop, turns.store
    start_model = store.policy_version(0)
    ids = {training.id for training in turns.trainings()}
    made = [version for version in store.policy_versions() if version.config_hash in ids]
    last = made[-1] if made else start_model
    served = store.served()
    result = LoopResult(
        rounds=rounds,
        policy_versions=len(made),
        weights_changed=bool(made) and _differ(start_model, last),
        before=None,
        after=None,
        served=0 if served is None else served.number,
        break_even=[],
        verdict="No problem was held out, so the effect of training is unknown.",
    )
    if not loop.held_out:
        return result, None
    # Without training, both are one version, which is measured once.
    measured = [_measure(turns, version) for version in dict.fromkeys((start_model, last))]
    before, after = measured[0], measured[-1]
    training = _spent(turns, rounds, made)
    spent = {
        unit: {"start": before.costs(unit, 0.0), "trained": after.costs(unit, training[unit])}
        for unit in UNITS
        if made
    }
    compared = LoopComparison(before.probe, after.probe, spent)
    targets = dict(last.metrics).get("targets") if loop.train.imitate.share else None
    none = "Nothing was trained, so nothing was gained."
    return result._replace(
        before=before.figures(),
        after=after.figures(),
        break_even=[one._asdict() for one in compared.break_even()],
        verdict=loop_verdict(before.probe, after.probe, targets) if made else none,
    ), compared


def _measure(turns: Turns, version: PolicyVersion) -> _Measured:
    loop, said = turns.loop, f"version {version.number}"
    total = len(loop.held_out)
    count = min(_PARTS * turns.jobs, total)
    # Not the guard's seed: the answers that chose a version must not measure it.
    seed = loop.train.run.seed + 1
    model = file_digests(Path(version.path), sorted(Path(version.path).glob("*.safetensors")))
    folder = turns.policies / f"measured-{loop.id}" / content_id(version.path, *model.values())
    parts = ((f"{at}-of-{count}", loop.held_out[at::count]) for at in range(count))
    tasks = [_Part(part, version, held_out, loop.search, seed, folder) for part, held_out in parts]
    found: dict[str, _Measured] = {}

    def on_message(message: Message) -> None:
        if isinstance(message, TaskDone):
            found[message.name] = message.value
            done = sum(len(one.probe.problems) for one in found.values())
            turns.watch.measured(said, done, total)

    turns.watch.measured(said, 0, total)
    if turns.jobs == 1:
        for task in tasks:
            on_message(TaskDone(task.name, task.run(ignore)))
    elif failed := run_all(tasks, turns.jobs, on_message):
        raise TrainingError(f"{said} could not be measured: {failed[0].reason}; the same command continues")
    measured = [found[task.name] for task in tasks]
    whole = replace(
        measured[0].probe,
        problems=tuple(chain.from_iterable(one.probe.problems for one in measured)),
        measures=tuple(chain.from_iterable(one.probe.measures for one in measured)),
        tokens=sum(one.probe.tokens for one in measured),
    )
    return _Measured(whole, sum(one.cpu_seconds for one in measured), sum(one.solved for one in measured))


@dataclass(frozen=True)
class _Part:
    name: str
    version: PolicyVersion
    problems: tuple[Problem, ...]
    config: Config
    seed: int
    folder: Path
    """Folder for the results, so that a continued loop measures only the missing parts."""

    def run(self, tell: Callable[[Any], None]) -> _Measured:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return self._stored()
        search, began = self.config.search, cpu_seconds()
        found = probe(self.version, self.problems, answers=search.answers, seed=self.seed, config=self.config)
        seconds = cpu_seconds() - began
        config = self.config.changed(search={"evaluations": min(ANSWERS, search.evaluations)})
        solved, _ = solved_in_searches(self.version, self.problems, config)
        with contextlib.suppress(OSError), written_whole(self.folder / f"{self.name}.json") as partial:
            self.folder.mkdir(parents=True, exist_ok=True)
            stored = asdict(found), seconds, sum(solved)
            partial.write_text(json.dumps(stored, default=np.ndarray.tolist))
        return _Measured(found, seconds, sum(solved))

    def _stored(self) -> _Measured:
        found, seconds, solved = json.loads((self.folder / f"{self.name}.json").read_text())
        measures = []
        for one in found.pop("measures"):
            for name in ("rewards_C_m_D", "unseen_C_m"):
                one[name] = one[name] and np.array(one[name])
            measures.append(Measure(**one))
        names = tuple(map(tuple, found.pop("problems")))
        return _Measured(ProbeResult(problems=names, measures=tuple(measures), **found), seconds, solved)


def _spent(turns: Turns, rounds: int, made: Sequence[PolicyVersion]) -> dict[str, float]:
    seconds = tokens = 0.0
    for metrics in (dict(version.metrics) for version in made):
        seconds += metrics.get("cpu_seconds", 0.0) + metrics.get("guard_cpu_seconds", 0.0)
        tokens += metrics.get("tokens", 0.0) + metrics.get("guard_tokens", 0.0)
    for run in (run for number in range(1, rounds + 1) for run in turns.loop.run_ids(number)):
        summary = turns.store.run_summary(run)
        seconds += summary.sampling_seconds + summary.evaluation_seconds
        tokens += summary.tokens
    return {"cpu_seconds": seconds, "tokens": tokens}


def best_by_round(loop: Loop, store: Store, rounds: int) -> list[float]:
    """Return, for each round, the mean reward of the best program, averaged over the round's searches."""
    best = {row.run: row.best_mean_reward for row in store.runs()}
    return [
        sum(best[run_id] or 0.0 for run_id in loop.run_ids(number)) / len(loop.searched)
        for number in range(1, rounds + 1)
    ]


def loop_verdict(before: ProbeResult, after: ProbeResult, targets: float | None) -> str:
    """Return the verdict in words: whether the loop clearly raised the number of held-out problems solved."""
    old, new = (result.values("solved_at_k", KS) for result in (before, after))
    gain = bootstrap_interval([new.mean(axis=1)], [old.mean(axis=1)])
    areas = [values.mean(axis=1).sum() for values in (old, new)]
    most = [values[:, -1].sum() for values in (old, new)]
    said = (
        f"{areas[0]:.1f} to {areas[1]:.1f} of {gain.n} held-out problems solved, on average over {KS[0]}, "
        f"{KS[1]}, {KS[2]} … {ANSWERS} answers each (share {gain:+.3f}); with {ANSWERS}, {most[0]:.1f} to "
        f"{most[1]:.1f}"
    )
    if not gain.is_clear or gain.mean < 0:
        return f"The loop did not clearly win, {said}: {_why_not(before, after, targets)}."
    return f"The loop won: {said}."


def _why_not(before: ProbeResult, after: ProbeResult, targets: float | None) -> str:
    old, new = (result.values("solved_at_k", [ANSWERS]).sum() for result in (before, after))
    best = [float(np.mean(result.values("best_at_k", [ANSWERS]))) for result in (before, after)]
    figures = f"their best of {ANSWERS} answers went from {best[0]:.3f} to {best[1]:.3f}"
    if targets is not None and targets < _FEW_TARGETS:
        return f"its searches held only {targets:.0f} programs to imitate; search more problems, or longer"
    if old > _MOSTLY * len(before.problems):
        return f"the start model solves {old:.1f} of them already; take a family with harder problems"
    if new > old + 1:
        return "so few problems more can be chance; hold more out (--train-set probe.problems=48)"
    if best[1] > best[0] + 0.01:
        return f"{figures}, which is not yet enough to solve more of them; train for more rounds"
    return f"what it learned does not carry over, {figures}"


def _differ(first: PolicyVersion, second: PolicyVersion) -> bool:
    one, other = (load_model(version).model.state_dict() for version in (first, second))
    return any(not torch.equal(value, other[name]) for name, value in one.items())
