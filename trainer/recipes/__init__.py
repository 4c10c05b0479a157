"""How the bundled models and suites were made: run with `python -m`, imported by nothing else."""
