"""The tables of the store. `docs/store.md` explains the columns.

The `key` of a column is the name of the record field that the column stores.
"""

from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from evovpo.store.codecs import (
    DATE,
    DIGITS,
    FLOATS,
    INTS,
    MESSAGES,
    PAIRS,
    PROBLEM,
    PROGRAMS,
    TEXT,
    VALUES,
    word,
)
from evovpo.types import (
    CallOutcome,
    ParentRole,
    ParseStatus,
    PolicyEventKind,
    PromptKind,
    RunStatus,
    TrainingStep,
)

SCHEMA_VERSION = "0009"

metadata = sa.MetaData()

_ID, _DATE, _WORD = sa.String(255), DATE, word(str)


def _table(name: str, *items: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *items, **options)


def _keys(**kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, primary_key=True) for name, kind in kinds.items()]


def _all(**kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name, kind in kinds.items()]


def _some(**kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name, kind in kinds.items()]


def _numbered(**options: Any) -> sa.Column[int]:
    return sa.Column("number", sa.Integer, primary_key=True, autoincrement=True, **options)


def _of_problem() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["problem_id", "problem_version"], ["problems.id", "problems.version"])


problems = _table("problems", *_keys(id=_ID, version=_ID), *_all(statement=TEXT, entry=TEXT, body=PROBLEM))

objectives = _table(
    "objectives",
    *_keys(problem_id=_ID, problem_version=_ID, objective=sa.Integer),
    *_all(name=TEXT, description=TEXT),
    _of_problem(),
)

runs = _table(
    "runs",
    *_keys(id=_ID),
    *_all(problem_id=_ID, problem_version=_ID, seed=DIGITS, evaluations=sa.Integer),
    sa.Column("config", TEXT, key="config_json", nullable=False),
    *_all(created_at=_DATE),
    _of_problem(),
)

run_events = _table(
    "run_events",
    _numbered(),
    *_all(run_id=sa.ForeignKey("runs.id"), status=word(RunStatus), at=_DATE),
    *_some(heldout_passed=sa.Integer, heldout_total=sa.Integer),
    *_some(asks_before=sa.Integer, tells_before=sa.Integer),
    sa.Column("config", TEXT, key="config_json"),
    sa.Index("run_events_by_run", "run_id"),
)

programs = _table("programs", *_keys(id=_ID), *_all(source=TEXT))

prompts = _table(
    "prompts",
    *_keys(id=_ID),
    *_all(
        run_id=sa.ForeignKey("runs.id"), sequence=sa.Integer, tells_before=sa.Integer, kind=word(PromptKind)
    ),
    *_all(island=sa.Integer, messages=MESSAGES, rollouts=sa.Integer, answers=sa.Integer),
    *_all(seed=DIGITS, proposals=PROGRAMS, way=TEXT),
    sa.UniqueConstraint("run_id", "sequence", name="prompts_in_order"),
)

prompt_parents = _table(
    "prompt_parents",
    *_keys(prompt_id=sa.ForeignKey("prompts.id"), position=sa.Integer),
    *_all(program_id=sa.ForeignKey("programs.id"), role=word(ParentRole)),
    sqlite_with_rowid=False,
)

rollouts = _table(
    "rollouts",
    *_keys(id=_ID),
    *_all(prompt_id=sa.ForeignKey("prompts.id")),
    sa.Column("rollout_index", sa.Integer, key="index", nullable=False),
    *_all(policy_version=sa.Integer, text=TEXT),
    *_some(tokens=sa.Integer, token_ids=INTS, logprobs=FLOATS, prompt_token_ids=INTS),
    *_all(temperature=sa.Double, max_tokens=sa.Integer, grammar_masked=sa.Boolean),
    *_all(finish_reason=TEXT, seconds=sa.Double, model=TEXT),
    sa.UniqueConstraint("prompt_id", "index", name="rollouts_in_group"),
)

calls = _table(
    "calls",
    _numbered(),
    *_all(run_id=sa.ForeignKey("runs.id"), prompt_id=sa.ForeignKey("prompts.id"), attempt=sa.Integer),
    *_all(model=TEXT, outcome=word(CallOutcome), reason=TEXT),
    *_some(prompt_tokens=sa.Integer, completion_tokens=sa.Integer, cost=sa.Double),
    *_all(seconds=sa.Double, at=_DATE),
    sa.Index("calls_by_run", "run_id"),
)

