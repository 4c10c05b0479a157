"""Training on stored runs, publication of new policy versions, and loops of search and training."""
