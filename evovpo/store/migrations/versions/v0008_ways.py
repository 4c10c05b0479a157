"""Adds a column for the way (kind) of each prompt. The column is empty in older rows."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("prompts", sa.Column("way", sa.Text, nullable=False, server_default=""))
