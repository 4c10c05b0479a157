"""Is a reward vector worth training on with VPO? Figures from judged groups, and what follows from them.

VPO (arXiv 2605.22817) pays a chain of answers for the expected best of them over random weightings of the
components. That teaches more than the best mean does only if the components disagree about answers, if
answers earn something at all, and if the chains of a prompt differ in what they earn. Each of these is a
figure here. Pure functions of `Group` records: no I/O; all sampling is seeded, so that the same groups give
the same figures.

Two properties of the weights w ~ Dirichlet(alpha, ..., alpha) over D components are used throughout.
*Neutrality*: without one component, the others' weights, rescaled to sum 1, are Dirichlet again and do not
depend on it. So a component with one value in all answers adds the same to every set score and scales all
their differences alike: normalised advantages stay as they are, and there is no need to drop it.
*Aggregation*: the weights of n identical components add up to one weight of parameter n alpha. They count n
times, and that sum varies less around its mean: n copies of each component do what n alpha would do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from evovpo.analysis.grouping import (
    ALIKE,
    MOST_COMPONENTS,
    Floats,
    Groups,
    behavioural_groups,
    component_names,
    correlations,
    group_rewards,
    grouped,
    merge_tree,
)
from evovpo.types import Group, Problem

SET_SIZE = 3
"""m, answers in a set: the number that all reported results of VPO use."""
GROUP_SIZE = 8
"""G, completions of a prompt: what VPO uses for models of up to four billion parameters."""
COLLINEAR = 0.9
"""Mean correlation of components from which VPO is not worth it: in the paper's table it still gains over
GRPO at .86 (ToolRL, +.028 best@16) and no longer at .95 (UltraFeedback, -.004). A low one promises nothing:
at .05 and .12 it gains as little as at .86."""
SMALLEST_HEADROOM = 0.01
"""Headroom that cannot be told from noise: with 100 shared weightings the estimated difference of two sets of
three answers over four components has a standard deviation of about 0.008."""
RARE = 0.02
"""Share of rewarded answers up to which nothing is gained: in an outside replication on mazes of which 2 % of
the routes succeeded, VPO stayed behind a plain scalar (best@30 .155 against .210)."""
FEWEST_SPREAD = 0.25
"""Share of groups with spread below which most sampling is wasted: one group in four teaches something."""
FEW_ANSWERS = 30
"""Different answers below which figures are rough: a correlation of 0 is then measured to about ±.18."""
UNREADABLE = 0.5
"""Share of answers that hold no program from which the format should be trained first: nothing in VPO pays
for a readable answer (the authors use no format bonus), so a chain loses its slots silently."""
MOST_ROLLOUTS = 64
"""More completions of one prompt than this are not advised."""

_WEIGHTINGS = 1024
_SETS = 2000
_EPSILON = 1e-6
"""Standard deviation of a group's set scores below which it teaches nothing, as in the trainer."""


class Sample(NamedTuple):
    """What was judged, with the components that a trainer sees (the problem's groups are applied)."""

    names: tuple[str, ...]
    """Of the D components."""
    members: tuple[tuple[str, ...], ...]
    """The objectives that each component is the mean of."""
    pools: tuple[tuple[Floats, ...], ...]
    """P prompts, of each its chains without sandbox faults, of each the rewards `[m, D]` of its answers:
    zeros where an answer is unreadable or repeats an earlier one of its chain."""
    different_N_D: Floats  # noqa: N815
    """The rewards of each program that occurs, once."""
    answers: int
    """Asked for in one completion (the most, where prompts differ)."""
    slots: int
    """Answers asked for in all chains."""
    unreadable: int
    """Of these, without a program."""
    repeated: int
    """Of these, with a program that the sample holds already."""
    faulty: int
    """Chains left out because the sandbox failed."""


class SetScores(NamedTuple):
    """How sets of answers score, as means over the sets; each figure is at least the one before."""

    sets: int
    best_mean: float
    """Mean reward of the set's best answer by mean reward."""
    expected_best: float
    """E_w max w·r over random weightings: what VPO pays for."""
    union: float
    """Mean over components of the best reward in the set: what E_w max tends to as alpha goes to 0."""

    @property
    def headroom(self) -> float:
        """What VPO sees in a set beyond its best mean reward."""
        return self.expected_best - self.best_mean


