"""Batches of searches: TOML files, processes, results and intervals. `trainer/experiments` uses this code."""
