def solve(post):
    return post
