"""Problems from Python values: rows of examples, or a function that scores outputs."""

import ast
import dataclasses
import functools
import json
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from evovpo.api.frames import frame_rows, is_frame, plain
from evovpo.config import Config
from evovpo.errors import ProblemError
from evovpo.judging.evaluator import Scorer
from evovpo.problem.folder import load_problem
from evovpo.problem.importers.tables import parameter_names
from evovpo.sandbox import Level, Sandbox
from evovpo.types import Json, Objective, Problem, Status

Row = tuple[Sequence[Json], Json]
"""One example: (arguments, expected result)."""
Examples = Sequence[Row] | Any
"""Rows, or a DataFrame (pandas or Polars) with a column per argument and the result in the last column. The
columns of `heldout` are found by the names that those of `examples` have."""
_STATEMENT = "Write the function that gives the wanted output for every example."
_SCORED = "Improve the function: each component of its reward lies in 0 to 1, higher is better."


class Failed(NamedTuple):
    """The output for an input on which the candidate raised an exception."""

    error: str


ScoreFunction = Callable[[list[Any]], Mapping[str, float]]
"""Maps a candidate's outputs, one per input, to {component: reward in [0, 1]}; see also `Failed`."""


def _examples_of(given: Any, what: str, columns: list[str], doubts: list[str]) -> Sequence[Row]:
    """Return the examples of a DataFrame or list. The first DataFrame adds its columns to `columns`."""
    if not is_frame(given):
        return cast("Sequence[Row]", given)
    rows, names = frame_rows(given, what), [*map(str, given.columns)]
    columns += () if columns else names
    if len(names) < 2 or not {*columns} <= {*names}:
        wanted = f"columns of arguments and, as the last, of results ({', '.join(columns)})"
        raise ProblemError(f"{what}: expected {wanted}, found {', '.join(names)}; add those that are missing")
    known = [row for row in rows if row[columns[-1]] is not None]
    if len(known) < len(rows):
        doubts.append(
            f"{what}: {len(rows) - len(known)} of {len(rows)} rows are left out: no {columns[-1]!r}"
        )
    kinds = {name: {type(row[name]) for row in rows} - {type(None)} for name in names}
    blank = {name: "" if kinds[name] == {str} else None for name in columns[:-1]}
    return [([plain(row[name], blank[name]) for name in blank], row[columns[-1]]) for row in known]


def problem_of_examples(
    given: Examples,
    hidden: Examples,
    seed_program: str | None,
    entry: str,
    statement: str,
    doubts: list[str],
    limits: Mapping[str, float] | None = None,
) -> Problem:
    """Return a problem with an objective for each row in `given`; the rows in `hidden` are held out.

    The default `seed_program` returns its first argument. Warnings about left out rows are added to `doubts`.
    Raises `ProblemError` for invalid rows.
    """
    columns: list[str] = []
    examples = _examples_of(given, "examples", columns, doubts)
    heldout = _examples_of(hidden, "heldout", columns, doubts)
    if len(examples) == 0:
        lacks = f", as no row has a {columns[-1]!r}" if columns else ""
        raise ProblemError(
            f"examples: expected at least one (arguments, result), found none{lacks}; give some"
        )
    try:
        if any(isinstance(inputs, str) for inputs, _ in (*examples, *heldout)):
            raise TypeError("arguments come in a tuple, one text too")
        count = len(examples[0][0])
        names = [f"x{index + 1}" for index in range(count)] if count > 1 else ["x"]
        names = [*parameter_names(columns[:-1])] or names
        rows = {
            part: [{"inputs": plain(list(inputs)), "output": plain(output)} for inputs, output in listed]
            for part, listed in (("train", examples), ("heldout", heldout))
        }
        text = json.dumps(rows, allow_nan=False)
    except (TypeError, ValueError, LookupError) as error:
        raise ProblemError(
            "examples, heldout: expected rows such as (('Ada Lovelace',), 'A. Lovelace') of values that JSON "
            f"can hold ({error})"
        ) from error
    source = seed_program or f"def {entry}({', '.join(names)}):\n    return {names[0]}\n"
    files = {"examples.json": text}
    return _problem_of_files("examples", source, entry, statement or _STATEMENT, files, limits)


