def solve(home, away, result):
    return home
