"""Alembic migrations of the store: one file in `versions` for each schema version."""
