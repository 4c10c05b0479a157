"""One run for machines: the same as its report holds, as JSON."""

from collections.abc import Sequence

from evovpo.problem.openevolve.metrics import combined_curve
from evovpo.runs.outcome import Outcome
from evovpo.runs.stored import Ancestor, Row, RunView, example_rows
from evovpo.search.search import Search
from evovpo.types import Json


def outcome_json(outcome: Outcome) -> dict[str, Json]:
    """Return an outcome for machines; `combined_score` only where there is one."""
    fields: dict[str, Json] = dict(outcome._asdict())
    if outcome.combined_score is None:
        del fields["combined_score"]
    return {
        **fields,
        "solved_train": outcome.solved_train,
        "solved_heldout": outcome.solved_heldout,
        "solved_unseen": bool(outcome.solved_heldout),
    }


def run_json(view: RunView, ancestors: Sequence[Ancestor]) -> dict[str, Json]:
    """Return for machines what `run_report` shows."""
    rows = example_rows(view.problem, view.evaluation)
    outcome = outcome_json(view.outcome(0.0))
    del outcome["seconds"]
    return {
        **outcome,
        "problem": view.problem.id,
        "status": str(view.run.status),
        "seed": view.run.seed,
        "budget": view.run.evaluations,
        "sampling_seconds": view.summary.sampling_seconds,
        "evaluation_seconds": view.summary.evaluation_seconds,
        "calls": {**view.summary.calls._asdict()},
        "rewards": list((view.evaluation.rewards if view.evaluation else None) or ()),
        "examples": [_row_json(row) for row in rows],
        "heldout": [_row_json(row) for row in view.heldout],
        "lineage": [
            {
                "program_id": ancestor.program.id,
                "program": ancestor.program.source,
                "origin": ancestor.origin,
                "made_from": [
                    {"role": str(role), "program_id": parent} for role, parent in ancestor.made_from
                ],
                "mean_reward": ancestor.mean_reward,
            }
            for ancestor in ancestors
        ],
        "curve": [
            {
                "evaluations": point.evaluations,
                "best_mean_reward": point.best_mean_reward,
                "examples_passed": point.examples_passed,
            }
            for point in view.summary.curve
        ],
        **_scores_json(view),
    }


def _scores_json(view: RunView) -> dict[str, Json]:
    """Return the raw metrics of the best program and the curve of `combined_score`, where there are any."""
    if view.problem.evaluator is None:
        return {}
    curve: list[Json] = [dict(point._asdict()) for point in combined_curve(view.scores)]
    metrics = (view.evaluation.metrics if view.evaluation else None) or ()
    return {"metrics": dict(metrics), "combined_curve": curve}


def _row_json(row: Row) -> dict[str, Json]:
    return {"inputs": list(row.inputs), "output": row.wanted, "got": row.got, "passed": row.passed}


def population_json(search: Search) -> list[Json]:
    """Return the islands of a search for machines: index, program ids, and the best mean reward."""
    return [
        {
            "island": island.index,
            "programs": [member.program_id for member in island.members],
            "best_mean_reward": max((sum(m.rewards) / len(m.rewards) for m in island.members), default=0.0),
        }
        for island in search.islands
    ]
