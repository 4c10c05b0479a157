def solve(seat):
    return seat
