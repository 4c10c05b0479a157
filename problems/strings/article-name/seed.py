def solve(line):
    return line
