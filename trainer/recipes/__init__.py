"""How the bundled models were made: run with `python -m`, imported by nothing else."""
