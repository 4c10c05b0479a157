"""What a loop came to: the start model and the last trained version on the problems that were held out."""

from typing import NamedTuple

import torch

from evovpo.store import Store
from evovpo.types import Json, PolicyVersion
from trainer.loop.loop import Loop
from trainer.loop.probe import KS, ProbeResult, probe
from trainer.loop.turns import Turns


class LoopResult(NamedTuple):
    """What a loop came to; `evovpo loop --json` prints these fields."""

    rounds: int
    policy_versions: int
    """Versions that the loop's trainings made."""
    weights_changed: bool
    """Whether the last trained version differs from the start model in any weight."""
    before: Json
    """`best_at_k` and `pass_at_k` of the start model on the held-out problems, by k; none without any."""
    after: Json
    """The same of the last version that was trained, whether it is served or not."""
    served: int
    """Number of the version that searches follow."""


def compare(turns: Turns, rounds: int) -> tuple[LoopResult, tuple[ProbeResult, ProbeResult] | None]:
    """Measure the start model and the last trained version on the held-out problems, if there are any."""
    loop, store = turns.loop, turns.store
    start_model = store.policy_version(0)
    ids = {training.id for training in turns.trainings()}
    made = [version for version in store.policy_versions() if version.config_hash in ids]
    last = made[-1] if made else start_model

    def probed(name: str, version: PolicyVersion) -> ProbeResult:
        return probe(
            version,
            loop.held_out,
            answers=loop.search.search.answers,
            k_max=KS[-1],
            seed=loop.train.run.seed + 1,  # not the answers that the guard chose by
            config=loop.search,
            on_problem=lambda done, total: turns.watch.measured(name, done, total),
        )

    found: tuple[ProbeResult, ProbeResult] | None = None
    if loop.held_out:
        before = probed("start model", start_model)
        found = before, probed("last trained version", last) if made else before
    served = store.served()
    result = LoopResult(
        rounds=rounds,
        policy_versions=len(made),
        weights_changed=bool(made) and _differ(start_model, last),
        before=None if found is None else _curves(found[0]),
        after=None if found is None else _curves(found[1]),
        served=0 if served is None else served.number,
    )
    return result, found


def best_by_round(loop: Loop, store: Store, rounds: int) -> list[float]:
    """Return the mean over the problems of the best mean reward that a round's searches found."""
    best = {row.run: row.best_mean_reward for row in store.runs()}
    return [
        sum(best[run_id] or 0.0 for run_id in loop.run_ids(number)) / len(loop.searched)
        for number in range(1, rounds + 1)
    ]


def _curves(result: ProbeResult) -> Json:
    figures = ("best_at_k", "pass_at_k")
    return {name: {str(k): value for k, value in result.means(name).items()} for name in figures}


def _differ(first: PolicyVersion, second: PolicyVersion) -> bool:
    """True if two versions differ in any weight; adapters are merged first."""
    from evovpo.proposers.local import load_model

    one, other = (load_model(version).model.state_dict() for version in (first, second))
    return any(not torch.equal(value, other[name]) for name, value in one.items())
