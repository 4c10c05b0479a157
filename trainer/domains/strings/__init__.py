"""Generated string tasks that need a program with a branch."""
