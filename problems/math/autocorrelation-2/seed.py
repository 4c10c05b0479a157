"""The constant function. Its autoconvolution is a triangle, with ratio 2/3.

Rewards: steps-50 0.680, steps-200 0.680, steps-1000 0.680.
"""


def heights(steps):
    return [1.0] * steps