class Scores(NamedTuple):
    """How the sets of answers in a sample score, with one grouping and one alpha."""

    chains: SetScores | None
    """Of the answers of one chain: what VPO rewards now; none where chains have a single answer."""
    random: SetScores
    """Of `SET_SIZE` random answers to one prompt."""
    prompts: SetScores
    """Of all answers to one prompt."""
    best: SetScores
    """Of the one set of `SET_SIZE` different answers that `best_set` finds: how far VPO could get."""

    @property
    def headroom(self) -> float:
        """What VPO sees now: the headroom of chains, or of random sets where chains have a single answer."""
        return (self.random if self.chains is None else self.chains).headroom


@dataclass(frozen=True, slots=True)
class Figures:
    """What is measured. Shares and rewards lie in [0, 1]."""

    rank: float
    """Effective rank, 1 to the number of components that vary (0 without any): `effective_rank`."""
    correlation: float | None
    """Mean Pearson correlation of two components, over those that vary; none if fewer than two do."""
    mean_rewards: tuple[float, ...]
    """Of each component over the different answers; for rewards of 0 and 1 the pass rate."""
    dead: tuple[int, ...]
    """Components above 0 in no answer."""
    saturated: tuple[int, ...]
    """Components below 1 in no answer."""
    copies: Groups
    """Components that vary, and are identical in every answer."""
    scores: Scores
    """With the components as they are and alpha 1."""
    rewarded: float
    """Share of the answers with any reward, unreadable ones included."""
    right: float
    """Share of the answers with every component at 1."""
    rewarded_chains: float
    spread: float
    """Share of the prompts whose chains differ in their set score."""
    flat_at_zero: float
    """Share of the prompts all of whose chains score 0."""
    unreadable: float
    repeated: float


class Verdict(StrEnum):
    """Whether VPO is worth it, with the answers that the proposer gives now."""

    WORTH = "worth it"
    CHANGE = "worth it after changes"
    NOT = "not worth it"


class Finding(NamedTuple):
    """One thing that was found, in words."""

    allows: Verdict
    """The best verdict that it leaves; with `WORTH` it is only good to know."""
    text: str
    advice: str = ""
    """What to do about it; empty where there is nothing to do."""


class Advice(NamedTuple):
    """Settings to train with."""

    groups: Groups
    """Of the sample's components: each is in one group. As many as components: nothing to group."""
    alpha: float
    """With these groups."""
    ungrouped_alpha: float
    """For whoever leaves the components as they are."""
    answers: int
    """m, in a chain."""
    rollouts: int
    """G, of a prompt."""
    scores: Scores
    """With these groups and this alpha."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that there is to say about a sample."""

    sample: Sample
    figures: Figures
    correlation_D_D: Floats  # noqa: N815
    """NaN where a component does not vary."""
    order: tuple[int, ...]
    """The components: those that behave alike side by side, those that do not vary last."""
    advice: Advice
    findings: tuple[Finding, ...]
    """What weighs most comes first."""

    @property
    def verdict(self) -> Verdict:
        """The best that all findings allow."""
        allowed = {finding.allows for finding in self.findings}
        return next(
            (verdict for verdict in (Verdict.NOT, Verdict.CHANGE) if verdict in allowed), Verdict.WORTH
        )


# ---------------------------------------------------------------- what was judged


def take_sample(problem: Problem, groups: Iterable[Group]) -> Sample:
    """Return the sample that judged groups of a problem hold; chains with a sandbox fault are left out."""
    pools: list[tuple[Floats, ...]] = []
    different: dict[str, Floats] = {}
    slots = unreadable = repeated = faulty = answers = 0
    for group in groups:
        chains = []
        answers = max(answers, group.prompt.answers)
        for rows, programs, is_valid in zip(
            group.rewards_G_M_D, group.programs_G_M, group.valid_G, strict=True
        ):
            if not is_valid:
                faulty += 1
                continue
            rewards_M_D = grouped(problem, rows)  # noqa: N806
            chains.append(rewards_M_D)
            slots += len(programs)
            for program, rewards in zip(programs, rewards_M_D, strict=True):
                unreadable += program is None
                repeated += program in different
                if program is not None:
                    # A repeat within its chain is a row of zeros, whatever the program earns.
                    different[program] = np.maximum(rewards, different.get(program, 0.0))
        if chains:
            pools.append(tuple(chains))
    names = component_names(problem)
    own = problem.groups or tuple((index,) for index in range(len(problem.objectives)))
    return Sample(
        names=names,
        members=tuple(tuple(problem.objectives[index].name for index in group) for group in own),
        pools=tuple(pools),
        different_N_D=np.array(list(different.values())).reshape(len(different), len(names)),
        answers=answers,
        slots=slots,
        unreadable=unreadable,
        repeated=repeated,
        faulty=faulty,
    )


