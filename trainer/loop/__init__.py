"""Retrain, publish, probe, roll back; alternate search and training."""
