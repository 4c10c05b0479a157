def solve(item, price):
    return item
