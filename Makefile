# `make test` runs everything, `make fast` what takes under two minutes. The tools come from .venv.
PYTHON ?= .venv/bin/python
export OMP_NUM_THREADS = 1
# Compiled files of Python are kept: without them every process that a test starts compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test fast lint docs bench

test:
	$(PYTHON) -m pytest -q -n 2 --dist loadfile

fast:
	$(PYTHON) -m pytest -q -n 2 -m "not slow"

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

docs:
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

bench:
	$(PYTHON) -m pytest -q tests/integration/test_benchmarks.py
