def solve(plate):
    return plate
