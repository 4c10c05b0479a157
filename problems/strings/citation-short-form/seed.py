def solve(reference):
    return reference
