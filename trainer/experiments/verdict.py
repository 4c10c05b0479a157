"""What a study found, in sentences; a winner is named only where the difference is clear."""

from collections.abc import Mapping

from evovpo.experiments.intervals import Difference
from trainer.experiments.study_results import Comparison, StudyResults

_LEVEL = "no clear difference"


def verdict(results: StudyResults) -> list[str]:
    """Return sentences that answer: which arm is ahead of which, what each unlocks, which strategy helps."""
    open_ones = [(one.arm.name, one.missing) for one in results.arms if one.missing]
    said = [f"{name}: {count} searches are not done; only whole seeds count." for name, count in open_ones]
    said += [_compared(results, one) for one in results.comparisons if one.at_k or one.solved]
    return said + [
        f"{one.arm}, {one.strategy} against {one.reference}: solves {_in_words(one.solved, results)}."
        for one in results.strategies
    ]


def _compared(results: StudyResults, found: Comparison) -> str:
    figures = results.study.figures
    parts = [f"{figures[figure]} {_by_k(differences)}" for figure, differences in found.at_k.items()]
    for strategy, difference in found.solved.items():
        ours, theirs = found.unlocked[strategy], found.locked[strategy]
        seeds = "seed" if ours.seeds == 1 else f"{ours.seeds} seeds"
        parts.append(
            f"solved by {strategy} {_in_words(difference, results)}, unlocks {len(ours.problems)} that "
            f"{found.reference} never solves and lacks {len(theirs.problems)} that it solves "
            f"({seeds} each)"
        )
    return f"{found.arm} against {found.reference}: {'; '.join(parts)}."


def _by_k(differences: Mapping[int, Difference]) -> str:
    parts = []
    for outcome in ("ahead", "behind", _LEVEL):
        ks = ", ".join(str(k) for k, one in differences.items() if _outcome(one) == outcome)
        if ks:
            parts.append(f"{'with ' * (outcome == _LEVEL)}{outcome} at k = {ks}")
    return ", ".join(parts)


def _in_words(found: Difference, results: StudyResults) -> str:
    value, low, high, _ = found.interval
    ends = f"[{low:+.1f}, {high:+.1f}], p = {found.p:.2g}"
    return f"{value:+.1f} of {len(results.problems)} {ends} ({_outcome(found)})"


def _outcome(found: Difference) -> str:
    return _LEVEL if not found.is_clear else "ahead" if found.interval.mean > 0 else "behind"
