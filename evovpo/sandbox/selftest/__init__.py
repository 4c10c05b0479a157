"""A table of attacks, and a program that runs them on this machine."""
