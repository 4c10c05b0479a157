def solve(pages):
    return pages
