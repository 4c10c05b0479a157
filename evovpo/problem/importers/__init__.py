"""Converts tables, and tasks of public programming benchmarks, to problem folders."""
