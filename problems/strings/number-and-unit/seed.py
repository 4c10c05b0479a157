def solve(quantity):
    return quantity
