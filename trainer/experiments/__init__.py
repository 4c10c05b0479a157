"""Studies and recipes: files that define arms to train, use in searches and compare."""
