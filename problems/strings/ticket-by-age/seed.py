def solve(name, age):
    return name
