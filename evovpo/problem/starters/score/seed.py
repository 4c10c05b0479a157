"""A starting program: it must run, it need not be good."""


def solve(x):
    return (x + 1) / 2
