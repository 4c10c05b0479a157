def solve(product, brand):
    return product
