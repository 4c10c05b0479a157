"""Recipes of the VPO paper (`paper/`) and training data of the maze models; imported by nothing else."""
