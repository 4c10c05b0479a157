"""The doctor's report for machines."""

from evovpo.analysis.doctor.sets import Scores
from evovpo.reports.doctor.examine import Report
from evovpo.types import Json


def report_json(report: Report) -> dict[str, Json]:
    """Return for machines what `report_view` shows; groups are lists of names of objectives."""
    diagnosis = report.diagnosis
    sample, figures, advice = diagnosis.sample, diagnosis.figures, diagnosis.advice
    names = sample.names
    return {
        "problem": report.problem.id,
        "run": report.run.id,
        "is_new_run": report.is_new,
        "verdict": diagnosis.verdict.name.lower(),
        "findings": [
            finding._asdict() | {"allows": finding.allows.name.lower()} for finding in diagnosis.findings
        ],
        "prompts": len(sample.pools),
        "answers": sample.slots,
        "different_programs": len(sample.different_N_D),
        "answers_per_chain": sample.answers,
        "components": list(names),
        "effective_rank": figures.rank,
        "mean_correlation": figures.correlation,
        "mean_rewards": list(figures.mean_rewards),
        "dead": [names[index] for index in figures.dead],
        "saturated": [names[index] for index in figures.saturated],
        "copies": [[names[index] for index in group] for group in figures.copies],
        "sets": _scores_json(figures.scores),
        "rewarded_share": figures.rewarded,
        "right_share": figures.right,
        "spread_share": figures.spread,
        "flat_at_zero_share": figures.flat_at_zero,
        "unreadable_share": figures.unreadable,
        "repeated_share": figures.repeated,
        "faulty_completions": sample.faulty,
        "advice": {
            "groups": [[*group] for group in diagnosis.objective_groups],
            "alpha": advice.alpha,
            "ungrouped_alpha": advice.ungrouped_alpha,
            "answers": advice.answers,
            "rollouts": advice.rollouts,
            "sets": _scores_json(advice.scores),
        },
    }


def _scores_json(scores: Scores) -> dict[str, Json]:
    return {
        name: None if score is None else {**score._asdict(), "headroom": score.headroom}
        for name, score in scores._asdict().items()
    }
