"""Adds a table of requests to model servers, and columns for metrics, trust, reasons and model names."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.String(255)
WORD = sa.String(32)
DATE = sa.String(64)


def upgrade() -> None:
    op.add_column("evaluations", sa.Column("metrics", sa.Text))
    op.add_column("evaluations", sa.Column("trust", WORD, nullable=False, server_default="high"))
    op.add_column("candidates", sa.Column("reason", sa.Text, nullable=False, server_default=""))
    op.add_column("rollouts", sa.Column("model", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "calls",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", ID, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("prompt_id", ID, sa.ForeignKey("prompts.id"), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("outcome", WORD, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.Integer),
        sa.Column("completion_tokens", sa.Integer),
        sa.Column("cost", sa.Double),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("at", DATE, nullable=False),
    )
    op.create_index("calls_by_run", "calls", ["run_id"])
