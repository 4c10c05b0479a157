"""Findings and advice about a sample of rewards, and a verdict on training with VPO."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from evovpo.analysis.doctor.sample_figures import (
    SET_SIZE,
    Figures,
    Headroom,
    Sample,
    effective_rank,
    headroom,
    measure,
)
from evovpo.analysis.grouping import ALIKE, MOST_COMPONENTS, Groups, behavioural_groups, group_rewards

GROUP_SIZE = 8
"""G, completions per prompt, as VPO's authors choose for models of up to four billion parameters."""
MOST_ROLLOUTS = 64
COLLINEAR = 0.9
"""From this mean correlation of components on, VPO is not worth it. In the paper, VPO beats GRPO at .86
(ToolRL, +.028 best@16), but not at .95 (UltraFeedback, -.004). A low correlation is no guarantee: at .05
and .12, VPO gains as little as at .86."""
SMALLEST_HEADROOM = 0.01
"""A headroom (`Headroom`) below this is noise. The difference between two sets (three answers, four
components) has a standard deviation of about 0.008 if estimated with 100 weightings."""
RARE = 0.02
"""VPO gains nothing if at most this share of answers has any reward. In an independent replication on mazes,
where 2 % of routes succeeded, VPO was worse than a plain scalar reward (best@30 .155 against .210)."""
FEWEST_SPREAD = 0.25
"""Minimum share of prompts whose chains have different scores; below it, most sampling is wasted."""
FEW_ANSWERS = 30
"""Below this number of different answers, figures are rough: a correlation of 0 has an error above ±.18."""
UNREADABLE = 0.5
"""If this share of answers has no program, the format should be trained first, because VPO itself does not
reward readable answers (the authors use no format bonus)."""


class Verdict(StrEnum):
    """Whether training a model with VPO is worthwhile, given the model's present answers."""

    WORTH = "worth it"
    CHANGE = "worth it after changes"
    NOT = "not worth it"


class Finding(NamedTuple):
    allows: Verdict
    """The best verdict possible in view of the finding; `WORTH` if the finding is only information."""
    text: str
    advice: str = ""


class Advice(NamedTuple):
    groups: Groups
    """Advised groups of the sample's components; with one component in each group, no grouping is advised."""
    answers: int
    """m, number of answers per chain."""
    rollouts: int
    """G, number of rollouts per prompt."""
    headroom: Headroom
    """Headroom of the sample after its components are grouped by `groups`."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    sample: Sample
    figures: Figures
    advice: Advice
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict of the least favourable finding; `WORTH` if there are no findings."""
        return self.findings[0].allows if self.findings else Verdict.WORTH

    @property
    def is_grouping_advised(self) -> bool:
        return len(self.advice.groups) < len(self.sample.names) and self.verdict is not Verdict.NOT

    @property
    def objective_groups(self) -> list[list[str]]:
        return [
            [name for index in group for name in self.sample.members[index]] for group in self.advice.groups
        ]


def diagnose(sample: Sample) -> Diagnosis:
    """Return the diagnosis of a sample, which must contain at least one program."""
    figures = measure(sample)
    advice = advise(sample, figures)
    rank = list(Verdict)[::-1]
    return Diagnosis(
        sample=sample,
        figures=figures,
        advice=advice,
        findings=tuple(
            sorted(_findings(sample, figures, advice), key=lambda finding: rank.index(finding.allows))
        ),
    )


def advise(sample: Sample, figures: Figures) -> Advice:
    groups = behavioural_groups(sample.different_N_D)
    rollouts = max(len(pool) for pool in sample.pools)
    if rollouts == 1:
        rollouts = GROUP_SIZE
    rewarded = [bool(chain.any()) for pool in sample.pools for chain in pool]
    if figures.flat_at_zero > 0.5 and any(rewarded):
        # A chain is rewarded with probability p; with (1 - p)^G = 1/4 one group in four has no reward.
        needed = math.log(0.25) / math.log(1 - sum(rewarded) / len(rewarded))
        rollouts = min(MOST_ROLLOUTS, max(rollouts, math.ceil(needed)))
    # n specialists cover n behaviours, so larger sets add nothing. Chains of one answer stay as they are.
    behaviours = effective_rank(group_rewards(sample.different_N_D, groups))
    answers = 1 if sample.answers == 1 else min(SET_SIZE, max(2, math.ceil(behaviours - 0.5)))
    return Advice(groups, answers, rollouts, headroom(sample, groups))


