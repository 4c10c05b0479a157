def solve(email):
    return email
