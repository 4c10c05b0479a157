"""Problems as records: native folders, suites, new ones, OpenEvolve projects, imported tasks."""
