"""What training with each objective could bring: a prediction from the judged answers of some prompts.

The policy of a prompt is taken to be the answers seen, each as likely as it was frequent. Training with an
objective makes an answer likelier by the credit that it gets there: its expected share in what a set of k
answers is worth. A policy that is moved a given way along that credit is then measured as any other: how good
the best of k answers is under random weightings (E_w best@k), and how often two of k are together right
everywhere (pair@k). So an objective pays where k answers have headroom over one, and where different answers
are good at different things, whether they came in one completion or in several.

It is a prediction of direction and rank, not of size: only answers that were seen can become likelier, the
way is the same for every problem, and nothing is said of what carries over to other problems.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.grouping import Floats

BUDGET = 8
"""k, answers in a set."""
SMALLEST_GAIN = 0.01
"""Smaller gains, in both figures, are no reason to train."""
_STEPS = 8
"""Between them credit is worked out anew; together they move the log-probability of an answer whose credit is
one standard deviation above the mean by 1."""
_WEIGHTINGS = 32
_SETS = 256
_MOST_PROMPTS = 32
"""Prompts looked at, evenly spread, so that a long run takes seconds."""


class Gain(NamedTuple):
    """Two figures of k answers, or how training changes them: means over prompts."""

    expected_best: float
    """E_w max w·r over weightings from Dirichlet(1)."""
    pair: float
    """The probability that two of the answers, or one, are together right on every component."""


class Prediction(NamedTuple):
    """What training could bring, by objective."""

    prompts: int
    now: Gain
    """The two figures before."""
    gains: dict[str, Gain]
    """By objective, in the order of preference where they gain alike."""

    @property
    def objective(self) -> str | None:
        """The objective to train with; `None` if none gains anything, so that there is nothing to learn.

        Of those that gain most in E_w best@k, but for a twentieth, those that gain most in pair@k, but for as
        much; of these grpo, then vpo-at-k, whose weightings count once a scalar saturates, then the others.
        """
        best = dict(self.gains)
        for figure in (0, 1):
            most = max(gain[figure] for gain in best.values())
            best = {
                name: gain for name, gain in best.items() if gain[figure] >= most - max(abs(most) / 20, 0.005)
            }
        name = next(iter(best))
        return name if max(self.gains[name]) >= SMALLEST_GAIN else None


def predict(pools: Sequence[Sequence[Floats]], k: int = BUDGET) -> Prediction:
    """Return what training on P prompts could bring, given of each the rewards `[m, D]` of its completions.

    The pools of a `Sample`, or for each group the `TrainingGroup.rewards` of the trainer. Prompts may differ
    in D. The same pools give the same prediction. Raises `ValueError` without any prompt.
    """
    places = np.unique(np.linspace(0, len(pools) - 1, _MOST_PROMPTS).astype(int))
    found = [_Prompt(np.concatenate([*pools[place]]), k) for place in places]
    now = [prompt.figures(prompt.start) for prompt in found]
    gains = {}
    for name in OBJECTIVES:
        after = [prompt.figures(prompt.trained(OBJECTIVES[name](prompt))) for prompt in found]
        gains[name] = Gain(*map(float, np.mean(after, axis=0) - np.mean(now, axis=0)))
    return Prediction(len(found), Gain(*map(float, np.mean(now, axis=0))), gains)


_Credit = Callable[[Floats], Floats]
"""From the probabilities `[N]` of N answers to their credit `[N]`."""


class _Prompt:
    """The different answers to one prompt, N of them."""

    def __init__(self, rewards: Floats, k: int) -> None:
        self.k, self.rolled = k, len(rewards)
        self.rewards, counts = np.unique(rewards, axis=0, return_counts=True)
        self.start: Floats = counts / counts.sum()
        joins = np.maximum(self.rewards[:, None], self.rewards)
        self.joins: Floats = joins.mean(axis=2)
        self.is_right = np.all(joins >= 1.0, axis=2)
        rng = np.random.default_rng(0)
        self.weights = rng.dirichlet(np.ones(rewards.shape[1]), _WEIGHTINGS)
        self._uniform = rng.random((_SETS, k))

    def figures(self, p: Floats) -> Gain:
        """Return what k answers are worth that a policy writes independently of each other."""
        values = self.rewards @ self.weights.T
        order = values.argsort(axis=0)
        below = np.cumsum(p[order], axis=0) ** self.k
        at = np.diff(below, axis=0, prepend=0.0)
        sets = self._drawn(p)
        pairs = np.any(self.is_right[sets[:, :, None], sets[:, None, :]], axis=(1, 2))
        best = (np.take_along_axis(values, order, axis=0) * at).sum(axis=0)
        return Gain(float(best.mean()), float(pairs.mean()))

    def trained(self, credit: _Credit) -> Floats:
        """Return the policy after training by a credit."""
        p = self.start
        for _ in range(_STEPS):
            gained = credit(p)
            gained = gained - p @ gained
            spread = np.sqrt(p @ gained**2)
            if spread < 1e-9:
                break
            p = p * np.exp(gained / spread / _STEPS)
            p = p / p.sum()
        return p

    def best_of(self, weights: Floats, k: int) -> _Credit:
        """Return the credit of max@k under weightings: E_w E max of an answer and k - 1 others."""
        values = self.rewards @ weights.T
        order = values.argsort(axis=0)
        ascending = np.take_along_axis(values, order, axis=0)

        def credit(p: Floats) -> Floats:
            # Of ascending values v, with F_j = P(max of k - 1 ≤ v_j): v_i F_i + Σ_{j>i} v_j (F_j - F_{j-1}).
            below = np.cumsum(p[order], axis=0) ** (k - 1)
            above = np.diff(below, axis=0, prepend=0.0) * ascending
            own = ascending * below + np.cumsum(above[::-1], axis=0)[::-1] - above
            found = np.empty_like(own)
            np.put_along_axis(found, order, own, axis=0)
            return np.asarray(found.mean(axis=1))

        return credit

    def best_join(self, p: Floats) -> Floats:
        """Return the credit of the best join of an answer and k - 1 others, over drawn sets of these."""
        sets = self._drawn(p)[:, 1:]
        others = self.joins[sets[:, :, None], sets[:, None, :]].max(axis=(1, 2), initial=0.0)
        own = np.maximum(self.joins[:, sets].max(axis=2, initial=0.0), self.joins.diagonal()[:, None])
        return np.asarray(np.maximum(own, others).mean(axis=1))

    def _drawn(self, p: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
        """Return sets of k answers, drawn from a policy by the same numbers each time."""
        return np.minimum(np.searchsorted(np.cumsum(p), self._uniform), len(p) - 1)


def _mean(prompt: _Prompt) -> Floats:
    return np.full((1, prompt.rewards.shape[1]), 1 / prompt.rewards.shape[1])


OBJECTIVES: dict[str, Callable[[_Prompt], _Credit]] = {
    "grpo": lambda prompt: prompt.best_of(_mean(prompt), 1),
    "vpo-at-k": lambda prompt: prompt.best_of(prompt.weights, prompt.k),
    "max-at-k": lambda prompt: prompt.best_of(_mean(prompt), prompt.k),
    "union-at-k": lambda prompt: prompt.best_of(np.eye(prompt.rewards.shape[1]), prompt.k),
    "join-at-k": lambda prompt: prompt.best_join,
    "rosa": lambda prompt: prompt.best_of(prompt.weights, prompt.rolled),
}
"""The credit of each objective for single answers, by the name that the trainer knows it by."""
