def solve(zip):
    return zip
