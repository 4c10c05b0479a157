"""Batches of searches, and what studies share with them: files, cells, processes, results, intervals."""
