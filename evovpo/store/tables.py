"""The tables of the store, for queries. Rows are only ever added.

A new store is made of them, the migrations in `evovpo/store/migrations` bring an older one to the same
schema, and a test holds the two together. `docs/store.md` explains the columns. A column that holds a field
of a record has the field's name, here at least: as its `key`.
"""

from dataclasses import fields
from typing import Any

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
from sqlalchemy.schema import SchemaItem

from evovpo.store.codecs import ANY_TEXT, DIGITS, FLOATS, INTS, MESSAGES, PAIRS, PROGRAMS, VALUES, WORD, word
from evovpo.types import (
    CallOutcome,
    ParentRole,
    ParseStatus,
    PolicyEventKind,
    PromptKind,
    RunStatus,
    TrainingStep,
)

SCHEMA_VERSION = "0004"
"""The Alembic revision that these tables are."""

metadata = MetaData()

_ID, _DATE = String(255), String(64)


def _table(name: str, *items: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *items, **options)


def _keys(**kinds: Any) -> list[Column[Any]]:
    """Return the columns of a primary key by name; a reference has the type of what it refers to."""
    return [Column(name, kind, primary_key=True) for name, kind in kinds.items()]


def _all(**kinds: Any) -> list[Column[Any]]:
    """Return columns that every row has a value in."""
    return [Column(name, kind, nullable=False) for name, kind in kinds.items()]


def _some(**kinds: Any) -> list[Column[Any]]:
    """Return columns that may be NULL."""
    return [Column(name, kind) for name, kind in kinds.items()]


def _numbered(**options: Any) -> Column[int]:
    """Return the key of a table whose rows are numbered as they are added."""
    return Column("number", Integer, primary_key=True, autoincrement=True, **options)


def _of_problem() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["problem_id", "problem_version"], ["problems.id", "problems.version"])


problems = _table(
    "problems",
    *_keys(id=_ID, version=_ID),
    *_all(statement=ANY_TEXT, entry=ANY_TEXT, body=ANY_TEXT),
)

objectives = _table(
    "objectives",
    *_keys(problem_id=_ID, problem_version=_ID, objective=Integer),
    *_all(name=ANY_TEXT, description=ANY_TEXT),
    _of_problem(),
)

runs = _table(
    "runs",
    *_keys(id=_ID),
    *_all(problem_id=_ID, problem_version=_ID, seed=DIGITS, evaluations=Integer),
    Column("config", ANY_TEXT, key="config_json", nullable=False),
    *_all(created_at=_DATE),
    _of_problem(),
)

run_events = _table(
    "run_events",
    _numbered(),
    *_all(run_id=ForeignKey("runs.id"), status=word(RunStatus), at=_DATE),
    Index("run_events_by_run", "run_id"),
)

programs = _table("programs", *_keys(id=_ID), *_all(source=ANY_TEXT))

prompts = _table(
    "prompts",
    *_keys(id=_ID),
    *_all(run_id=ForeignKey("runs.id"), sequence=Integer, tells_before=Integer, kind=word(PromptKind)),
    *_all(island=Integer, messages=MESSAGES, rollouts=Integer, answers=Integer, seed=DIGITS),
    *_all(proposals=PROGRAMS),
    UniqueConstraint("run_id", "sequence", name="prompts_in_order"),
)

prompt_parents = _table(
    "prompt_parents",
    *_keys(prompt_id=ForeignKey("prompts.id"), position=Integer),
    *_all(program_id=ForeignKey("programs.id"), role=word(ParentRole)),
    sqlite_with_rowid=False,
)

rollouts = _table(
    "rollouts",
    *_keys(id=_ID),
    *_all(prompt_id=ForeignKey("prompts.id")),
    Column("rollout_index", Integer, key="index", nullable=False),
    *_all(policy_version=Integer, text=ANY_TEXT),
    *_some(tokens=Integer, token_ids=INTS, logprobs=FLOATS, prompt_token_ids=INTS),
    *_all(temperature=Double, max_tokens=Integer, grammar_masked=Boolean),
    *_all(finish_reason=ANY_TEXT, seconds=Double, model=ANY_TEXT),
    UniqueConstraint("prompt_id", "index", name="rollouts_in_group"),
)

