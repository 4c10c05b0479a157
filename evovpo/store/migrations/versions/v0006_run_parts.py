"""Further parts of runs, each with settings of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add a table; no row of the others changes."""
    op.create_table(
        "run_parts",
        sa.Column("run_id", sa.String(255), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("asks_before", sa.Integer, nullable=False),
        sa.Column("tells_before", sa.Integer, nullable=False),
        sa.Column("evaluations", sa.Integer, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(64), nullable=False),
    )
