"""A starting program: it must run, it need not be right."""


def solve(name):
    return name
