"""Compares the models of a loop on held-out problems, also with a longer search by the start model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import torch

from evovpo.analysis.statistics import bootstrap_interval
from evovpo.config import Config
from evovpo.errors import TrainingError
from evovpo.experiments.break_even import ArmCosts, BreakEven
from evovpo.experiments.break_even import compare as pays_after
from evovpo.experiments.pool import Message, TaskDone, run_all
from evovpo.proposers.local import load_model
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem
from trainer.loop.guard import solved_in_searches
from trainer.loop.loop import Loop
from trainer.loop.probe import KS, ProbeResult, cpu_seconds, probe
from trainer.loop.training_plan import ignore
from trainer.loop.turns import Turns

ANSWERS = KS[-1]
"""Answers to each held-out problem, of the start model and of the last version."""
_MOST_TIMES = 20
"""Most answers that the frozen model gets in place of the training, in multiples of `ANSWERS`."""
_PARTS = 4
"""Of what is measured, for each process: they end together, and tell how far they are."""
_FEW_TARGETS = 30
"""Fewer programs are learned by heart; a trial in which imitation gained had 229."""
_MOSTLY = 0.8
"""Share of the held-out problems; above it little is left to win."""


class LoopResult(NamedTuple):
    """Result of a loop; `evovpo loop --json` prints these fields."""

    rounds: int
    policy_versions: int
    """Versions that the loop's trainings made."""
    weights_changed: bool
    """Whether the last trained version differs from the start model in any weight."""
    before: Json
    """Of the start model on the held-out problems: `best_at_k` and `pass_at_k` by k; `solved_heldout`,
    problems solved on held-out rows too within `answers` answers each (an expectation), with the curve
    `solved_by_answers`; and `solved_in_searches` with joins. None without held-out problems."""
    after: Json
    """The same of the last version that was trained, whether it is served or not."""
    served: int
    """Number of the version that searches follow."""
    frozen_at_equal_cpu: Json
    """The same of the start model with as many answers more as the CPU time of the loop would have given: of
    its searches, trainings and guards. `cpu_share` is below 1 where their most was reached before."""
    break_even: Json
    """After how many problems of `answers` answers each the loop has paid for itself
    (`evovpo/experiments/break_even.py`), in CPU seconds and in tokens; empty where nothing was trained."""
    verdict: str


class LoopComparison(NamedTuple):
    """What was measured on the held-out problems."""

    before: ProbeResult
    after: ProbeResult
    spent: dict[str, dict[str, ArmCosts]]
    """By unit, of the start model and the last version; empty where nothing was trained."""

    def break_even(self) -> list[BreakEven]:
        """Return after how many problems the loop has paid for itself, by unit."""
        return [
            pays_after("trained", "start", "iid", unit, by_arm["trained"], by_arm["start"])
            for unit, by_arm in self.spent.items()
        ]


