"""The maze start model, from scratch."""
