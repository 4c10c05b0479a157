"""Generated string tasks whose examples conflict."""
