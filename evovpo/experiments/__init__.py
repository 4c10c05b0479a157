"""Batches: a grid of cells, each an ordinary run in one store, and their statistics.

A file is read by `reading`, what it says is in `batch`, what is to do in `plan`; `running` runs cells in the
processes of `pool`; `results` says what came out, with the intervals of `intervals`. Studies (in the trainer)
use the same reader, pool, cells and intervals. Importing this package loads nothing.
"""
