"""Problems: native folders, suites, new problems, OpenEvolve projects and imported tasks."""
