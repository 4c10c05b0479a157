"""Evaluates programs on problems, on this machine or on Ray."""
