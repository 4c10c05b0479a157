"""What a study found, in sentences; a winner is named only where the difference is clear."""

from collections.abc import Mapping

from evovpo.experiments.intervals import Difference
from trainer.experiments.results import Comparison, Results, StrategyComparison


def verdict(results: Results) -> list[str]:
    """Return sentences that answer: which arm is ahead of which, what each unlocks, which strategy helps."""
    said = [
        f"{arm.arm.name}: {arm.missing} searches are not done; only whole seeds count."
        for arm in results.arms
        if arm.missing
    ]
    said += [_compared(results, one) for one in results.comparisons if one.at_k or one.solved]
    said += [_strategies(results, one) for one in results.strategies]
    return said


def _compared(results: Results, found: Comparison) -> str:
    parts = [
        f"{results.study.figures[figure]} {_by_k(differences)}" for figure, differences in found.at_k.items()
    ]
    for strategy, difference in found.solved.items():
        ours, theirs = found.unlocked[strategy], found.locked[strategy]
        seeds = "seed" if ours.seeds == 1 else f"{ours.seeds} seeds"
        difference_in_words = in_words(difference, len(results.problems))
        parts.append(
            f"solved by {strategy} {difference_in_words}, unlocks {len(ours.problems)} that "
            f"{found.reference} never solves and lacks {len(theirs.problems)} that it solves "
            f"({seeds} each)"
        )
    return f"{found.arm} against {found.reference}: {'; '.join(parts)}."


def _by_k(differences: Mapping[int, Difference]) -> str:
    ahead = [k for k, one in differences.items() if one.is_clear and one.interval.mean > 0]
    behind = [k for k, one in differences.items() if one.is_clear and one.interval.mean < 0]
    level = [k for k in differences if k not in ahead and k not in behind]
    parts = [
        f"{words} at k = {', '.join(map(str, ks))}"
        for words, ks in (("ahead", ahead), ("behind", behind), ("with no clear difference", level))
        if ks
    ]
    return ", ".join(parts)


def in_words(found: Difference, problems: int) -> str:
    """Return a difference in problems solved, with who is ahead if that is clear."""
    interval = found.interval
    outcome = "no clear difference"
    if found.is_clear:
        outcome = "ahead" if interval.mean > 0 else "behind"
    ends = f"[{interval.low:+.1f}, {interval.high:+.1f}]"
    return f"{interval.mean:+.1f} of {problems} {ends}, p = {found.p:.2g} ({outcome})"


def _strategies(results: Results, found: StrategyComparison) -> str:
    return (
        f"{found.arm}, {found.strategy} against {found.reference}: solves "
        f"{in_words(found.solved, len(results.problems))}."
    )