def compare(turns: Turns, rounds: int) -> tuple[LoopResult, LoopComparison | None]:
    """Measure the start model and the last trained version on the held-out problems, if there are any."""
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
        frozen_at_equal_cpu=None,
        break_even=[],
        verdict="No problem was held out: whether training paid, this cannot tell.",
    )
    if not loop.held_out:
        return result, None

    def probed(said: str, version: PolicyVersion, answers: int) -> tuple[ProbeResult, float]:
        # Another seed than the guard's, so that nothing is measured by the answers that it chose by.
        work = partial(_timed_probe, version, most=answers, seed=loop.train.run.seed + 1)
        found = _in_parts(turns, said, loop.search, work)
        probes = [result for result, _ in found]
        problems, measures = (
            tuple(chain.from_iterable(parts))
            for parts in zip(*((one.problems, one.measures) for one in probes), strict=True)
        )
        tokens = sum(one.tokens for one in probes)
        whole = replace(probes[0], problems=problems, measures=measures, tokens=tokens)
        return whole, sum(spent for _, spent in found)

    after, seconds = probed("last trained version", last, ANSWERS)
    training = _spent(turns, rounds, made)
    equal = 1.0 + training["cpu_seconds"] / max(seconds, 1e-9)
    times = min(equal, _MOST_TIMES)
    before, frozen_seconds = after, seconds
    if made:
        before, frozen_seconds = probed("start model", start_model, ceil(ANSWERS * times))
    spent = {
        unit: {
            "start": _on_problems(before, 0.0, old),
            "trained": _on_problems(after, training[unit], new),
        }
        for unit, old, new in (
            ("cpu_seconds", frozen_seconds, seconds),
            ("tokens", before.tokens, after.tokens),
        )
        if made
    }
    compared = LoopComparison(before, after, spent)
    budget = min(ANSWERS, loop.search.search.evaluations)
    search = loop.search.changed(search={"evaluations": budget})
    solved = []
    for version in dict.fromkeys((start_model, last)):  # one, where nothing was made
        work = partial(solved_in_searches, version)
        parts = _in_parts(turns, f"searches with version {version.number}", search, work)
        solved.append(sum(sum(part) for part, _ in parts))
    targets = dict(last.metrics).get("targets") if loop.train.imitate.share else None
    share = times / equal
    none = "Nothing was trained, so nothing was won."
    verdict = loop_verdict(before, after, targets, share) if made else none
    return result._replace(
        before=_figures(before, ANSWERS) | {"solved_in_searches": solved[0]},
        after=_figures(after, ANSWERS) | {"solved_in_searches": solved[-1]},
        frozen_at_equal_cpu=_figures(before, before.sampled) | {"cpu_share": share},
        break_even=[one._asdict() for one in compared.break_even()],
        verdict=verdict,
    ), compared


def _on_problems(found: ProbeResult, training: float, cost: float) -> ArmCosts:
    """Return what `ANSWERS` answers to each held-out problem cost of what all answers did, and solved."""
    solved = found.values("solved_at_k", [ANSWERS]).T
    return ArmCosts(training, np.full(solved.shape, cost * ANSWERS / found.sampled / solved.size), solved)


def _spent(turns: Turns, rounds: int, made: Sequence[PolicyVersion]) -> dict[str, float]:
    """Return CPU seconds and tokens of what a loop did: searches, as their runs say, trainings, guards."""
    seconds = tokens = 0.0
    for metrics in (dict(version.metrics) for version in made):
        seconds += metrics.get("cpu_seconds", 0.0) + metrics.get("guard_cpu_seconds", 0.0)
        tokens += metrics.get("tokens", 0.0) + metrics.get("guard_tokens", 0.0)
    for run in (run for number in range(1, rounds + 1) for run in turns.loop.run_ids(number)):
        summary = turns.store.run_summary(run)
        seconds += summary.sampling_seconds + summary.evaluation_seconds
        tokens += summary.tokens
    return {"cpu_seconds": seconds, "tokens": tokens}


def _timed_probe(
    version: PolicyVersion, problems: tuple[Problem, ...], most: int, seed: int, config: Config
) -> tuple[ProbeResult, float]:
    """Return what a version answered, and the CPU seconds that took."""
    began = cpu_seconds()
    answers = config.search.answers
    result = probe(version, problems, answers=answers, k_max=most, seed=seed, config=config)
    return result, cpu_seconds() - began


@dataclass(frozen=True)
class _Part:
    """Some of the held-out problems, measured by one process."""

    name: str
    problems: tuple[Problem, ...]
    config: Config
    work: Callable[..., Any]

    def run(self, tell: Callable[[Any], None]) -> Any:
        """Return what the work gives."""
        return self.work(self.problems, config=self.config)


