def solve(file):
    return file
