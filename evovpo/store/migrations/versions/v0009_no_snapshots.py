"""No snapshots of searches: a run is resumed from its rows."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop a table, whose rows can be computed from the others."""
    op.drop_table("snapshots")
