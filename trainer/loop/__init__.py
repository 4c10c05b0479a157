"""Retrain, publish, probe, roll back; search and training in turns."""
