"""Adds two tables for snapshots of searches and summaries of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "snapshots",
        sa.Column("run_id", sa.String(255), sa.ForeignKey("runs.id"), primary_key=True),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("asks", "tells")),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "summaries",
        sa.Column("run_id", sa.String(255), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("tells", sa.Integer, primary_key=True),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("figures", "curve")),
    )
