"""Recipes of the paper (`paper/`), and how a model is taught to read parents; imported by nothing else."""
