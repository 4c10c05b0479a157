"""Studies and recipes: arms that are trained, searched with and compared, from a file."""
