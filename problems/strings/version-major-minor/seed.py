def solve(version):
    return version
