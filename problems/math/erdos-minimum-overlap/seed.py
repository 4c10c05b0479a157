"""The constant function. Its largest overlap is 1/2.

Rewards: overall 0.758, band-1 1.000, band-2 1.000, band-3 0.866, band-4 0.758, band-5 0.758, band-6
0.866, band-7 1.000, band-8 1.000, beyond 1.000.
"""


def heights(most_steps):
    return [0.5] * 40
