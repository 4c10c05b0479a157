"""Converts tasks of public programming benchmarks to problem folders."""
