def solve(first, birth_name, last):
    return first
