def solve(street):
    return street
