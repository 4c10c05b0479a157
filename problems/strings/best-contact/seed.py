def solve(mobile, home, email):
    return mobile
