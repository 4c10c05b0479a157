"""What OpenEvolve wrote, as runs, and what it reads, from runs."""
