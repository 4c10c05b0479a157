"""A square grid of equal circles.

Sums of radii: 2.200 for n = 22, 2.400 for 24, 2.167 for 26, 2.417 for 29, 2.667 for 32.
Rewards: circles-22 0.891, circles-24 0.930, circles-26 0.806, circles-29 0.849, circles-32 0.889.
"""


def pack(n):
    side = 1
    while side * side < n:
        side += 1
    radius = (1 - 1e-9) / (2 * side)
    return [[(2 * (i % side) + 1) / (2 * side), (2 * (i // side) + 1) / (2 * side), radius] for i in range(n)]
