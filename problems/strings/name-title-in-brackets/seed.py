def solve(name):
    return name
