"""The search, which makes prompts and decides which programs to keep. It has no I/O and no clock."""
