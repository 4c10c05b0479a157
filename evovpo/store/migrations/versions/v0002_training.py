"""Adds tables for trainings, the metrics of training steps, and the events of policy versions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ID = sa.String(255)
WORD = sa.String(32)
DATE = sa.String(64)
DIGITS = sa.String(80)
FIGURES = (
    "set_score", "pool_score", "mean_reward", "pass_rate", "diversity", "distinct_programs", "entropy", "kl",
    "clip_share", "zero_spread_share", "staleness", "loss", "grad_norm",
)  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "policy_events",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("policy_version", sa.Integer),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("at", DATE, nullable=False),
    )
    op.create_table(
        "trainings",
        sa.Column("id", ID, primary_key=True),
        sa.Column("objective", WORD, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("start_version", sa.Integer, sa.ForeignKey("policy_versions.number"), nullable=False),
        sa.Column("seed", DIGITS, nullable=False),
        sa.Column("created_at", DATE, nullable=False),
    )
    op.create_table(
        "training_runs",
        sa.Column("training_id", ID, sa.ForeignKey("trainings.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("run_id", ID, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("after_prompt", ID, sa.ForeignKey("prompts.id")),
        sa.Column("through_prompt", ID, sa.ForeignKey("prompts.id")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "training_steps",
        sa.Column("training_id", ID, sa.ForeignKey("trainings.id"), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        *(sa.Column(name, sa.Double, nullable=False) for name in FIGURES),
        sa.Column("groups", sa.Integer, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
