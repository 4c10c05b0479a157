"""Snapshots: what the rows of a run come to after so many asks and tells, so that not all are read again."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add a table, empty at first."""
    op.create_table(
        "snapshots",
        sa.Column("run_id", sa.String(255), sa.ForeignKey("runs.id"), primary_key=True),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("asks", "tells")),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
