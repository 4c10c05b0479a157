"""Training routes for maze models, and a start model that reads parents."""
