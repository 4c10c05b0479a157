"""Sums of radii of packings, checked in exact arithmetic. Programs never see this file.

A float is a fraction whose denominator is a power of two, so all numbers of a packing become integers
over one common denominator, and every comparison below is a comparison of integers: no tolerance, no
rounding.
"""

import itertools

BEST = {22: 2.420203, 24: 2.529107, 26: 2.63598308, 29: 2.790344, 32: 2.93952}
"""Number of circles -> best known sum of radii; docs/problems-math.md has the sources."""
HEADROOM = 1.02
"""Reward 1 lies at this multiple of the best known sum, so that a new record still shows."""


def cases():
    return [[n] for n in BEST]


def packing_sum(circles, n):
    """Return (sum of radii, "") of n circles in the unit square, or (0.0, what is wrong)."""
    if not isinstance(circles, list) or len(circles) != n:
        found = f"{len(circles)} of them" if isinstance(circles, list) else type(circles).__name__
        return 0.0, f"expected a list of {n} circles, found {found}"
    for index, circle in enumerate(circles):
        if not isinstance(circle, list) or len(circle) != 3:
            return 0.0, f"circle {index}: expected [x, y, radius], found {circle!r:.60}"
        for value in circle:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                return 0.0, f"circle {index}: expected numbers from 0 to 1, found {value!r:.60}"
    ratios = [value.as_integer_ratio() for circle in circles for value in circle]
    one = max(denominator for _, denominator in ratios)  # all are powers of two
    numbers = [numerator * (one // denominator) for numerator, denominator in ratios]
    exact = list(zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))
    for index, (x, y, radius) in enumerate(exact):
        outside = radius - min(x, y, one - x, one - y)
        if outside > 0:
            return 0.0, f"circle {index} leaves the square by {outside / one:.3g}"
    for (i, (x, y, r)), (j, (u, v, s)) in itertools.combinations(enumerate(exact), 2):
        apart = (x - u) ** 2 + (y - v) ** 2
        if apart < (r + s) ** 2:
            gap = ((r + s) ** 2 - apart) / one**2
            return 0.0, f"circles {i} and {j} overlap: squared distance too small by {gap:.3g}"
    return sum(radius for _, _, radius in exact) / one, ""


def score(outputs):
    """Rewards, and what to tell about the packings."""
    rewards, lines = {}, []
    for output, (n, best) in zip(outputs, BEST.items(), strict=True):
        total, fault = packing_sum(output, n)
        rewards[f"circles-{n}"] = min(1.0, total / (HEADROOM * best))
        lines.append(f"n = {n}: {fault or f'sum of radii {total:.9f}, best known {best}'}")
    return rewards, "\n".join(lines)