calls = _table(
    "calls",
    _numbered(),
    *_all(run_id=ForeignKey("runs.id"), prompt_id=ForeignKey("prompts.id"), attempt=Integer),
    *_all(model=ANY_TEXT, outcome=word(CallOutcome), reason=ANY_TEXT),
    *_some(prompt_tokens=Integer, completion_tokens=Integer, cost=Double),
    *_all(seconds=Double, at=_DATE),
    Index("calls_by_run", "run_id"),
)

tells = _table(
    "tells",
    *_keys(run_id=ForeignKey("runs.id"), position=Integer),
    *_all(prompt_id=ForeignKey("prompts.id"), rollout_index=Integer),
    *_some(rollout_id=ForeignKey("rollouts.id")),
    *_all(executed=Integer),
    UniqueConstraint("prompt_id", "rollout_index", name="tells_once"),
)

evaluations = _table(
    "evaluations",
    *_keys(id=_ID),
    *_all(problem_version=_ID, program_id=ForeignKey("programs.id"), private_to=_ID, status=WORD),
    *_all(feedback=ANY_TEXT, seconds=Double, isolation=ANY_TEXT),
    *_some(outputs=VALUES),
    *_all(digest=WORD),
    *_some(metrics=PAIRS),
    *_all(trust=WORD),
    UniqueConstraint("problem_version", "program_id", "private_to", name="evaluations_once"),
)

rewards = _table(
    "rewards",
    *_keys(evaluation_id=ForeignKey("evaluations.id"), objective=Integer),
    *_all(name=ANY_TEXT, value=Double),
    sqlite_with_rowid=False,
)

candidates = _table(
    "candidates",
    *_keys(id=_ID),
    *_all(run_id=_ID, position=Integer, slot=Integer, prompt_id=ForeignKey("prompts.id")),
    *_some(rollout_id=ForeignKey("rollouts.id")),
    *_all(parse_status=word(ParseStatus)),
    *_some(program_id=ForeignKey("programs.id"), source=ANY_TEXT, token_start=Integer, token_end=Integer),
    *_all(text=ANY_TEXT),
    *_some(evaluation_id=ForeignKey("evaluations.id")),
    *_all(executed=Boolean, reason=ANY_TEXT),
    ForeignKeyConstraint(["run_id", "position"], ["tells.run_id", "tells.position"]),
    UniqueConstraint("run_id", "position", "slot", name="candidates_in_order"),
    Index("candidates_by_program", "program_id", "run_id"),
)

candidate_parents = _table(
    "candidate_parents",
    *_keys(candidate_id=ForeignKey("candidates.id"), position=Integer),
    *_all(program_id=ForeignKey("programs.id"), role=word(ParentRole)),
    sqlite_with_rowid=False,
)

policy_versions = _table(
    "policy_versions",
    Column("number", Integer, primary_key=True, autoincrement=False),
    *_some(parent=Integer),
    *_all(path=ANY_TEXT),
    *_some(trained_through=_ID),
    *_all(config_hash=_ID, metrics=PAIRS),
)

policy_events = _table(
    "policy_events",
    _numbered(key="place"),
    Column("policy_version", Integer, key="number"),
    *_all(kind=word(PolicyEventKind), detail=ANY_TEXT, at=_DATE),
    *_some(training_id=_ID),
)

trainings = _table(
    "trainings",
    *_keys(id=_ID),
    *_all(objective=WORD),
    Column("config", ANY_TEXT, key="config_json", nullable=False),
    *_all(start_version=ForeignKey("policy_versions.number"), seed=DIGITS, created_at=_DATE),
)

training_runs = _table(
    "training_runs",
    *_keys(training_id=ForeignKey("trainings.id"), position=Integer),
    *_all(run_id=ForeignKey("runs.id")),
    *_some(after_prompt=ForeignKey("prompts.id"), through_prompt=ForeignKey("prompts.id")),
    sqlite_with_rowid=False,
)

training_steps = _table(
    "training_steps",
    *_keys(training_id=ForeignKey("trainings.id"), step=Integer),
    *_all(
        **{figure.name: Double if figure.type is float else Integer for figure in fields(TrainingStep)[2:]}
    ),
    sqlite_with_rowid=False,
)
