def solve(date):
    return date
