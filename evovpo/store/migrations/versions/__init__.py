"""The schema versions, each written once and never changed after a release."""
