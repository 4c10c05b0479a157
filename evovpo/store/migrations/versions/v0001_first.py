"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(255)
WORD = sa.String(32)
DATE = sa.String(64)
DIGITS = sa.String(80)


def upgrade() -> None:
    """Create every table in an empty database."""
    op.create_table(
        "problems",
        sa.Column("id", ID, primary_key=True),
        sa.Column("version", ID, primary_key=True),
        sa.Column("statement", sa.Text, nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "objectives",
        sa.Column("problem_id", ID, primary_key=True),
        sa.Column("problem_version", ID, primary_key=True),
        sa.Column("objective", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["problem_id", "problem_version"], ["problems.id", "problems.version"]),
    )
    op.create_table(
        "runs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("problem_id", ID, nullable=False),
        sa.Column("problem_version", ID, nullable=False),
        sa.Column("seed", DIGITS, nullable=False),
        sa.Column("evaluations", sa.Integer, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("created_at", DATE, nullable=False),
        sa.ForeignKeyConstraint(["problem_id", "problem_version"], ["problems.id", "problems.version"]),
    )
    op.create_table(
        "run_events",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", ID, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("at", DATE, nullable=False),
    )
    op.create_index("run_events_by_run", "run_events", ["run_id"])
    op.create_table(
        "programs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
    )
    op.create_table(
        "prompts",
        sa.Column("id", ID, primary_key=True),
        sa.Column("run_id", ID, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("tells_before", sa.Integer, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("island", sa.Integer, nullable=False),
        sa.Column("messages", sa.Text, nullable=False),
        sa.Column("rollouts", sa.Integer, nullable=False),
        sa.Column("answers", sa.Integer, nullable=False),
        sa.Column("seed", DIGITS, nullable=False),
        sa.Column("proposals", sa.Text, nullable=False),
        sa.UniqueConstraint("run_id", "sequence", name="prompts_in_order"),
    )
    op.create_table(
        "prompt_parents",
        sa.Column("prompt_id", ID, sa.ForeignKey("prompts.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("program_id", ID, sa.ForeignKey("programs.id"), nullable=False),
        sa.Column("role", WORD, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollouts",
        sa.Column("id", ID, primary_key=True),
        sa.Column("prompt_id", ID, sa.ForeignKey("prompts.id"), nullable=False),
        sa.Column("rollout_index", sa.Integer, nullable=False),
        sa.Column("policy_version", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("tokens", sa.Integer),
        sa.Column("token_ids", sa.LargeBinary),
        sa.Column("logprobs", sa.LargeBinary),
        sa.Column("prompt_token_ids", sa.LargeBinary),
        sa.Column("temperature", sa.Double, nullable=False),
        sa.Column("max_tokens", sa.Integer, nullable=False),
        sa.Column("grammar_masked", sa.Boolean, nullable=False),
        sa.Column("finish_reason", sa.Text, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.UniqueConstraint("prompt_id", "rollout_index", name="rollouts_in_group"),
    )
    op.create_table(
        "tells",
        sa.Column("run_id", ID, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("prompt_id", ID, sa.ForeignKey("prompts.id"), nullable=False),
        sa.Column("rollout_index", sa.Integer, nullable=False),
        sa.Column("rollout_id", ID, sa.ForeignKey("rollouts.id")),
        sa.Column("executed", sa.Integer, nullable=False),
        sa.UniqueConstraint("prompt_id", "rollout_index", name="tells_once"),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", ID, primary_key=True),
        sa.Column("problem_version", ID, nullable=False),
        sa.Column("program_id", ID, sa.ForeignKey("programs.id"), nullable=False),
        sa.Column("private_to", ID, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("feedback", sa.Text, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("isolation", sa.Text, nullable=False),
        sa.Column("outputs", sa.Text),
        sa.Column("digest", WORD, nullable=False),
        sa.UniqueConstraint("problem_version", "program_id", "private_to", name="evaluations_once"),
    )
    op.create_table(
        "rewards",
        sa.Column("evaluation_id", ID, sa.ForeignKey("evaluations.id"), primary_key=True),
        sa.Column("objective", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "candidates",
        sa.Column("id", ID, primary_key=True),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("prompt_id", ID, sa.ForeignKey("prompts.id"), nullable=False),
        sa.Column("rollout_id", ID, sa.ForeignKey("rollouts.id")),
        sa.Column("parse_status", WORD, nullable=False),
        sa.Column("program_id", ID, sa.ForeignKey("programs.id")),
        sa.Column("source", sa.Text),
        sa.Column("token_start", sa.Integer),
        sa.Column("token_end", sa.Integer),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("evaluation_id", ID, sa.ForeignKey("evaluations.id")),
        sa.Column("executed", sa.Boolean, nullable=False),
        sa.ForeignKeyConstraint(["run_id", "position"], ["tells.run_id", "tells.position"]),
        sa.UniqueConstraint("run_id", "position", "slot", name="candidates_in_order"),
    )
    op.create_index("candidates_by_program", "candidates", ["program_id", "run_id"])
    op.create_table(
        "candidate_parents",
        sa.Column("candidate_id", ID, sa.ForeignKey("candidates.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("program_id", ID, sa.ForeignKey("programs.id"), nullable=False),
        sa.Column("role", WORD, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "policy_versions",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("parent", sa.Integer),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("trained_through", ID),
        sa.Column("config_hash", ID, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
    )
