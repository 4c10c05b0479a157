"""Summaries: the figures of a run that reports show, so that not all its rows are read again."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add a table, empty at first."""
    op.create_table(
        "summaries",
        sa.Column("run_id", sa.String(255), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("tells", sa.Integer, primary_key=True),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("figures", "curve")),
    )
