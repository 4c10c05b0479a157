"""Studies and recipes: files that define models (arms) to train, to use in searches and to compare."""
