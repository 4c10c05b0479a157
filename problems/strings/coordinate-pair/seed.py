def solve(lat, lon):
    return lat
