"""A starting program: it must run, but need not be good."""


def solve(x):
    return (x + 1) / 2
