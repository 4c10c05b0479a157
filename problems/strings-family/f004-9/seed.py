def solve(text):
    return text
