"""Runs the migrations in the connection and transaction that `evovpo.store` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
context.run_migrations()
