def solve(sku):
    return sku