# ---------------------------------------------------------------- figures


def effective_rank(answers_N_D: Floats) -> float:  # noqa: N803
    """Return in how many different ways N answers differ, a real number from 1 to D.

    The participation ratio of the eigenvalues of the correlation matrix, (Σ λ)² / Σ λ² (Gao et al. 2017, "A
    theory of multineuronal dimensionality, dynamics and measurement"): D for uncorrelated components, 1
    for copies of one, n for n equal groups of copies. Of the correlation and not the covariance matrix, so
    that it says how the components relate and not how often today's answers pass each. Components that do
    not vary are left out; 0 if none does.
    """
    correlation_D_D = correlations(answers_N_D)  # noqa: N806
    varying = np.flatnonzero(~np.isnan(np.diagonal(correlation_D_D)))
    squares = float((correlation_D_D[np.ix_(varying, varying)] ** 2).sum())
    return len(varying) ** 2 / squares if len(varying) else 0.0


def weightings(components: int, alpha: float = 1.0) -> Floats:
    """Return about a thousand fixed weightings `[K, D]` from Dirichlet(alpha, ..., alpha).

    With each of them come its cyclic shifts. So every component has exactly the same total weight, and
    the mean over K of a maximum is never below the maximum of the means.
    """
    draws = np.random.default_rng(0).dirichlet(np.full(components, alpha), -(-_WEIGHTINGS // components))
    return np.concatenate([np.roll(draws, shift, axis=1) for shift in range(components)])


def set_scores(sets_S_m_D: Sequence[Floats], weights_K_D: Floats) -> SetScores:  # noqa: N803
    """Return the scores of S sets, each of one or more answers `[m, D]`."""
    means = np.array([rewards.mean(axis=1).max() for rewards in sets_S_m_D])
    expected = np.array([(rewards @ weights_K_D.T).max(axis=0).mean() for rewards in sets_S_m_D])
    unions = np.array([rewards.max(axis=0).mean() for rewards in sets_S_m_D])
    return SetScores(len(sets_S_m_D), float(means.mean()), float(expected.mean()), float(unions.mean()))


def random_sets(pools: Sequence[Sequence[Floats]], size: int = SET_SIZE) -> list[Floats]:
    """Return about two thousand seeded sets of `size` answers to one prompt, as many of every prompt.

    Of a prompt with fewer answers, the set of them all.
    """
    rng = np.random.default_rng(0)
    each = -(-_SETS // len(pools))
    sets: list[Floats] = []
    for chains in pools:
        rewards = np.concatenate(chains)
        order = rng.random((each, len(rewards))).argsort(axis=1)[:, :size]
        sets += list(rewards[order])
    return sets


def best_set(answers_N_D: Floats, weights_K_D: Floats, size: int = SET_SIZE) -> Floats:  # noqa: N803
    """Return up to `size` different answers `[m, D]` that score high together, fewer where more add nothing.

    Chosen one by one, each to raise E_w max w·r most, beginning with the highest mean. That is at least
    63 % of the best there is, because the score of a set is submodular (Nemhauser, Wolsey and Fisher 1978).
    """
    rows = np.unique(answers_N_D, axis=0)
    scores_N_K = rows @ weights_K_D.T  # noqa: N806
    chosen: list[int] = []
    reached = np.zeros(len(weights_K_D))
    for _ in range(min(size, len(rows))):
        together_N = np.maximum(scores_N_K, reached).mean(axis=1)  # noqa: N806
        best = int(together_N.argmax())
        if chosen and together_N[best] <= reached.mean() + 1e-12:
            break
        chosen.append(best)
        reached = np.maximum(reached, scores_N_K[best])
    found: Floats = rows[chosen]
    return found


def score_sets(sample: Sample, groups: Groups, alpha: float) -> Scores:
    """Return how sets of answers score with a grouping of the sample's components."""
    weights = weightings(len(groups), alpha)
    pools = [[group_rewards(chain, groups) for chain in pool] for pool in sample.pools]
    best = best_set(group_rewards(sample.different_N_D, groups), weights)
    chains = [chain for pool in pools for chain in pool] if sample.answers > 1 else None
    return Scores(
        chains=None if chains is None else set_scores(chains, weights),
        random=set_scores(random_sets(pools), weights),
        prompts=set_scores([np.concatenate(pool) for pool in pools], weights),
        best=set_scores([best], weights),
    )


def measure(sample: Sample) -> Figures:
    """Return the figures of a sample, which holds at least one program."""
    answers_N_D = sample.different_N_D  # noqa: N806
    correlation_D_D = correlations(answers_N_D)  # noqa: N806
    pairs = correlation_D_D[np.triu_indices(len(sample.names), 1)]
    pairs = pairs[~np.isnan(pairs)]
    slots_S_D = np.concatenate([chain for pool in sample.pools for chain in pool])  # noqa: N806
    weights = weightings(len(sample.names))
    chain_scores = [
        np.array([(chain @ weights.T).max(axis=0).mean() for chain in pool]) for pool in sample.pools
    ]
    copies: dict[bytes, list[int]] = {}
    for index in np.flatnonzero(np.ptp(answers_N_D, axis=0) > 0):
        copies.setdefault(answers_N_D[:, index].tobytes(), []).append(int(index))
    return Figures(
        rank=effective_rank(answers_N_D),
        correlation=float(pairs.mean()) if pairs.size else None,
        mean_rewards=tuple(map(float, answers_N_D.mean(axis=0))),
        dead=tuple(map(int, np.flatnonzero((answers_N_D == 0).all(axis=0)))),
        saturated=tuple(map(int, np.flatnonzero((answers_N_D == 1).all(axis=0)))),
        copies=tuple(tuple(group) for group in copies.values() if len(group) > 1),
        scores=score_sets(sample, tuple((index,) for index in range(len(sample.names))), 1.0),
        rewarded=float((slots_S_D > 0).any(axis=1).mean()),
        right=float((slots_S_D == 1).all(axis=1).mean()),
        rewarded_chains=float(np.mean(np.concatenate(chain_scores) > 0)),
        spread=float(np.mean([scores.std() >= _EPSILON for scores in chain_scores])),
        flat_at_zero=float(np.mean([scores.max() == 0 for scores in chain_scores])),
        unreadable=sample.unreadable / sample.slots,
        repeated=sample.repeated / sample.slots,
    )


# ---------------------------------------------------------------- what follows


def fitting_alpha(answers_N_D: Floats) -> float:  # noqa: N803
    """Return the alpha whose weightings spread as those of Dirichlet(1) over `effective_rank` components do.

    The weighted difference of two answers, w·(r - r'), has over the weightings the variance
    Var_i(r_i - r'_i) / (D alpha + 1), where Var_i is taken over the components. That depends on the sum D
    alpha alone, which for Dirichlet(1) over n components is n: hence alpha = n / D, 1 at most. For n equal
    groups of copies it is exact, because weights aggregate. D counts the components that vary. One digit:
    nobody has published what alpha does.
    """
    varying = int((np.ptp(answers_N_D, axis=0) > 0).sum())
    alpha = effective_rank(answers_N_D) / varying if varying else 1.0
    return round(alpha, 1) if alpha >= 0.1 else float(f"{alpha:.1g}")


def advise(sample: Sample, figures: Figures) -> Advice:
    """Return the settings to train with."""
    groups = behavioural_groups(sample.different_N_D)
    answers_N_C = group_rewards(sample.different_N_D, groups)  # noqa: N806
    alpha = fitting_alpha(answers_N_C)
    rollouts = max(len(pool) for pool in sample.pools)
    if rollouts == 1:
        rollouts = GROUP_SIZE
    if figures.flat_at_zero > 0.5 and 0 < figures.rewarded_chains < 1:
        # A chain earns something with probability p; (1 - p)^G = 1/4 leaves one group in four without any.
        needed = math.log(0.25) / math.log(1 - figures.rewarded_chains)
        rollouts = min(MOST_ROLLOUTS, max(rollouts, math.ceil(needed)))
    return Advice(
        groups=groups,
        alpha=alpha,
        ungrouped_alpha=fitting_alpha(sample.different_N_D),
        # n specialists cover n behaviours; a larger set has nothing to add.
        answers=min(SET_SIZE, max(2, math.ceil(effective_rank(answers_N_C) - 0.5))),
        rollouts=rollouts,
        scores=score_sets(sample, groups, alpha),
    )


def diagnose(sample: Sample) -> Diagnosis:
    """Return what a sample says about training on its vector. It holds at least one program."""
    figures = measure(sample)
    advice = advise(sample, figures)
    correlation_D_D = correlations(sample.different_N_D)  # noqa: N806
    varying = [index for index, value in enumerate(np.diagonal(correlation_D_D)) if not np.isnan(value)]
    tree = merge_tree(correlation_D_D[np.ix_(varying, varying)])
    leaves = tree[-1].left + tree[-1].right if tree else tuple(range(len(varying)))
    order = [varying[index] for index in leaves]
    order += [index for index in range(len(sample.names)) if index not in order]
    rank = list(Verdict)[::-1]
    return Diagnosis(
        sample=sample,
        figures=figures,
        correlation_D_D=correlation_D_D,
        order=tuple(order),
        advice=advice,
        findings=tuple(
            sorted(_findings(sample, figures, advice), key=lambda finding: rank.index(finding.allows))
        ),
    )


def _findings(sample: Sample, figures: Figures, advice: Advice) -> Iterator[Finding]:
    """Yield what there is to say, of equal weight in the order of what to see to first."""
    yield from _about_answers(sample, figures, advice)
    if len(sample.names) == 1:
        yield Finding(
            Verdict.NOT,
            "the vector has one component: VPO is then best-of-m of a number",
            "split the reward into components, or train with --objective max-at-k",
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
    if sample.answers == 1:
        yield Finding(
            Verdict.CHANGE,
            "these completions hold one answer each, and VPO trains on chains of several",
            f"search with --set search.answers={advice.answers}",
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
    now, advised = figures.scores, advice.scores
    if figures.correlation is not None and figures.correlation >= COLLINEAR:
        yield Finding(
            Verdict.NOT,
            f"the components are near-collinear (mean correlation {figures.correlation:.2f}): all weightings"
            " prefer the same answers, and VPO cannot help",
            "train with --objective grpo or max-at-k, or find components that disagree",
        )
        return
    single = max(now.headroom, advised.headroom)
    whole = max(now.prompts.headroom, advised.prompts.headroom)
    if max(now.best.headroom, advised.best.headroom) < SMALLEST_HEADROOM:
        best = f"no {SET_SIZE} answers that were seen earn more together than the best one alone"
        if now.best.best_mean == 1:
            best = "an answer has every component at 1 already"
        if max(single, whole) < SMALLEST_HEADROOM:
            yield Finding(
                Verdict.NOT,
                f"{best}, and among the answers to a prompt the best mean is best under nearly all weightings"
                f" (headroom {whole:+.3f})",
                "search on and look again, train on other problems, or with --objective grpo or max-at-k",
            )
            return
        yield Finding(Verdict.WORTH, f"{best}: sets of answers help on the way there, not beyond")
    is_needed = count > MOST_COMPONENTS or now.headroom < SMALLEST_HEADROOM <= advised.headroom
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
            "group them as below, so that each behaviour counts once, or train with --set"
            f" objective.alpha={advice.ungrouped_alpha:g}",
        )
    if single < SMALLEST_HEADROOM:
        yield Finding(
            Verdict.CHANGE,
            f"single chains have a headroom of {single:+.3f}: what VPO rewards in them is hardly more than"
            f" their best mean; all answers to a prompt together have {whole:+.3f}",
            "train with --objective vpo-at-c, whose sets are several chains"
            if whole >= SMALLEST_HEADROOM
            else f"sample more than {advice.rollouts} completions a prompt (search.rollouts), and look again",
        )


def percent(share: float) -> str:
    """Return a share in percent; only nothing is written as 0 %."""
    return "under 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")
