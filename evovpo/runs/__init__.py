"""Starts, resumes, replays and reads runs."""
