"""Unmodified OpenEvolve projects as problems: directories, metrics, configuration files and checkpoints."""
