def solve(phrase):
    return phrase
