def solve(url):
    return url
