"""The answers of the read API: runs, programs and policy versions as paginated JSON.

Text from the store is untrusted: it appears only as JSON values, never as keys. Long texts are truncated.
"""

import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any

from evovpo.builtin import token_texts
from evovpo.config import Config, ModelConfig
from evovpo.errors import EvovpoError, StoreError
from evovpo.page.figures import Point, ProgramLine, RunFigures
from evovpo.page.page_store import Source
from evovpo.prompts.replies import idea_of
from evovpo.runs.stored import Ancestor, RowResult, example_rows, lineage
from evovpo.store import RunHead
from evovpo.types import Evaluation, Json, PolicyVersion, Problem, Program, Rollout, Run, Training, content_id

MOST_ROWS = 1000
MOST_CHARACTERS = 100_000
_PREVIEW = 160
_MOST_ANCESTORS = 200
_MOST_TRAININGS = 20
_MOST_STEPS = 300
_MOST_TOKENS = 20_000
_VALUE_CHARACTERS = 2000
_SMALL_CURVE = 30
_LOOP_RUN_ID = re.compile(r"(.+)-r\d+-p\d+")

Record = dict[str, Any]

SORTS: dict[str, Callable[[ProgramLine], Any]] = {
    "order": attrgetter("position"),
    "best": lambda line: (line.score is None, -(line.score or 0.0), *SORTS["mean_reward"](line)),
    "mean_reward": lambda line: (-line.mean_reward, -line.passed, line.length),
    "passed": lambda line: (-line.passed, -line.mean_reward, line.length),
    "length": attrgetter("length"),
    "seconds": lambda line: -line.seconds,
}


def runs_record(
    source: Source, offset: int = 0, limit: int = 100, problem: str = "", status: str = ""
) -> Record:
    """Return runs with their statistics, newest first; the field `more` is true if further runs follow."""
    heads, until = source.store().run_heads(offset, limit + 1, problem, status), source.deadline()
    return {
        "offset": offset,
        "more": len(heads) > limit,
        "runs": [_run(source, head, source.figures(head.run, until)) for head in heads[:limit]],
    }


def run_record(source: Source, run_id: str) -> Record:
    """Return a run as in `runs_record`, with its curve, reward components, islands and settings."""
    head = head_of(source, run_id)
    problem, figures = source.problem(head.run), source.figures(head.run)
    shown = thinned(figures.points, figures.rises)
    calls = source.store().call_totals(run_id)
    policies, summary = sorted(figures.by_policy.items()), figures.summary
    return {
        **_run(source, head, figures),
        "statement": cut(problem.statement),
        "curve": {name: [getattr(point, name) for point in shown] for name in Point._fields},
        "components": [
            {"name": name, "rises": [rise._asdict() for rise in thinned(reached)]}
            for name, reached in zip(_names(problem), figures.reached, strict=True)
        ],
        "islands": [{"island": index, **vars(island)} for index, island in sorted(figures.islands.items())],
        "by_status": _counts(summary.by_status),
        "by_parse_status": _counts(summary.by_parse_status),
        "by_way": [
            {"name": way, "count": asked, "rises": rose}
            for way, (asked, rose) in sorted(summary.by_way.items(), key=lambda item: -item[1][0])
        ],
        "by_policy": [{"policy_version": key, "rollouts": n} for key, n in policies],
        "open_asks": source.store().open_asks(run_id),
        "calls": {**calls._asdict(), "faults": _counts(calls.faults)},
        "settings": _settings(head.run.config_json),
    }


def programs_record(
    source: Source, run_id: str, offset: int = 0, limit: int = 100, sort: str = "order", **wanted: Any
) -> Record:
    """Return the evaluated programs of a run, with their rewards and the beginning of their source.

    Only programs whose fields (of `ProgramLine`) equal `wanted` are returned.
    """
    head = head_of(source, run_id)
    figures, store, name = source.figures(head.run), source.store(), sort.removeprefix("-")
    ordered = figures.ordered(name, SORTS[name])[:: -1 if sort.startswith("-") else 1]
    for field, value in wanted.items():
        ordered = [line for line in ordered if getattr(line, field) == value]
    shown = ordered[offset : offset + limit]
    vectors = store.reward_vectors([line.evaluation_id for line in shown])
    beginnings = store.beginnings([line.program_id for line in shown], _PREVIEW)
    return {
        "run": run_id,
        "offset": offset,
        "total": len(ordered),
        "components": _names(source.problem(head.run)),
        "programs": [
            {
                **line._asdict(),
                "rewards": list(vectors.get(line.evaluation_id, ())),
                "begins": beginnings.get(line.program_id, ""),
            }
            for line in shown
        ],
    }


def answers_record(
    source: Source, run_id: str, offset: int = 0, limit: int = 100, parse_status: str | None = None
) -> Record:
    """Return the model's answers in a run, in order; the field `more` is true if further answers follow."""
    head_of(source, run_id)
    found = source.store().answers(run_id, offset, limit + 1, parse_status, _VALUE_CHARACTERS)
    return {
        "run": run_id,
        "offset": offset,
        "more": len(found) > limit,
        "answers": [
            {**one, "text": {"text": one["text"], "characters": one["characters"]}} for one in found[:limit]
        ],
    }


