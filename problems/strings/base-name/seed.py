def solve(path):
    return path
