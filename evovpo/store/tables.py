"""The tables of the store, for queries. Rows are only ever added.

A new store is made of them, the migrations in `evovpo/store/migrations` bring an older one to the same
schema, and a test holds the two together. `docs/store.md` explains the columns.
"""

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

from evovpo.store.codecs import ANY_TEXT, DIGITS, FLOATS, INTS, JSON_TEXT

SCHEMA_VERSION = "0004"
"""The Alembic revision that these tables are."""

metadata = MetaData()


def _id() -> String:
    return String(255)


problems = Table(
    "problems",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("version", _id(), primary_key=True),
    Column("statement", ANY_TEXT, nullable=False),
    Column("entry", ANY_TEXT, nullable=False),
    Column("body", ANY_TEXT, nullable=False),
)

objectives = Table(
    "objectives",
    metadata,
    Column("problem_id", _id(), primary_key=True),
    Column("problem_version", _id(), primary_key=True),
    Column("objective", Integer, primary_key=True),
    Column("name", ANY_TEXT, nullable=False),
    Column("description", ANY_TEXT, nullable=False),
    ForeignKeyConstraint(["problem_id", "problem_version"], ["problems.id", "problems.version"]),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("problem_id", _id(), nullable=False),
    Column("problem_version", _id(), nullable=False),
    Column("seed", DIGITS, nullable=False),
    Column("evaluations", Integer, nullable=False),
    Column("config", ANY_TEXT, nullable=False),
    Column("created_at", String(64), nullable=False),
    ForeignKeyConstraint(["problem_id", "problem_version"], ["problems.id", "problems.version"]),
)

run_events = Table(
    "run_events",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("status", String(32), nullable=False),
    Column("at", String(64), nullable=False),
    Index("run_events_by_run", "run_id"),
)

programs = Table(
    "programs",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("source", ANY_TEXT, nullable=False),
)

