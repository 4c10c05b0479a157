def solve(year, number):
    return year
