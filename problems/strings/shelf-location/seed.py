def solve(bin):
    return bin
