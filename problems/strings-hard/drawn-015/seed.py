def solve(text, other, third):
    return text
