"""Batches of searches, and parts shared with studies: files, cells, processes, results, intervals."""
