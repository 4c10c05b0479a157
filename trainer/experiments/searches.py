"""Makes the searches of a study that have no row yet: ordinary batch cells in one store, a row as each ends.

Seed i of an arm that was trained is its training i, searched with run seed i; seed i of a given model is run
seed i. A search counts as solved by the first of its programs that is right on all training rows, if that
one is right on all held-out rows too; which it is, is judged here, after the search.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evovpo.experiments.batch import Batch, Variant
from evovpo.experiments.plan import plan_cells
from evovpo.experiments.pool import Ended, Failed, Message, Told, run_all
from evovpo.experiments.reading import raise_faults
from evovpo.experiments.running import Work, only_batch, sized
from evovpo.judging.measure import measure_groups
from evovpo.store import Store, rises, solved_at
from evovpo.types import Problem
from trainer.experiments.export import Export, SearchKey
from trainer.experiments.records import Strategy, Study, StudyArm, store_url
from trainer.experiments.trainings import model_of


def trial_batch(study: Study, arm: StudyArm) -> Batch:
    """Return what an arm will search, with the start model in the place of those that are not there yet."""
    batch = _batch(study, arm, study.start, 0, [study.strategy(name) for name in arm.strategies])
    return batch.model_copy(update={"name": f"{study.name} (trial)"})


def _batch(study: Study, arm: StudyArm, model: Path, seed: int, strategies: Sequence[Strategy]) -> Batch:
    proposer = {"name": "local", "model": str(model), "threads": 1}
    return Batch(
        name=study.name,
        problems=study.problems,
        evaluations=(arm.evaluations,),
        seeds=(seed,),
        proposers=(Variant(arm.name, {"proposer": proposer}),),
        strategies=tuple(Variant(one.name, settings_of(one, arm)) for one in strategies),
        origin=f"{study.path}: arm {arm.name}",
    )


def settings_of(strategy: Strategy, arm: StudyArm) -> dict[str, object]:
    """Return the settings of a strategy's runs with an arm's model: the same answers an ask for every arm.

    Independent samples are not joined, and go on after the first solution: best@k needs all of them.
    """
    search = strategy.settings.get("search", {})
    assert isinstance(search, Mapping)
    shape = {"answers": arm.search_answers, "rollouts": strategy.answers_per_ask // arm.search_answers}
    if strategy.is_independent:
        shape |= {"joins": False, "stop_when_solved": False}
    return {**strategy.settings, "search": {**search, **shape}}


def run_searches(
    study: Study, export: Export, work: Path, processes: int, on_search: Callable[[int, int, str], None]
) -> list[Failed]:
    """Make the missing searches and export each as it ends; return those that failed.

    `on_search` is told how many are done, how many there are, and what one waits for. Raises `ConfigError`
    for what is wrong with them, `StoreError` if the store fails.
    """
    faults: list[str] = []
    url = store_url(work)
    wanted = [key for arm in study.arms if not arm.while_searching for key in export.missing(study, arm)]
    batches = []
    for name, seed in dict.fromkeys((key.arm, key.seed) for key in wanted):
        arm, names = study.arm(name), {key.strategy for key in wanted if (key.arm, key.seed) == (name, seed)}
        strategies = [one for one in study.strategies if one.name in names]
        batches.append(_batch(study, arm, model_of(study, export, work, arm, seed), seed, strategies))
    works = [one for one in plan_cells(batches, url, faults) if _key_of(one) in set(wanted)]
    raise_faults(faults)
    by_run = {one.name: one for one in works}
    with Store.open(url, create=True) as store, only_batch(url):

        def export_one(run_id: str) -> None:
            one = by_run.pop(run_id)
            is_independent = study.strategy(one.cell.arm.strategy).is_independent
            row = search_row(store, run_id, one.problem, study.ks if is_independent else ())
            export.add_searches([_key_of(one)._asdict() | row])

        def take(message: Message) -> None:
            if isinstance(message, Ended):
                export_one(message.name)
            if isinstance(message, Failed):
                by_run.pop(message.name)
            waits = message.value.waits if isinstance(message, Told) else ""
            on_search(len(works) - len(by_run), len(works), waits)

        for one in works:  # ended before their rows were written
            if one.is_finished:
                export_one(one.name)
        on_search(len(works) - len(by_run), len(works), "")
        return run_all(sized([*by_run.values()], processes), processes, take)


def _key_of(work: Work) -> SearchKey:
    """Return what a cell's row is filed under."""
    cell = work.cell
    return SearchKey(cell.arm.proposer, cell.arm.strategy, cell.seed, cell.problem_id)


def search_row(store: Store, run_id: str, problem: Problem, ks: tuple[int, ...]) -> dict[str, Any]:
    """Return the row of a finished run: when it was solved, its curve, and with `ks` what k answers bring.

    The answers of a completion are a chain; what lies between chains is independent.
    """
    summary = store.run_summary(run_id)
    solved_after = solved_at(summary.curve, len(problem.objectives))
    row: dict[str, Any] = {
        "run": run_id,
        "evaluations": summary.proposed,
        "solved_after": solved_after,
        "solved_train": solved_after is not None,
        "solved_heldout": summary.solved_heldout,
        "is_right": solved_after is not None and summary.solved_heldout is not False,
        "curve": rises(summary.curve, 5),
        "tokens": summary.tokens,
        "seconds": round(summary.sampling_seconds + summary.evaluation_seconds, 3),
    }
    if ks:
        found = measure_groups(store.groups(run_id))
        for name, values in (("best_at_k", found.best_at_k(ks)), ("pass_at_k", found.pass_at_k(ks))):
            row[name] = dict(zip(map(str, ks), np.round(values, 6).tolist(), strict=True))
        row |= {
            "distinct_share": round(found.distinct_share, 4),
            "diversity": round(found.diversity, 4),
            "full_reward_answers": int(found.right_C_m.sum()),
            "faulty_completions": found.faults,
        }
    return row
