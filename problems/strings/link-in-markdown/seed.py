def solve(text, url):
    return text