tells = _table(
    "tells",
    *_keys(run_id=sa.ForeignKey("runs.id"), position=sa.Integer),
    *_all(prompt_id=sa.ForeignKey("prompts.id"), rollout_index=sa.Integer),
    *_some(rollout_id=sa.ForeignKey("rollouts.id")),
    *_all(executed=sa.Integer),
    sa.UniqueConstraint("prompt_id", "rollout_index", name="tells_once"),
)

evaluations = _table(
    "evaluations",
    *_keys(id=_ID),
    *_all(problem_version=_ID, program_id=sa.ForeignKey("programs.id"), private_to=_ID, status=_WORD),
    *_all(feedback=TEXT, seconds=sa.Double, isolation=TEXT),
    *_some(outputs=VALUES),
    *_all(digest=_WORD),
    *_some(metrics=PAIRS),
    *_all(trust=_WORD),
    sa.UniqueConstraint("problem_version", "program_id", "private_to", name="evaluations_once"),
)

rewards = _table(
    "rewards",
    *_keys(evaluation_id=sa.ForeignKey("evaluations.id"), objective=sa.Integer),
    *_all(name=TEXT, value=sa.Double),
    sqlite_with_rowid=False,
)

candidates = _table(
    "candidates",
    *_keys(id=_ID),
    *_all(run_id=_ID, position=sa.Integer, slot=sa.Integer, prompt_id=sa.ForeignKey("prompts.id")),
    *_some(rollout_id=sa.ForeignKey("rollouts.id")),
    *_all(parse_status=word(ParseStatus)),
    *_some(
        program_id=sa.ForeignKey("programs.id"), source=TEXT, token_start=sa.Integer, token_end=sa.Integer
    ),
    *_all(text=TEXT),
    *_some(evaluation_id=sa.ForeignKey("evaluations.id")),
    *_all(executed=sa.Boolean, reason=TEXT),
    sa.ForeignKeyConstraint(["run_id", "position"], ["tells.run_id", "tells.position"]),
    sa.UniqueConstraint("run_id", "position", "slot", name="candidates_in_order"),
    sa.Index("candidates_by_program", "program_id", "run_id"),
)

candidate_parents = _table(
    "candidate_parents",
    *_keys(candidate_id=sa.ForeignKey("candidates.id"), position=sa.Integer),
    *_all(program_id=sa.ForeignKey("programs.id"), role=word(ParentRole)),
    sqlite_with_rowid=False,
)

policy_versions = _table(
    "policy_versions",
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *_some(parent=sa.Integer),
    *_all(path=TEXT),
    *_some(trained_through=_ID),
    *_all(config_hash=_ID, metrics=PAIRS),
)

policy_events = _table(
    "policy_events",
    _numbered(key="place"),
    sa.Column("policy_version", sa.Integer, key="number"),
    *_all(kind=word(PolicyEventKind), detail=TEXT, at=_DATE),
    *_some(training_id=_ID),
)

trainings = _table(
    "trainings",
    *_keys(id=_ID),
    *_all(objective=_WORD),
    sa.Column("config", TEXT, key="config_json", nullable=False),
    *_all(start_version=sa.ForeignKey("policy_versions.number"), seed=DIGITS, created_at=_DATE),
)

training_runs = _table(
    "training_runs",
    *_keys(training_id=sa.ForeignKey("trainings.id"), position=sa.Integer),
    *_all(run_id=sa.ForeignKey("runs.id")),
    *_some(after_prompt=sa.ForeignKey("prompts.id"), through_prompt=sa.ForeignKey("prompts.id")),
    sqlite_with_rowid=False,
)

training_steps = _table(
    "training_steps",
    *_keys(training_id=sa.ForeignKey("trainings.id"), step=sa.Integer),
    *_all(
        **{
            figure.name: sa.Double if figure.type is float else sa.Integer
            for figure in fields(TrainingStep)[2:]
        }
    ),
    sqlite_with_rowid=False,
)
