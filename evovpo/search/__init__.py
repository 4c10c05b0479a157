"""The search, which makes prompts and decides which programs to keep. It does no I/O and reads no clock."""
