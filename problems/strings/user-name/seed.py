def solve(first, last):
    return first