def _findings(sample: Sample, figures: Figures, advice: Advice) -> Iterator[Finding]:
    yield from _about_answers(sample, figures, advice)
    if len(sample.names) == 1:
        yield Finding(
            Verdict.NOT,
            "the vector has one component: VPO is then best-of-m of a number",
            "split the reward into components (for an OpenEvolve project `evovpo check --bounds RUN` writes a"
            " metrics.toml that does: then lexicase selection and the set objectives apply), or train with"
            " --objective max-at-k",
        )
        return
    if figures.rewarded > RARE:
        yield from _about_components(sample, figures, advice)
    for indices, what in ((figures.dead, "above 0"), (figures.saturated, "below 1")):
        if indices:
            yield Finding(
                Verdict.WORTH,
                f"components that are never {what}: {len(indices)} of {len(sample.names)}",
                "nothing to do: what all answers share leaves the advantages as they are",
            )


def _about_answers(sample: Sample, figures: Figures, advice: Advice) -> Iterator[Finding]:
    different = len(sample.different_N_D)
    if figures.rewarded <= RARE:
        yield Finding(
            Verdict.NOT,
            f"{percent(figures.rewarded)} of the answers earn anything, and nothing is gained where the base"
            " success is near zero",
            "train the proposer on easier problems, or on written examples, before this one",
        )
    elif max(len(pool) for pool in sample.pools) == 1:
        yield Finding(
            Verdict.CHANGE,
            "every prompt has a single completion, and advantages compare those of one prompt",
            f"search with --set search.rollouts={advice.rollouts}",
        )
    elif figures.spread == 0:
        yield Finding(
            Verdict.NOT,
            "in no group do the chains differ in what they earn, so every advantage is zero",
            "train on another problem",
        )
    elif figures.spread < FEWEST_SPREAD:
        more = f"sample {advice.rollouts} completions a prompt (search.rollouts), or train on easier problems"
        yield Finding(
            Verdict.CHANGE,
            f"only {percent(figures.spread)} of the groups have chains that differ in what they earn; the"
            " others teach nothing",
            more if figures.flat_at_zero > 0.5 else "train on problems that are not solved already",
        )
    if figures.unreadable >= UNREADABLE:
        yield Finding(
            Verdict.CHANGE,
            f"{percent(figures.unreadable)} of the answers hold no program, and nothing in VPO pays for the"
            " format",
            "train the format first, on written examples",
        )
    if different < FEW_ANSWERS:
        yield Finding(
            Verdict.WORTH,
            f"only {different} different answers: all figures are rough",
            "look again after more evaluations",
        )
    if sample.faulty:
        yield Finding(
            Verdict.WORTH,
            f"{sample.faulty} completions were left out because the sandbox failed on them",
            "`python -m evovpo.sandbox --selftest` says what this machine refuses",
        )


def _about_components(sample: Sample, figures: Figures, advice: Advice) -> Iterator[Finding]:
    count = len(sample.names)
    now, advised = figures.headroom, advice.headroom
    if figures.correlation is not None and figures.correlation >= COLLINEAR:
        yield Finding(
            Verdict.NOT,
            f"the components are near-collinear (mean correlation {figures.correlation:.2f}): all weightings"
            " prefer the same answers, and VPO cannot help",
            "train with --objective grpo or max-at-k, or find components that disagree",
        )
        return
    single, whole, best = map(max, now, advised)
    if best < SMALLEST_HEADROOM:
        reason = f"no {SET_SIZE} answers that were seen earn more together than the best one alone"
        if figures.right:
            reason = "an answer has every component at 1 already"
        if max(single, whole) < SMALLEST_HEADROOM:
            yield Finding(
                Verdict.NOT,
                f"{reason}, and among the answers to a prompt the best mean is best under nearly all"
                f" weightings (headroom {whole:+.3f})",
                "search on and look again, train on other problems, or with --objective grpo or max-at-k",
            )
            return
        yield Finding(Verdict.WORTH, f"{reason}: sets of answers help on the way there, not beyond")
    is_needed = count > MOST_COMPONENTS or now.single < SMALLEST_HEADROOM <= advised.single
    if count > MOST_COMPONENTS:
        text = f"over {count} components random weightings are nearly even: VPO becomes best-of-m on the mean"
    else:
        text = (
            f"the {count} components behave like {len(advice.groups)}: those that are alike (correlated"
            f" {ALIKE:.2f} or more) count several times in a random weighting"
        )
    if len(advice.groups) < count:
        yield Finding(
            Verdict.CHANGE if is_needed else Verdict.WORTH,
            text,
            "group them as below, so that each behaviour counts once",
        )
    if single < SMALLEST_HEADROOM and (sample.answers > 1 or whole < SMALLEST_HEADROOM):
        yield Finding(
            Verdict.CHANGE,
            f"single chains have a headroom of {single:+.3f}: what VPO rewards in them is hardly more than"
            f" their best mean; all answers to a prompt together have {whole:+.3f}",
            "train with --objective vpo-at-k, whose sets are several chains"
            if whole >= SMALLEST_HEADROOM
            else f"sample more than {advice.rollouts} completions a prompt (search.rollouts), and look again",
        )


def percent(share: float) -> str:
    """Return a share in percent as text; a share above 0 is never written as 0 %."""
    return "under 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")
