"""Statistics of rewards, and advice on training. This package reads and writes no files."""
