"""The search: what to ask next and which programs to keep. No I/O, no clock."""
