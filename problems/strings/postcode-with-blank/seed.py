def solve(postcode):
    return postcode
