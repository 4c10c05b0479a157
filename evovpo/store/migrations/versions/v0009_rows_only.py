"""Removes the tables of snapshots and summaries, which can be computed from the other tables."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.drop_table("snapshots")
    op.drop_table("summaries")
