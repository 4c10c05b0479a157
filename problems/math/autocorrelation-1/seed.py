"""The constant function. Its autoconvolution is a triangle that reaches 2.

Rewards: overall 0.737, band-1 1.000, band-2 1.000, band-3 0.982, band-4 0.737, band-5 0.737, band-6
0.982, band-7 1.000, band-8 1.000.
"""


def heights(most_steps):
    return [1.0] * 40
