"""Adds columns for the result on held-out rows. The columns stay empty for earlier runs."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for name in ("heldout_passed", "heldout_total"):
        op.add_column("run_events", sa.Column(name, sa.Integer))
