"""No preference: vectors are taken in the order of the list. Sizes: 2**n.

Rewards: dimension-3 0.889, dimension-4 0.800, dimension-5 0.711, dimension-6 0.571, dimension-7 0.532,
dimension-8 0.490.
"""


def priorities(elements, n):
    return [0.0] * len(elements)
