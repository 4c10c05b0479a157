def solve(line, key):
    return line