def lineage_record(source: Source, run_id: str, program: str | None = None) -> Record:
    head = head_of(source, run_id)
    figures, problem, store = source.figures(head.run), source.problem(head.run), source.store()
    if program and not store.beginnings([program], 1):
        raise NotStoredError(f"no program {program} is stored")
    program_id = program or (figures.best.program_id if figures.best else None)
    if program_id is None:
        return {"run": run_id, "programs": []}
    found = lineage(store, run_id, problem, store.program(program_id))[:_MOST_ANCESTORS]
    return {"run": run_id, "programs": [_ancestor(one, figures.line_of.get(one.program.id)) for one in found]}


def program_record(source: Source, program_id: str, run: str | None = None) -> Record:
    """Return a program as first proposed in a run: source, evaluation, prompt, completion and tokens.

    The field `runs` lists up to 20 runs that proposed the program. The default for `run` is the first of
    these runs. If `run` did not propose the program, only the source and `runs` are returned.
    """
    store = source.store()
    if not store.beginnings([program_id], 1):
        raise NotStoredError(f"no program {program_id} is stored")
    program = store.program(program_id)
    runs = list(store.runs_with(program_id, 20))
    run_id = run or (runs[0] if runs else None)
    found = None if run_id is None else store.first_tell(run_id, program_id)
    if found is None:
        return {**_program(program), "runs": runs, "run": None}
    prompt, tell, position = found
    candidate, evaluation = next(
        (one.candidate, one.evaluation)
        for one in tell.judged
        if one.candidate.program and one.candidate.program.id == program_id
    )
    stored = head_of(source, prompt.run_id).run
    problem, parents = source.problem(stored), candidate.parents or prompt.parents
    return {
        **_program(candidate.program or program),
        "runs": runs,
        "run": run_id,
        "problem": problem.id,
        "position": position,
        **_of(source.figures(stored).line_of.get(program_id), "evaluations"),
        "children": store.children(stored.id, program_id, 20),
        **_of(prompt, "kind", "island", "way"),
        "idea": idea_of(candidate.text),
        "parents": [{"role": one.role, **_program(store.program(one.program_id))} for one in parents[:20]],
        "prompt": [{"role": message.role, **cut(message.content)} for message in prompt.messages],
        "completion": tell.rollout and _completion(tell.rollout, candidate.token_span),
        "evaluation": evaluation and _judgement(problem, evaluation),
    }


def policies_record(source: Source) -> Record:
    store = source.store()
    served, trainings = store.served(), store.trainings()
    return {
        "served": served and served.number,
        "versions": [_version(version) for version in store.policy_versions()],
        "events": [dataclasses.asdict(event) for event in store.policy_events()],
        "trainings": [_training(source, one) for one in trainings[-_MOST_TRAININGS:]],
    }


def cut(text: str, most: int = MOST_CHARACTERS) -> Record:
    """Return the first `most` characters of a text, and the length of the whole text."""
    return {"text": text[:most], "characters": len(text)}


def head_of(source: Source, run_id: str) -> RunHead:
    """Return the `RunHead` (short form) of a run. Raises `NotStoredError` for an unknown id."""
    head = source.store().run_head(run_id)
    if head is None:
        raise NotStoredError(f"no run {run_id} is stored; /api/runs lists those that are")
    return head


class NotStoredError(StoreError):
    """Error for a requested id that is not in the store."""


