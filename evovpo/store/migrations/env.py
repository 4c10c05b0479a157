"""Runs the migrations in the connection and transaction passed by `evovpo.store`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
context.run_migrations()
