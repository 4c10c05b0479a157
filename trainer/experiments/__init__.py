"""Studies and recipes: files that define models to train and compare. Each model is called an arm."""