def _in_parts(turns: Turns, said: str, config: Config, work: Callable[..., Any]) -> list[Any]:
    """Return what `work(problems, config=config)` gives for parts of what is held out, in `jobs` processes.

    Where one is enough, in this one.
    """
    problems = turns.loop.held_out
    count = min(_PARTS * turns.jobs, len(problems))
    tasks = {str(at): _Part(str(at), problems[at::count], config, work) for at in range(count)}
    found: dict[str, Any] = {}

    def on_message(message: Message) -> None:
        if isinstance(message, TaskDone):
            found[message.name] = message.value
            done = sum(len(tasks[name].problems) for name in found)
            turns.watch.measured(said, done, len(problems))

    turns.watch.measured(said, 0, len(problems))
    if turns.jobs == 1:
        for name, task in tasks.items():
            on_message(TaskDone(name, task.run(ignore)))
    elif failed := run_all(list(tasks.values()), turns.jobs, on_message):
        raise TrainingError(f"{said} could not be measured: {failed[0].reason}; the same command continues")
    return [found[name] for name in tasks]


def best_by_round(loop: Loop, store: Store, rounds: int) -> list[float]:
    """Return the mean over a round's searches of the best mean reward that each found."""
    best = {row.run: row.best_mean_reward for row in store.runs()}
    return [
        sum(best[run_id] or 0.0 for run_id in loop.run_ids(number)) / len(loop.searched)
        for number in range(1, rounds + 1)
    ]


def _figures(result: ProbeResult, answers: int) -> dict[str, Json]:
    curves: dict[str, Json] = {
        name: {str(k): value for k, value in result.means(name).items() if k <= answers}
        for name in ("best_at_k", "pass_at_k")
    }
    by_answers = result.values("solved_at_k", KS).sum(axis=0).tolist()
    solved: dict[str, Json] = {str(k): value for k, value in zip(KS, by_answers, strict=True)}
    figures: dict[str, Json] = {
        "answers": answers,
        "problems": len(result.problems),
        "solved_heldout": float(result.values("solved_at_k", [answers]).sum()),
        "solved_by_answers": solved,
    }
    return figures | curves


def loop_verdict(
    before: ProbeResult, after: ProbeResult, targets: float | None, cpu_share: float = 1.0
) -> str:
    """Return in a few sentences whether the loop won: held-out problems solved, paired over problems.

    `cpu_share` of the loop's CPU time is what the answers of `before` took.

    What decides is the area under the problems solved by the logarithm of the answers, from 1 to `ANSWERS`:
    a model that needs fewer answers is better, and the largest number alone is noise.
    """
    rng = np.random.default_rng(0)
    old, new = (result.values("solved_at_k", KS) for result in (before, after))
    gain = bootstrap_interval([new.mean(axis=1)], [old.mean(axis=1)], rng)
    beyond = bootstrap_interval([new[:, -1]], [before.values("solved_at_k", [before.sampled])[:, 0]], rng)
    areas = [values.mean(axis=1).sum() for values in (old, new)]
    most = [values[:, -1].sum() for values in (old, new)]
    said = (
        f"{areas[0]:.1f} to {areas[1]:.1f} of {gain.n} held-out problems solved, on average over {KS[0]}, "
        f"{KS[1]}, {KS[2]} … {ANSWERS} answers each (share {gain:+.3f}); with {ANSWERS}, {most[0]:.1f} to "
        f"{most[1]:.1f}"
    )
    if not gain.is_clear or gain.mean < 0:
        return f"The loop did not clearly win, {said}: {_why_not(before, after, targets)}."
    word = "behind" if beyond.is_below_zero else "ahead of" if beyond.is_clear else "level with"
    part = "" if cpu_share >= 1 else f"{cpu_share:.0%} of "
    return (
        f"The loop won: {said}. With {ANSWERS} it is {word} a start model that has {part}the loop's CPU time "
        f"as {before.sampled} answers (share {beyond:+.3f})."
    )


def _why_not(before: ProbeResult, after: ProbeResult, targets: float | None) -> str:
    """Return the likeliest reason why a loop did not win, from what was measured; `targets` it imitated."""
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
    """True if two versions differ in any weight; adapters are merged first."""
    one, other = (load_model(version).model.state_dict() for version in (first, second))
    return any(not torch.equal(value, other[name]) for name, value in one.items())
