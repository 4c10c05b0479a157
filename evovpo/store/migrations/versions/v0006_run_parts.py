"""Adds columns for the parts of a run. Each change of settings begins a new part."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for name, kind in (("asks_before", sa.Integer), ("tells_before", sa.Integer), ("config", sa.Text)):
        op.add_column("run_events", sa.Column(name, kind))
