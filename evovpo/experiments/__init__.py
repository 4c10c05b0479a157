"""Batches of searches, and code that studies use too: TOML files, processes, results and intervals."""
