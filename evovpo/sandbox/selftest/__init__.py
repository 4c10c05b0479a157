"""A table of attacks, and the run through it on this machine."""
