"""One run: start, drive, resume, replay and report it."""
