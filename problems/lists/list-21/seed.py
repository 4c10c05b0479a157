def solve(xs):
    return sum(xs)
