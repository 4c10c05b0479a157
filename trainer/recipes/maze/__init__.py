"""Routes that models for mazes learn from, and a start model that reads parents."""
