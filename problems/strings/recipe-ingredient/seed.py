def solve(ingredient):
    return ingredient
