"""Adds a training id to each policy event, and updates the paths of the packaged models."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

WEIGHTS = Path(__file__).parents[3] / "builtin" / "weights"
"""Older packages had these folders in `evovpo/models`."""


def upgrade() -> None:
    op.add_column("policy_events", sa.Column("training_id", sa.String(255)))
    # A version names its training; the reason of a failure began with the training's id.
    op.execute(
        "UPDATE policy_events SET training_id = (SELECT trainings.id FROM trainings "
        "JOIN policy_versions ON policy_versions.config_hash = trainings.id "
        "WHERE policy_versions.number = policy_events.policy_version)"
    )
    op.execute(
        "UPDATE policy_events SET training_id = (SELECT trainings.id FROM trainings "
        "WHERE policy_events.detail LIKE 'training ' || trainings.id || ':%') WHERE kind = 'failed'"
    )
    for name in ("strings", "formulas"):
        moved = sa.text("UPDATE policy_versions SET path = :now WHERE number = 0 AND path LIKE :before")
        op.execute(moved.bindparams(now=str(WEIGHTS / name), before=f"%/evovpo/models/{name}"))
