"""Problems: folders, suites, OpenEvolve projects, and tasks imported from benchmarks or tables."""
