"""Removes search snapshots and summaries: both can be computed from the rows of a run."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop two tables, whose rows can be computed from the others."""
    op.drop_table("snapshots")
    op.drop_table("summaries")
