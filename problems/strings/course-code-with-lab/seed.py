def solve(code):
    return code
