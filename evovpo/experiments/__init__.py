"""Batches: problems x proposers x strategies x budgets x seeds, each cell an ordinary run in one store.

`plan` reads a batch and finds all that is wrong with it, `workers` runs the cells, `progress` shows where
they stand, `results` reads what came out, `page` writes it as HTML and CSV. Importing this package loads
nothing.
"""
