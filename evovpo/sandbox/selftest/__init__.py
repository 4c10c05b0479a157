"""A table of attacks, and code to run them on this machine."""
