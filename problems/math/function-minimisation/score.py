"""Values of the statement's formula at the points that a program returns. Programs never see this file."""

import math
import random

HALF_WIDTH = 5.0
"""Coordinates lie between minus this and this."""
HEADROOM = 1.02
"""Reward 1 lies at this multiple of the way from the level to the best known value."""


def waves(rng, count, dimensions, fastest):
    """Return rows of amplitude, phase and one frequency for each coordinate."""
    return [
        [round(rng.uniform(0.5, 2.0), 3), round(rng.uniform(0.0, 6.283), 3)]
        + [round(rng.uniform(-fastest, fastest), 3) for _ in range(dimensions)]
        for _ in range(count)
    ]


def wells(rng, count, dimensions):
    """Return rows of depth, width and the centre."""
    return [
        [round(rng.uniform(2.0, 9.0), 3), round(rng.uniform(0.15, 0.6), 3)]
        + [round(rng.uniform(-4.5, 4.5), 3) for _ in range(dimensions)]
        for _ in range(count)
    ]


def instance(landscape, number):
    """Return [bowl, waves, wells] of one instance, always the same."""
    rng = random.Random(f"{landscape} {number}")
    if landscape == "smooth":
        return [[0.1] * 2, waves(rng, 5, 2, 1.5), []]
    if landscape == "rugged":
        return [[0.1] * 2, waves(rng, 30, 2, 9.0), []]
    if landscape == "wells":
        return [[0.2] * 3, waves(rng, 4, 3, 2.0), wells(rng, 25, 3)]
    if landscape == "stretched":
        return [[0.001, 0.01, 0.1, 1.0], waves(rng, 8, 4, 2.5), []]
    return [[0.1] * 8, waves(rng, 12, 8, 1.2), []]


def value(point, bowl, waves, wells):
    """Return the function of the statement at a point."""
    terms = [weight * x * x for weight, x in zip(bowl, point, strict=True)]
    for amplitude, phase, *frequencies in waves:
        angle = phase + math.fsum(f * x for f, x in zip(frequencies, point, strict=True))
        terms.append(amplitude * math.cos(angle))
    for depth, width, *centre in wells:
        distance = math.fsum((x - c) ** 2 for x, c in zip(point, centre, strict=True))
        terms.append(-depth * math.exp(-distance / width**2))
    return math.fsum(terms)


def level(landscape, number):
    """Return the mean value of an instance over 256 points, drawn once: reward 0 lies here."""
    rng = random.Random(f"{landscape} {number} level")
    case = instance(landscape, number)
    points = [[rng.uniform(-HALF_WIDTH, HALF_WIDTH) for _ in case[0]] for _ in range(256)]
    return math.fsum(value(point, *case) for point in points) / len(points)


BEST = {
    ("smooth", 1): -5.588026916650711,
    ("smooth", 2): -2.9656702694876222,
    ("rugged", 1): -14.261956781014542,
    ("rugged", 2): -19.345490233955204,
    ("wells", 1): -8.003078479692094,
    ("wells", 2): -6.60835451803438,
    ("stretched", 1): -8.972603591579551,
    ("stretched", 2): -7.115657331964445,
    ("many-dimensional", 1): -10.393461270945913,
    ("many-dimensional", 2): -12.938427210201143,
}
"""Best known values; docs/problems-math.md says how they were found."""
LEVEL = {key: level(*key) for key in BEST}


def cases():
    return [instance(*key) for key in BEST]


def reached(point, key):
    """Return (value at the point, "") or (None, what is wrong)."""
    dimensions = len(instance(*key)[0])
    if not isinstance(point, list) or len(point) != dimensions:
        return None, f"expected a list of {dimensions} coordinates, found {point!r:.60}"
    for x in point:
        if isinstance(x, bool) or not isinstance(x, (int, float)) or not -HALF_WIDTH <= x <= HALF_WIDTH:
            return None, f"expected coordinates from {-HALF_WIDTH} to {HALF_WIDTH}, found {x!r:.60}"
    return value(point, *instance(*key)), ""


def score(outputs):
    """Rewards (the mean share over the instances of a landscape), and what to tell about the points."""
    shares, lines = {}, []
    for output, key in zip(outputs, BEST, strict=True):
        found, fault = reached(output, key)
        drop = 0.0 if found is None else LEVEL[key] - found
        share = drop / (HEADROOM * (LEVEL[key] - BEST[key]))
        shares.setdefault(key[0], []).append(min(1.0, max(0.0, share)))
        lines.append(f"{key[0]} {key[1]}: {fault or f'value {found:.6f}, best known {BEST[key]:.6f}'}")
    return {landscape: sum(values) / len(values) for landscape, values in shares.items()}, "\n".join(lines)
