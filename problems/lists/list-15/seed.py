def solve(xs):
    return list(xs)
