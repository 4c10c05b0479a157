"""Training on stored runs: retrain, compare, publish and roll back; loops of search and training."""