prompts = Table(
    "prompts",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("tells_before", Integer, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("island", Integer, nullable=False),
    Column("messages", JSON_TEXT, nullable=False),
    Column("rollouts", Integer, nullable=False),
    Column("answers", Integer, nullable=False),
    Column("seed", DIGITS, nullable=False),
    Column("proposals", JSON_TEXT, nullable=False),
    UniqueConstraint("run_id", "sequence", name="prompts_in_order"),
)

prompt_parents = Table(
    "prompt_parents",
    metadata,
    Column("prompt_id", ForeignKey("prompts.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("program_id", ForeignKey("programs.id"), nullable=False),
    Column("role", String(32), nullable=False),
    sqlite_with_rowid=False,
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("prompt_id", ForeignKey("prompts.id"), nullable=False),
    Column("rollout_index", Integer, nullable=False),
    Column("policy_version", Integer, nullable=False),
    Column("text", ANY_TEXT, nullable=False),
    Column("tokens", Integer),
    Column("token_ids", INTS),
    Column("logprobs", FLOATS),
    Column("prompt_token_ids", INTS),
    Column("temperature", Double, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("grammar_masked", Boolean, nullable=False),
    Column("finish_reason", ANY_TEXT, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("model", ANY_TEXT, nullable=False),
    UniqueConstraint("prompt_id", "rollout_index", name="rollouts_in_group"),
)

calls = Table(
    "calls",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("prompt_id", ForeignKey("prompts.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("model", ANY_TEXT, nullable=False),
    Column("outcome", String(32), nullable=False),
    Column("reason", ANY_TEXT, nullable=False),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("cost", Double),
    Column("seconds", Double, nullable=False),
    Column("at", String(64), nullable=False),
    Index("calls_by_run", "run_id"),
)

tells = Table(
    "tells",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("prompt_id", ForeignKey("prompts.id"), nullable=False),
    Column("rollout_index", Integer, nullable=False),
    Column("rollout_id", ForeignKey("rollouts.id")),
    Column("executed", Integer, nullable=False),
    UniqueConstraint("prompt_id", "rollout_index", name="tells_once"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("problem_version", _id(), nullable=False),
    Column("program_id", ForeignKey("programs.id"), nullable=False),
    Column("private_to", _id(), nullable=False),
    Column("status", String(32), nullable=False),
    Column("feedback", ANY_TEXT, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("isolation", ANY_TEXT, nullable=False),
    Column("outputs", JSON_TEXT),
    Column("digest", String(32), nullable=False),
    Column("metrics", JSON_TEXT),
    Column("trust", String(32), nullable=False),
    UniqueConstraint("problem_version", "program_id", "private_to", name="evaluations_once"),
)

rewards = Table(
    "rewards",
    metadata,
    Column("evaluation_id", ForeignKey("evaluations.id"), primary_key=True),
    Column("objective", Integer, primary_key=True),
    Column("name", ANY_TEXT, nullable=False),
    Column("value", Double, nullable=False),
    sqlite_with_rowid=False,
)

candidates = Table(
    "candidates",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("run_id", _id(), nullable=False),
    Column("position", Integer, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("prompt_id", ForeignKey("prompts.id"), nullable=False),
    Column("rollout_id", ForeignKey("rollouts.id")),
    Column("parse_status", String(32), nullable=False),
    Column("program_id", ForeignKey("programs.id")),
    Column("source", ANY_TEXT),
    Column("token_start", Integer),
    Column("token_end", Integer),
    Column("text", ANY_TEXT, nullable=False),
    Column("evaluation_id", ForeignKey("evaluations.id")),
    Column("executed", Boolean, nullable=False),
    Column("reason", ANY_TEXT, nullable=False),
    ForeignKeyConstraint(["run_id", "position"], ["tells.run_id", "tells.position"]),
    UniqueConstraint("run_id", "position", "slot", name="candidates_in_order"),
    Index("candidates_by_program", "program_id", "run_id"),
)

candidate_parents = Table(
    "candidate_parents",
    metadata,
    Column("candidate_id", ForeignKey("candidates.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("program_id", ForeignKey("programs.id"), nullable=False),
    Column("role", String(32), nullable=False),
    sqlite_with_rowid=False,
)

policy_versions = Table(
    "policy_versions",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("parent", Integer),
    Column("path", ANY_TEXT, nullable=False),
    Column("trained_through", String(255)),
    Column("config_hash", String(255), nullable=False),
    Column("metrics", JSON_TEXT, nullable=False),
)

policy_events = Table(
    "policy_events",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("policy_version", Integer),
    Column("kind", String(32), nullable=False),
    Column("detail", ANY_TEXT, nullable=False),
    Column("at", String(64), nullable=False),
    Column("training_id", String(255)),
)

trainings = Table(
    "trainings",
    metadata,
    Column("id", _id(), primary_key=True),
    Column("objective", String(32), nullable=False),
    Column("config", ANY_TEXT, nullable=False),
    Column("start_version", ForeignKey("policy_versions.number"), nullable=False),
    Column("seed", DIGITS, nullable=False),
    Column("created_at", String(64), nullable=False),
)

training_runs = Table(
    "training_runs",
    metadata,
    Column("training_id", ForeignKey("trainings.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("after_prompt", ForeignKey("prompts.id")),
    Column("through_prompt", ForeignKey("prompts.id")),
    sqlite_with_rowid=False,
)

training_steps = Table(
    "training_steps",
    metadata,
    Column("training_id", ForeignKey("trainings.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("set_score", Double, nullable=False),
    Column("pool_score", Double, nullable=False),
    Column("mean_reward", Double, nullable=False),
    Column("pass_rate", Double, nullable=False),
    Column("diversity", Double, nullable=False),
    Column("distinct_programs", Double, nullable=False),
    Column("entropy", Double, nullable=False),
    Column("kl", Double, nullable=False),
    Column("clip_share", Double, nullable=False),
    Column("zero_spread_share", Double, nullable=False),
    Column("staleness", Double, nullable=False),
    Column("loss", Double, nullable=False),
    Column("grad_norm", Double, nullable=False),
    Column("groups", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("seconds", Double, nullable=False),
    sqlite_with_rowid=False,
)
