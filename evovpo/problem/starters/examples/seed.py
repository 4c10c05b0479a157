"""A starting program: it must run, but need not be right."""


def solve(name):
    return name
