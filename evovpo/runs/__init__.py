"""One run: open, drive, resume, replay, outcome."""
