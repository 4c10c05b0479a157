def solve(latitude):
    return latitude
