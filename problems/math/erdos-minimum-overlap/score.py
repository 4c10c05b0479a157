"""Overlaps of a step function, in exact integer arithmetic. Programs never see this file.

Heights are rounded to multiples of 2**-40, and the rounded ones are the function that is judged. Between
two neighbouring shifts by whole steps the overlap is linear in the shift, so its largest value over all
shifts is among those computed here; only at a band's end between two of them is a float interpolated.
"""

UNIT = 1 << 40
MOST_STEPS = 2000
BEST = 0.3808753
"""Smallest known overlap; docs/problems-math.md has the source."""
BOUND = 0.379005
"""Proven: no function has a smaller one (White 2022, arXiv 2201.05704). Reward 1 lies here."""
BANDS = {f"band-{number + 1}": (number / 4 - 1, number / 4 - 0.75) for number in range(8)}
"""Name -> interval of shifts."""


def cases():
    return [[MOST_STEPS]]


def rounded(output):
    """Return (heights in units, "") or (None, what is wrong)."""
    if not isinstance(output, list) or not 1 <= len(output) <= MOST_STEPS:
        found = f"{len(output)} of them" if isinstance(output, list) else type(output).__name__
        return None, f"expected a list of 1 to {MOST_STEPS} heights, found {found}"
    for index, height in enumerate(output):
        if isinstance(height, bool) or not isinstance(height, (int, float)) or not 0 <= height <= 1:
            return None, f"height {index}: expected a number from 0 to 1, found {height!r:.60}"
    return [round(height * UNIT) for height in output], ""


def convolution(first, second):
    """Return the convolution of two lists of non-negative integers, exactly.

    Both become one large integer with room for every sum, and a single multiplication does the rest.
    """
    width = (max(first).bit_length() + max(second).bit_length() + len(first).bit_length()) // 8 + 1
    a, b = (
        int.from_bytes(b"".join(value.to_bytes(width, "little") for value in values), "little")
        for values in (first, second)
    )
    count = len(first) + len(second) - 1
    product = (a * b).to_bytes(count * width, "little")
    return [int.from_bytes(product[i * width : (i + 1) * width], "little") for i in range(count)]


def overlaps(heights):
    """Return the overlap for each shift by whole steps, from -(n - 1) to n - 1, of n heights in units.

    The function becomes one with integral 1 first: where the heights sum to too much they are scaled
    down, where they sum to too little what they leave free below 1 is. The second is the first for the
    complement of the function, whose overlaps are the same in reverse order.
    """
    n, total = len(heights), sum(heights)
    if 2 * total < n * UNIT:
        return overlaps([UNIT - height for height in heights])[::-1]
    products = convolution(heights[::-1], heights)
    inside, covered = [], 0
    for height in heights:
        covered += height
        inside.append(covered)
    # Of shift k, sums over the steps i with 0 <= i + k < n: heights[i] and heights[i] * heights[i + k].
    sums = [inside[n - 1] - (inside[-k - 1] if k < 0 else 0) for k in range(1 - n, 1)]
    sums += [inside[n - 1 - k] for k in range(1, n)]
    return [(2 * total * s - n * p) / (2 * total * total) for s, p in zip(sums, products, strict=True)]


def largest(values, low, high):
    """Return the largest overlap for shifts from `low` to `high`, where steps are 2 / n wide."""
    n = (len(values) + 1) // 2
    ends = [shift * n / 2 for shift in (low, high)]
    inside = [value for k, value in enumerate(values, start=1 - n) if ends[0] <= k <= ends[1]]
    return max(inside + [between(values, end + n - 1) for end in ends])


def between(values, place):
    """Return the overlap at a place in the list that need not be whole; outside it is 0."""
    whole = int(place // 1)
    left, right = (values[i] if 0 <= i < len(values) else 0.0 for i in (whole, whole + 1))
    return left + (place - whole) * (right - left)


def measured(output):
    """Return (largest overlap by name, "") or ({}, what is wrong)."""
    heights, fault = rounded(output)
    if heights is None:
        return {}, fault
    values = overlaps(heights)
    found = {"overall": max(values)}
    found |= {name: largest(values, low, high) for name, (low, high) in BANDS.items()}
    found["beyond"] = max(largest(values, -2.0, -1.0), largest(values, 1.0, 2.0))
    return found, ""


def score(outputs):
    """Rewards, and what to tell about the function."""
    found, fault = measured(outputs[0])
    if fault:
        return dict.fromkeys(["overall", *BANDS, "beyond"], 0.0), fault
    bands = ", ".join(f"{name} {value:.6f}" for name, value in found.items() if name != "overall")
    text = f"largest overlap {found['overall']:.9f}, best known {BEST}; by band of shifts: {bands}"
    return {name: BOUND / max(value, BOUND) for name, value in found.items()}, text
