"""The maze start model and the maze problems, from scratch."""
