"""Ask and tell: what to ask next and what to keep. No I/O, no clock."""
