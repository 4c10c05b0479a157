"""Builds cap sets greedily from priorities, so that every size counted is that of a real cap set."""

import itertools

import numpy as np

BEST = {3: 9, 4: 20, 5: 45, 6: 112, 7: 236, 8: 512}
"""Dimension -> largest known cap set; docs/problems-math.md has the sources."""
PROVEN = (3, 4, 5, 6)
"""Dimensions in which it is proven to be the largest; there reward 1 lies at it, elsewhere 2 % above."""


def elements(n):
    return [list(vector) for vector in itertools.product((0, 1, 2), repeat=n)]


def cases():
    return [[elements(n), n] for n in BEST]


def cap_set(priorities, n):
    """Return (the vectors taken, "") or ([], what is wrong)."""
    if not isinstance(priorities, list) or len(priorities) != 3**n:
        found = f"{len(priorities)} of them" if isinstance(priorities, list) else type(priorities).__name__
        return [], f"expected a list of {3**n} priorities, found {found}"
    for index, value in enumerate(priorities):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not -1e308 <= value <= 1e308:
            return [], f"priority {index}: expected a number from -1e308 to 1e308, found {value!r:.60}"
    vectors = np.array(elements(n))
    powers = 3 ** np.arange(n - 1, -1, -1)
    is_blocked = np.zeros(3**n, dtype=bool)
    taken = []
    # The sort keeps the order of equal priorities.
    for index in sorted(range(3**n), key=priorities.__getitem__, reverse=True):
        if not is_blocked[index]:
            # With each vector taken before, this one forbids the third that makes their sum zero.
            is_blocked[-(vectors[taken] + vectors[index]) % 3 @ powers] = True
            taken.append(index)
    return vectors[taken].tolist(), ""


def score(outputs):
    """Rewards, and what to tell about the sizes."""
    rewards, lines = {}, []
    for priorities, (n, best) in zip(outputs, BEST.items(), strict=True):
        taken, fault = cap_set(priorities, n)
        rewards[f"dimension-{n}"] = min(1.0, len(taken) / (best if n in PROVEN else 1.02 * best))
        lines.append(f"n = {n}: {fault or f'size {len(taken)}, best known {best}'}")
    return rewards, "\n".join(lines)
