"""Norms of the autoconvolution of step functions, in exact integer arithmetic. Programs never see this file.

Heights are rounded to multiples of 2**-40 of the largest, and the rounded ones are the function that is
judged. Its autoconvolution is linear between multiples of the step width, so all three norms are exact
fractions of integers; only the last division rounds.
"""

import itertools

UNIT = 1 << 40
STEPS = [50, 200, 1000]
BEST = 0.961021
"""Largest known ratio, with any number of steps; docs/problems-math.md has the source."""
TARGET = 1.02 * BEST
"""Reward 1 lies here, so that a new record still shows."""


def cases():
    return [[steps] for steps in STEPS]


def rounded(output, steps):
    """Return (heights in units, "") or (None, what is wrong)."""
    if not isinstance(output, list) or len(output) != steps:
        found = f"{len(output)} of them" if isinstance(output, list) else type(output).__name__
        return None, f"expected a list of {steps} heights, found {found}"
    for index, height in enumerate(output):
        is_number = isinstance(height, (int, float)) and not isinstance(height, bool)
        if not is_number or not 0 <= height <= 1e100:
            return None, f"height {index}: expected a number from 0 to 1e100, found {height!r:.60}"
    peak = max(output)
    if peak == 0:
        return None, "all heights are 0"
    return [round(height / peak * UNIT) for height in output], ""


def autoconvolution(heights):
    """Return the convolution of a list of non-negative integers with itself, exactly.

    The list becomes one large integer with room for every sum, and a single multiplication does the rest.
    """
    width = (2 * UNIT.bit_length() + len(heights).bit_length()) // 8 + 1
    number = int.from_bytes(b"".join(height.to_bytes(width, "little") for height in heights), "little")
    count = 2 * len(heights) - 1
    product = (number * number).to_bytes(count * width, "little")
    return [int.from_bytes(product[i * width : (i + 1) * width], "little") for i in range(count)]


def ratio(output, steps):
    """Return (the ratio of norms, "") or (0.0, what is wrong)."""
    heights, fault = rounded(output, steps)
    if heights is None:
        return 0.0, fault
    values = [0, *autoconvolution(heights), 0]
    # With steps of width 1: integrals of a function that is linear between the values.
    square = sum(a * a + a * b + b * b for a, b in itertools.pairwise(values))  # times 3
    return square / (3 * sum(values) * max(values)), ""


def score(outputs):
    """Rewards, and what to tell about the functions."""
    rewards, lines = {}, []
    for output, steps in zip(outputs, STEPS, strict=True):
        value, fault = ratio(output, steps)
        rewards[f"steps-{steps}"] = min(1.0, value / TARGET)
        told = fault or f"ratio {value:.9f}, best known {BEST} with any number of steps"
        lines.append(f"{steps} steps: {told}")
    return rewards, "\n".join(lines)
