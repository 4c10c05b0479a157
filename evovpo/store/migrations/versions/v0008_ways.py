"""Adds to each prompt the way (kind of prompt) that made it; empty in older rows."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add a column, empty at first."""
    op.add_column("prompts", sa.Column("way", sa.Text, nullable=False, server_default=""))
