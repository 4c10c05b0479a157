"""Starts, drives, resumes, replays and reads runs."""
