"""Adds the held-out result of each finished run; it stays unknown for runs that ended before."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add two columns."""
    for name in ("heldout_passed", "heldout_total"):
        op.add_column("run_events", sa.Column(name, sa.Integer))
