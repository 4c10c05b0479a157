def solve(street, unit):
    return street
