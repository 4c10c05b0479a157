"""The autoconvolution of a step function, in exact integer arithmetic. Programs never see this file.

Heights are rounded to multiples of 2**-40 of the largest, and the rounded ones are the function that is
judged. The autoconvolution is linear between multiples of the step width, so its largest value over all t
is among those computed here; only at a band's end between two of them is a float interpolated.
"""

import math

UNIT = 1 << 40
MOST_STEPS = 5000
BEST = 1.502863
"""Smallest known value; docs/problems-math.md has the source."""
TARGET = BEST / 1.02
"""Reward 1 lies here, so that a new record still shows."""
BANDS = [f"band-{number}" for number in range(1, 9)]
"""Eighths of the range of t, from -1/2 to 1/2."""


def cases():
    return [[MOST_STEPS]]


def rounded(output):
    """Return (heights in units, "") or (None, what is wrong)."""
    if not isinstance(output, list) or not 1 <= len(output) <= MOST_STEPS:
        found = f"{len(output)} of them" if isinstance(output, list) else type(output).__name__
        return None, f"expected a list of 1 to {MOST_STEPS} heights, found {found}"
    for index, height in enumerate(output):
        is_number = isinstance(height, (int, float)) and not isinstance(height, bool)
        if not is_number or not 0 <= height <= 1e100:
            return None, f"height {index}: expected a number from 0 to 1e100, found {height!r:.60}"
    peak = max(output)
    if peak == 0:
        return None, "all heights are 0"
    heights = [round(height / peak * UNIT) for height in output]
    return heights, ""


def autoconvolution(heights):
    """Return the convolution of a list of integers with itself, exactly.

    The list becomes one large integer with room for every sum, and a single multiplication does the rest.
    """
    width = (2 * UNIT.bit_length() + len(heights).bit_length()) // 8 + 1
    number = int.from_bytes(b"".join(height.to_bytes(width, "little") for height in heights), "little")
    count = 2 * len(heights) - 1
    product = (number * number).to_bytes(count * width, "little")
    return [int.from_bytes(product[i * width : (i + 1) * width], "little") for i in range(count)]


def largest_by_band(output):
    """Return (largest value by name, "") or ({}, what is wrong); the integral of f is made 1."""
    heights, fault = rounded(output)
    if heights is None:
        return {}, fault
    n, square = len(heights), sum(heights) ** 2
    values = [0.0, *(2 * n * value / square for value in autoconvolution(heights)), 0.0]
    found = {"overall": max(values)}
    for number, name in enumerate(BANDS):
        first, last = number * n / 4, (number + 1) * n / 4
        inside = [values[place] for place in range(math.ceil(first), math.floor(last) + 1)]
        found[name] = max([*inside, between(values, first), between(values, last)])
    return found, ""


def between(values, place):
    """Return the value at a place in the list that need not be whole."""
    left, right = values[math.floor(place)], values[math.ceil(place)]
    return left + (place - math.floor(place)) * (right - left)


def score(outputs):
    """Rewards, and what to tell about the function."""
    found, fault = largest_by_band(outputs[0])
    if fault:
        return dict.fromkeys(["overall", *BANDS], 0.0), fault
    bands = ", ".join(f"{name} {value:.6f}" for name, value in found.items() if name != "overall")
    text = f"largest value {found['overall']:.9f}, best known {BEST}; by band of t: {bands}"
    return {name: TARGET / max(value, TARGET) for name, value in found.items()}, text