def scorer_of(score: ScoreFunction, inputs: Sequence[Sequence[Json]] | Any, faults: list[str]) -> Scorer:
    """Return a scorer that calls `score` and adds the text of each exception of `score` to `faults`."""
    table = frame_rows(inputs, "inputs") if is_frame(inputs) else None
    rows: Any = plain(list(inputs)) if table is None else [list(row.values()) for row in table]
    if not all(isinstance(row, list | tuple) for row in rows):
        raise ProblemError(f"inputs: expected tuples of arguments, such as [(1,), (2,)], found {rows!r:.70}")

    @functools.wraps(score)
    def noted(outputs: list[Any]) -> Mapping[str, float]:
        try:
            return score(outputs)
        except (Exception, SystemExit) as error:
            faults.append(f"{type(error).__name__}: {error!s:.200}")
            raise

    return Scorer(tuple(map(tuple, rows)), noted, per_case=True, failed=Failed)


def problem_of_score(
    scorer: Scorer,
    seed_program: str,
    entry: str,
    statement: str,
    config: Config,
    limits: Mapping[str, float] | None = None,
) -> Problem:
    """Return a problem whose reward components are the keys that `scorer` returns for `seed_program`.

    Each call makes a new problem version, so that no stored evaluation is reused. Raises `ProblemError` if
    `seed_program` fails on every input or `scorer` is invalid.
    """
    stub = "def cases():\n    return []\n\n\ndef score(outputs):\n    return {}\n"
    name = getattr(scorer.score, "__name__", "score")
    files = {"score.py": stub}
    draft = _problem_of_files(name, seed_program, entry, statement or _SCORED, files, limits, ["reward"])
    with Sandbox(workers=1, minimum_level=Level(config.sandbox.minimum_level)) as sandbox:
        result = sandbox.run(seed_program, entry, scorer.cases, draft.limits, per_case=True)
    if result.status is not Status.OK or all(error is not None for error in result.errors):
        reason = next((error for error in result.errors if error), f"{result.status}: {result.detail}")
        raise ProblemError(f"seed_program: expected one that runs on some input, found {reason}; mend it")
    label = f"score function {name}"
    rewards, _ = scorer.answer(result, label)
    if not isinstance(rewards, Mapping) or not rewards:
        raise ProblemError(f"{label}: expected {{'name': reward}}, found {rewards!r:.80}; return that")
    objectives = tuple(Objective(str(component)) for component in rewards)
    return dataclasses.replace(draft, objectives=objectives, version=uuid.uuid4().hex, scorer_path=label)


def _problem_of_files(
    name: str,
    source: str,
    entry: str,
    statement: str,
    files: Mapping[str, str],
    limits: Mapping[str, float] | None,
    objectives: Sequence[str] = (),
) -> Problem:
    try:
        nodes = ast.walk(ast.parse(source))
    except SyntaxError as error:
        raise ProblemError(f"seed_program: expected Python, found {error}; correct it") from error
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == entry]
    if not functions:
        raise ProblemError(
            f"seed_program: {entry}: expected a function of this name, found none; give its name as entry="
        )
    parameters = [argument.arg for argument in functions[0].args.args]
    lines = ["[problem]", f"statement = {json.dumps(statement)}", f'entry = "{entry}"']
    lines += [f"inputs = {json.dumps(parameters)}"]
    if limits:
        lines += ["[limits]", *(f"{key} = {json.dumps(value)}" for key, value in limits.items())]
    lines += [f'[[objectives]]\nname = "{objective}"' for objective in objectives]
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / (name if name.isidentifier() else "problem")
        folder.mkdir()
        for file, text in {"problem.toml": "\n".join(lines), "seed.py": source, **files}.items():
            (folder / file).write_text(text, encoding="utf-8")
        try:
            problem = load_problem(folder)
        except ProblemError as error:
            said = str(error).replace(f"{folder}/", "").replace("examples.json: train", "examples")
            said = said.replace("seed.py", "seed_program").replace(", or inputs in problem.toml", "")
            raise ProblemError(said) from None
    return dataclasses.replace(problem, folder=None)