def _run(source: Source, head: RunHead, figures: RunFigures) -> Record:
    run, problem, best, summary = head.run, source.problem(head.run), figures.best, figures.summary
    is_right = None if head.heldout is None or not head.heldout[1] else head.heldout[0] == head.heldout[1]
    config = _config(run.config_json)
    rises = [figures.points[place] for place in figures.rises]
    small = [*rises[:: len(rises) // _SMALL_CURVE + 1], *rises[-1:], figures.now]
    return {
        **_of(run, "id", "created_at"),
        "group": _group_key(run),
        "problem": run.problem_id,
        "status": run.status.ending(is_right),
        "strategy": config and config.search.strategy,
        "models": _server_models(config),
        "seed": str(run.seed),
        "budget": run.evaluations,
        **_of(head, "changed_at", "heldout", "cost"),
        "objectives": len(problem.objectives),
        "best_score": best and best.score,
        "score_name": problem.objectives[0].name if problem.has_one_score else "combined_score",
        "best_mean_reward": summary.best_mean_reward,
        "passed": summary.examples_passed,
        "best_program_id": best and best.program_id,
        "best_policy_version": best and best.policy_version,
        "best_at": best and best.evaluations,
        "evaluations": figures.now.evaluations,
        "tokens": head.server_tokens or figures.now.tokens,
        "programs": len(figures.lines),
        "small_curve": [[one.evaluations, one.best if one.score is None else one.score] for one in small],
        "sandbox_seconds": round(summary.evaluation_seconds, 3),
        "policy_versions": sorted(figures.by_policy),
        "read": [figures.position + 1, figures.last + 1],
    }


def _server_models(config: Config | None) -> list[str]:
    if config is None or config.proposer.name not in ("openai", "imported", "random"):
        return []
    return [model.name for model in config.models] or [config.proposer.model or config.proposer.name]


def _group_key(run: Run) -> str:
    loop = _LOOP_RUN_ID.fullmatch(run.id)
    return f"loop {loop[1]}" if loop else _without_seed(run.problem_id, run.problem_version, run.config_json)


@lru_cache(maxsize=1000)
def _without_seed(problem_id: str, version: str, config_json: str) -> str:
    config = _config(config_json)
    settings = config_json if config is None else config.model_dump_json(exclude={"run"})
    return content_id(problem_id, version, settings)


@lru_cache(maxsize=1000)
def _config(config_json: str) -> Config | None:
    try:
        return Config.from_json(config_json)
    except EvovpoError:
        return None


def _counts(counts: Mapping[Any, int]) -> list[Record]:
    return [{"name": str(name), "count": count} for name, count in Counter(counts).most_common(50)]


def thinned(rows: Sequence[Any], kept: Sequence[int] = ()) -> list[Any]:
    """Return about 300 evenly spaced `rows`, and also the first, the last and those at indices `kept`."""
    count = len(rows)
    shown = {*range(0, count, count // _MOST_STEPS + 1), *range(count - 1, count), *kept}
    return [rows[number] for number in sorted(shown) if number >= 0]


def _ancestor(ancestor: Ancestor, line: ProgramLine | None) -> Record:
    return {
        **_program(ancestor.program),
        "kind": ancestor.origin,
        "parents": [dataclasses.asdict(parent) for parent in ancestor.made_from],
        **_of(ancestor, "mean_reward", "passed", "idea"),
        **_of(line, "score", "evaluations", "island", "policy_version"),
    }


def _program(program: Program) -> Record:
    return {"program_id": program.id, "source": cut(program.source)}


def _completion(rollout: Rollout, span: tuple[int, int] | None) -> Record:
    ids = rollout.token_ids or ()
    return {
        **cut(rollout.text),
        **_of(rollout, "policy_version", "model", "finish_reason", "seconds"),
        "temperature": rollout.sampling.temperature,
        "tokens": None if rollout.token_ids is None else len(ids),
        "token_ids": ids[:_MOST_TOKENS],
        "token_texts": token_texts(rollout.text, ids[:_MOST_TOKENS]),
        "logprobs": [round(value, 4) for value in (rollout.logprobs or ())[:_MOST_TOKENS]],
        "span": span,
    }


def _judgement(problem: Problem, evaluation: Evaluation) -> Record:
    parts = zip_longest(_names(problem), evaluation.rewards or (), example_rows(problem, evaluation))
    return {
        **_of(evaluation, "status", "seconds", "isolation", "trust"),
        "feedback": cut(evaluation.feedback),
        "metrics": [{"name": name, "value": _value(value)} for name, value in evaluation.metrics or ()],
        "components": [
            {"name": name, "reward": reward, **_example(row)}
            for name, reward, row in islice(parts, MOST_ROWS)
        ],
    }


def _example(row: RowResult | None) -> Record:
    if row is None:
        return {}
    return {"inputs": _value(list(row.inputs)), "wanted": _value(row.output), "got": _value(row.got)}


def _value(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}… ({len(text)} characters)"


def _version(version: PolicyVersion) -> Record:
    values = ((name, value if math.isfinite(value) else None) for name, value in version.metrics)
    return {
        **dataclasses.asdict(version),
        "metrics": [{"name": name, "value": value} for name, value in values],
    }


def _training(source: Source, training: Training) -> Record:
    steps = thinned(source.store().training_steps(training.id))
    return {
        **_of(training, "id", "objective", "start_version", "created_at"),
        "runs": training.runs[:MOST_ROWS],
        "seed": str(training.seed),
        "steps": [dataclasses.asdict(step) for step in steps],
    }


@lru_cache(maxsize=100)
def _settings(config_json: str) -> list[Record]:
    model = {name: field.default for name, field in ModelConfig.model_fields.items()}
    defaults = dict(_leaves({**json.loads(Config().to_json()), "models": model})) | {("models",): []}
    return [
        {
            "section": " ".join(path[:-1]),
            "name": path[-1],
            "value": _value(value),
            "default": _value(defaults.get(tuple(part for part in path if not part.isdigit()))),
        }
        for path, value in _leaves(json.loads(config_json))
    ]


def _leaves(value: Json, *path: str) -> Iterator[tuple[tuple[str, ...], Json]]:
    is_nested = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(x, dict) for x in value)
    )
    if not isinstance(value, dict | list) or not value or not is_nested:
        yield path, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value, 1):
        yield from _leaves(inner, *path, str(key))


def _names(problem: Problem) -> list[str]:
    return [objective.name[:_VALUE_CHARACTERS] for objective in problem.objectives]


def _of(record: Any, *names: str) -> Record:
    return {name: getattr(record, name, None) for name in names}
