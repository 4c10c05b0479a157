"""Problem folders: load and check one, make a new one, find those that came with the package.

A folder holds `problem.toml` (statement, entry function, limits, objectives), `seed.py` and any
`seed_*.py` (starting programs), and either `examples.json` (programming by example) or `score.py`
(a scorer, which may read files under `data/`). Loading executes nothing: programs are only parsed,
and a scorer runs first when an `Evaluator` is made. `check_problem` alone runs programs, in the sandbox.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import itertools
import json
import keyword
import math
import tomllib
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evovpo.config import Config
from evovpo.errors import ProblemError, nearest_hint
from evovpo.judging.evaluator import open_evaluator, same_value
from evovpo.problem.new import SKELETONS
from evovpo.problem.openevolve.evaluator import open_openevolve
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.openevolve.loading import Loaded, open_project
from evovpo.types import (
    Evaluation,
    Example,
    Feature,
    Json,
    Limits,
    Objective,
    Problem,
    Program,
    Status,
    content_id,
)

_TOML, _EXAMPLES, _SCORER = "problem.toml", "examples.json", "score.py"
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EXAMPLE_LIMITS = Limits(wall_seconds=2.0, cpu_seconds=2)
_SMALLEST_LIMIT = {"memory_mb": 16, "result_bytes": 1024, "open_files": 16, "threads": 0, "processes": 0}
_LONGEST_SECONDS = 86_400
_DEEPEST_VALUE = 50
_FAULTS_SHOWN = 20
_LATER_FIELDS = {"suffix": ".py", "evaluator": None}
"""Fields of a problem that came after the first stored ones, with the value that says nothing."""
_LATER_LIMITS = {"processes": 0, "disk_mb": 64}
"""The same for limits."""
_MANY_OBJECTIVES = 16
_FEW_ROWS = 4


class SuiteEntry(NamedTuple):
    """One problem of a suite."""

    path: Path
    """Its folder."""
    difficulty: float | None
    """Measured, from 0 (always solved) to 1 (never solved); none if not measured."""


@dataclass(frozen=True, slots=True)
class SeedReport:
    """How one starting program does."""

    name: str
    """File name, for example `seed.py`."""
    evaluation: Evaluation
    train_passed: int
    """Components with the full reward; by example these are training rows."""
    heldout_passed: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check_problem` found in a folder that can be used."""

    problem: Problem
    seeds: tuple[SeedReport, ...]
    warnings: tuple[str, ...]
    """Doubtful things that do not stop a run, each with what to do."""


@dataclass(slots=True)
class _Faults:
    """What is wrong with one folder, collected so that one error can name it all."""

    folder: Path
    texts: list[str] = field(default_factory=list)

    def add(self, file: str, key: str, expected: str, found: str, fix: str) -> None:
        """Add one fault of a file (and of a key in it, unless that is empty)."""
        place = f"{self.folder / file}: {key}" if key else str(self.folder / file)
        self.texts.append(f"{place}: expected {expected}, found {found}; {fix}")

    def check_keys(self, file: str, where: str, found: Iterable[str], known: Collection[str]) -> None:
        """Add a fault for each key that is not a known one."""
        for key in found:
            if key not in known:
                self.add(file, f"{where}{key}", "a known key", "this one", nearest_hint(key, known))

    def raise_any(self) -> None:
        """Raise `ProblemError` if a fault was added."""
        if len(self.texts) == 1:
            raise ProblemError(self.texts[0])
        if self.texts:
            shown = self.texts[:_FAULTS_SHOWN]
            if len(self.texts) > len(shown):
                shown.append(f"... and {len(self.texts) - len(shown)} more")
            listing = "\n".join(f"- {text}" for text in shown)
            raise ProblemError(f"{len(self.texts)} things are wrong:\n{listing}")


def _shown(value: object) -> str:
    return "nothing" if value is None else f"{value!r:.80}"


# ---------------------------------------------------------------- loading


def load_problem(path: Path | str) -> Problem:
    """Return the checked problem of the folder `path`.

    Of a project in OpenEvolve's format (its directory, or its evaluator file) the initial program is judged
    once, in the sandbox: what its evaluator returns are the objectives. Raises `ProblemError` naming
    everything that is wrong, each with file, key, expected, found and a fix.
    """
    folder = Path(path).resolve()
    if is_project(folder):
        return open_project(folder).loaded.problem
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise ProblemError(f"{path}: expected a problem folder, found {found}; correct the path")
    faults = _Faults(Path(path))
    data = _toml(folder / _TOML, faults)
    has_examples, has_scorer = (folder / _EXAMPLES).is_file(), (folder / _SCORER).is_file()
    if has_examples and has_scorer:
        faults.add("", "", f"either {_EXAMPLES} or {_SCORER}", "both", "remove one")
    elif not (has_examples or has_scorer):
        faults.add("", "", f"either {_EXAMPLES} or {_SCORER}", "neither", "add one")

    faults.check_keys(_TOML, "", data, ("problem", "limits", "objectives", "features", "grouping"))
    if "problem" not in data:
        faults.add(_TOML, "[problem]", "this section", "none", "add it, with statement and inputs")
    about = _table(data, "problem", faults)
    faults.check_keys(_TOML, "[problem] ", about, ("statement", "entry", "inputs"))
    statement = _statement(about, faults)
    entry = _entry(about, faults)
    parameters = _parameters(about, faults)
    limits = _limits(_table(data, "limits", faults), _EXAMPLE_LIMITS if has_examples else Limits(), faults)
    train: tuple[Example, ...] = ()
    heldout: tuple[Example, ...] = ()
    objectives: tuple[Objective, ...] = ()
    if has_examples:
        if "objectives" in data:
            fix = f"remove them: each training row of {_EXAMPLES} is an objective"
            faults.add(_TOML, "[[objectives]]", "none", "some", fix)
        train, heldout = _examples(folder, parameters, faults)
        objectives = tuple(Objective(f"row-{index + 1}") for index in range(len(train)))
    if has_scorer:
        objectives = _objectives(data, faults)
        _check_scorer_source(folder / _SCORER, faults)
    features = _features(data, objectives, faults)
    groups = _groups(_table(data, "grouping", faults), objectives, faults)
    seeds = _seeds(folder, entry, parameters, faults)
    faults.raise_any()

    problem = Problem(
        id=problem_id(folder),
        version="",
        statement=statement,
        entry=entry or "",
        parameters=parameters or (),
        objectives=objectives,
        seeds=seeds,
        limits=limits,
        train=train,
        heldout=heldout,
        scorer_path=str(folder / _SCORER) if has_scorer else None,
        features=features,
        folder=str(folder),
        groups=groups,
    )
    return dataclasses.replace(problem, version=_version(problem))


def _version(problem: Problem) -> str:
    """Return a hash over what can change a judgement or a run, wherever the folder lies.

    That is every value of the problem and, with a scorer, the bytes of `score.py` and of all files under
    `data/`. Notes, comments in `problem.toml` and other files do not count. Nor does the grouping: it says
    how a trainer reads the judgements, which stay the same, so it may be set after the runs were made.
    """
    values = dataclasses.asdict(problem)
    for outside in ("id", "version", "folder", "scorer_path", "groups"):
        del values[outside]
    for table, added in ((values, _LATER_FIELDS), (values["limits"], _LATER_LIMITS)):
        for later, unset in added.items():  # so that older versions stay what they are
            if table[later] == unset:
                del table[later]
    digests: dict[str, str] = {}
    if problem.scorer_path is not None:
        scorer = Path(problem.scorer_path)
        for path in (scorer, *sorted((scorer.parent / "data").rglob("*"))):
            if path.is_file():
                with path.open("rb") as file:
                    name = path.relative_to(scorer.parent).as_posix()
                    digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return content_id(json.dumps(values, sort_keys=True), json.dumps(digests, sort_keys=True))


def with_folder_grouping(problem: Problem) -> Problem:
    """Return a stored problem with the grouping that its folder has now.

    The grouping is no part of the version and may have been set after the problem was stored. Where the
    folder is gone, or holds another version by now, the problem comes back as it was stored. Raises
    `ProblemError` if the folder is there and cannot be used.
    """
    if problem.folder is None or not (Path(problem.folder) / _TOML).is_file():
        return problem
    now = load_problem(problem.folder)
    return dataclasses.replace(problem, groups=now.groups) if now.version == problem.version else problem


def _read(path: Path, faults: _Faults, advice: str = "add it") -> str | None:
    """Return the text of a file, or none after adding a fault."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        faults.add(path.name, "", "a file", "none", advice)
    except OSError as error:
        faults.add(path.name, "", "a readable file", str(error.strerror), "correct its permissions")
    except UnicodeDecodeError as error:
        faults.add(path.name, "", "UTF-8 text", str(error), "save it as UTF-8")
    return None


def _toml(path: Path, faults: _Faults) -> dict[str, Any]:
    """Return the content of a TOML file; raises `ProblemError` if there is none to check."""
    advice = "every problem folder has one, or an evaluator.py; `evovpo new` makes a skeleton"
    text = _read(path, faults, advice)
    try:
        data = tomllib.loads(text or "")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        faults.add(path.name, "", "TOML", str(error), "correct it")
        data = {}
    faults.raise_any()
    return data


def _table(data: Mapping[str, Any], key: str, faults: _Faults) -> Mapping[str, Any]:
    """Return the section `key`, empty if it is missing or no section."""
    value = data.get(key, {})
    if isinstance(value, Mapping):
        return value
    faults.add(_TOML, key, f"a section [{key}]", _shown(value), "write it as one")
    return {}


def _tables(data: Mapping[str, Any], key: str, file: str, faults: _Faults) -> list[Mapping[str, Any]]:
    """Return the sections `[[key]]`, none if they are missing or no list of sections."""
    value = data.get(key, [])
    if isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
        return value
    faults.add(file, key, f"[[{key}]] sections", _shown(value), "write them with two brackets")
    return []


def _statement(about: Mapping[str, Any], faults: _Faults) -> str:
    value = about.get("statement")
    if isinstance(value, str) and value.strip():
        return value
    faults.add(_TOML, "[problem] statement", "a text", _shown(value), "say what a program should do")
    return ""


def _entry(about: Mapping[str, Any], faults: _Faults) -> str | None:
    value = about.get("entry", "solve")
    if isinstance(value, str) and _is_name(value):
        return value
    faults.add(
        _TOML, "[problem] entry", "a function name", _shown(value), 'write for example entry = "solve"'
    )
    return None


def _parameters(about: Mapping[str, Any], faults: _Faults) -> tuple[str, ...] | None:
    value = about.get("inputs")
    if (
        isinstance(value, list)
        and all(isinstance(name, str) and _is_name(name) for name in value)
        and len(set(value)) == len(value)
    ):
        return tuple(value)
    fix = 'write for example inputs = ["text"]'
    faults.add(_TOML, "[problem] inputs", "a list of different parameter names", _shown(value), fix)
    return None


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _limits(table: Mapping[str, Any], defaults: Limits, faults: _Faults) -> Limits:
    known = [entry.name for entry in dataclasses.fields(Limits)]
    faults.check_keys(_TOML, "[limits] ", table, known)
    changes: dict[str, Any] = {}
    for key in known:
        if key not in table:
            continue
        value, where = table[key], f"[limits] {key}"
        smallest = _SMALLEST_LIMIT.get(key, 1)
        if key == "wall_seconds":
            if _is_number(value) and 0 < value <= _LONGEST_SECONDS:
                changes[key] = float(value)
            else:
                expected = f"seconds above 0, at most {_LONGEST_SECONDS}"
                faults.add(_TOML, where, expected, _shown(value), "change it")
        elif type(value) is int and smallest <= value < 2**31:
            changes[key] = value
        else:
            faults.add(_TOML, where, f"a whole number, {smallest} or more", _shown(value), "change it")
    return dataclasses.replace(defaults, **changes)


def _objectives(data: Mapping[str, Any], faults: _Faults) -> tuple[Objective, ...]:
    objectives: list[Objective] = []
    if not data.get("objectives"):
        fix = f"add one with the name of each reward that {_SCORER} returns"
        faults.add(_TOML, "[[objectives]]", "at least one", "none", fix)
        return ()
    for index, table in enumerate(_tables(data, "objectives", _TOML, faults)):
        where = f"[[objectives]] {index + 1} "
        faults.check_keys(_TOML, where, table, ("name", "description"))
        name, description = table.get("name"), table.get("description", "")
        if not (isinstance(name, str) and name.strip()):
            faults.add(_TOML, f"{where}name", "a text", _shown(name), "name the objective")
        elif name in (objective.name for objective in objectives):
            faults.add(_TOML, f"{where}name", "a new name", f"{name!r} again", "rename one")
        elif not isinstance(description, str):
            faults.add(_TOML, f"{where}description", "a text", _shown(description), "write one")
        else:
            objectives.append(Objective(name, description))
    return tuple(objectives)


def _features(
    data: Mapping[str, Any], objectives: Sequence[Objective], faults: _Faults
) -> tuple[Feature, ...]:
    known = ["length", *(f"reward:{objective.name}" for objective in objectives)]
    features: list[Feature] = []
    for index, table in enumerate(_tables(data, "features", _TOML, faults)):
        where = f"[[features]] {index + 1} "
        faults.check_keys(_TOML, where, table, ("name", "edges", "bins"))
        name, edges, bins = table.get("name"), table.get("edges", []), table.get("bins", 8)
        if name not in known:
            hint = nearest_hint(str(name), known)
            faults.add(_TOML, f"{where}name", "a known feature", _shown(name), hint)
        elif name in (feature.name for feature in features):
            faults.add(_TOML, f"{where}name", "a new name", f"{name!r} again", "remove one")
        elif not (isinstance(edges, list) and all(map(_is_number, edges)) and edges == sorted(set(edges))):
            faults.add(_TOML, f"{where}edges", "ascending numbers", _shown(edges), "sort them")
        elif not (type(bins) is int and 2 <= bins <= 1000):
            faults.add(_TOML, f"{where}bins", "a whole number from 2 to 1000", _shown(bins), "change it")
        elif edges and "bins" in table:
            faults.add(_TOML, f"{where}bins", "either edges or bins", "both", "remove one")
        else:
            inner = tuple(float(edge) for edge in edges)
            features.append(Feature(name, inner, len(inner) + 1 if inner else bins))
    return tuple(features)


def _groups(
    table: Mapping[str, Any], objectives: Sequence[Objective], faults: _Faults
) -> tuple[tuple[int, ...], ...]:
    """Return the groups that `[grouping]` names, and a group of its own for every other objective.

    Ordered by the first member; empty if nothing is grouped.
    """
    faults.check_keys(_TOML, "[grouping] ", table, ("groups",))
    value, where = table.get("groups", []), "[grouping] groups"
    if not isinstance(value, list) or not all(isinstance(group, list) and group for group in value):
        fix = 'write for example groups = [["row-1", "row-4"]]'
        faults.add(_TOML, where, "a list of lists of objective names", _shown(value), fix)
        return ()
    names = [objective.name for objective in objectives]
    place: dict[str, int] = {}
    for number, group in enumerate(value):
        for name in group:
            if name not in names:
                if names:  # else the objectives themselves are at fault, which is said already
                    hint = nearest_hint(str(name), names)
                    faults.add(_TOML, where, "a known objective", _shown(name), hint)
            elif name in place:
                faults.add(_TOML, where, "each objective once", f"{name!r} again", "remove it from one group")
            else:
                place[name] = number
    members: dict[int, list[int]] = {}
    for index, name in enumerate(names):
        members.setdefault(place.get(name, len(value) + index), []).append(index)
    return tuple(map(tuple, members.values())) if len(members) < len(names) else ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# ---------------------------------------------------------------- examples


class _Row(NamedTuple):
    where: str
    """For example `train[2]`."""
    example: Example


def _examples(
    folder: Path, parameters: tuple[str, ...] | None, faults: _Faults
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return training and held-out rows, checked against each other."""
    text = _read(folder / _EXAMPLES, faults)
    if text is None:
        return (), ()
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        faults.add(_EXAMPLES, "", "JSON", str(error), "correct it")
        return (), ()
    if not isinstance(data, dict):
        faults.add(_EXAMPLES, "", '{"train": [...], "heldout": [...]}', _shown(data), "wrap the rows")
        return (), ()
    faults.check_keys(_EXAMPLES, "", data, ("train", "heldout"))
    if parameters == ():
        faults.add(_TOML, "[problem] inputs", "at least one name", "none", "examples need inputs: name them")
    if not data.get("train"):
        faults.add(_EXAMPLES, "train", "at least one row", "none", "add rows")
    train = _rows(data, "train", parameters, faults)
    heldout = _rows(data, "heldout", parameters, faults)
    for first, second in _twins(train, heldout):
        wanted, found = first.example.output, second.example.output
        if not same_value(found, wanted):
            expected = f"the output {_shown(wanted)} of {first.where}, which has the same inputs"
            faults.add(_EXAMPLES, second.where, expected, _shown(found), "correct one or remove it")
    return tuple(row.example for row in train), tuple(row.example for row in heldout)


def _rows(
    data: Mapping[str, Any], part: str, parameters: tuple[str, ...] | None, faults: _Faults
) -> list[_Row]:
    rows = data.get(part, [])
    if not isinstance(rows, list):
        faults.add(_EXAMPLES, part, "a list of rows", _shown(rows), "write a list")
        return []
    found: list[_Row] = []
    for index, row in enumerate(rows):
        where = f"{part}[{index}]"
        if not isinstance(row, dict) or not row.keys() >= {"inputs", "output"}:
            faults.add(_EXAMPLES, where, '{"inputs": [...], "output": ...}', _shown(row), "complete it")
            continue
        faults.check_keys(_EXAMPLES, f"{where}.", row, ("inputs", "output"))
        inputs = row["inputs"]
        expected, fix = _value_fault(row)
        if expected:
            faults.add(_EXAMPLES, where, expected, _shown(row), fix)
        elif not isinstance(inputs, list):
            faults.add(_EXAMPLES, f"{where}.inputs", "a list", _shown(inputs), "put brackets around it")
        elif parameters is not None and len(inputs) != len(parameters):
            expected = f"{len(parameters)} inputs ({', '.join(parameters)})"
            fix = f"correct the row, or inputs in {_TOML}"
            faults.add(_EXAMPLES, f"{where}.inputs", expected, f"{len(inputs)}: {_shown(inputs)}", fix)
        else:
            found.append(_Row(where, Example(tuple(inputs), row["output"])))
    return found


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not a JSON value")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"a key is repeated in an object with the keys {[key for key, _ in pairs]!r:.80}")
    return value


def _value_fault(value: Json, depth: int = 0) -> tuple[str, str]:
    """Return (what is expected, fix) for a value that cannot be used, else two empty texts."""
    if depth > _DEEPEST_VALUE:
        return f"at most {_DEEPEST_VALUE} nested lists", "flatten the value"
    if isinstance(value, float) and not math.isfinite(value):
        return "finite numbers", "use a smaller one"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "Unicode text without halves of surrogate pairs", "correct the text"
    parts: list[Json] = []
    if isinstance(value, list):
        parts = value
    elif isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    for part in parts:
        fault = _value_fault(part, depth + 1)
        if fault[0]:
            return fault
    return "", ""


def _twins(*parts: Sequence[_Row]) -> Iterator[tuple[_Row, _Row]]:
    """Yield pairs of rows with the same inputs: the first such row and each later one.

    Inputs are the same if a program cannot tell them apart: 1 and 1.0 differ here.
    """
    first: dict[str, _Row] = {}
    for row in itertools.chain(*parts):
        other = first.setdefault(json.dumps(row.example.inputs, sort_keys=True), row)
        if other is not row:
            yield other, row


# ---------------------------------------------------------------- programs and scorer


def _seed_paths(folder: Path) -> list[Path]:
    return [folder / "seed.py", *sorted(path for path in folder.glob("seed_*.py") if path.is_file())]


def _seeds(
    folder: Path, entry: str | None, parameters: tuple[str, ...] | None, faults: _Faults
) -> tuple[Program, ...]:
    seeds: list[Program] = []
    for path in _seed_paths(folder):
        source = _read(path, faults, "every search starts from a program, however poor: write one")
        if source is None:
            continue
        functions = _functions(source, path, faults)
        if functions is not None and entry is not None:
            _check_function(functions.get(entry), path, entry, parameters, faults)
        seeds.append(Program(source))
    return tuple(seeds)


def _check_scorer_source(path: Path, faults: _Faults) -> None:
    """Check, without running it, that a scorer defines what will be called."""
    source = _read(path, faults)
    functions = None if source is None else _functions(source, path, faults)
    if functions is not None:
        _check_function(functions.get("cases"), path, "cases", (), faults)
        _check_function(functions.get("score"), path, "score", ("outputs",), faults)


def _functions(source: str, path: Path, faults: _Faults) -> dict[str, _Function] | None:
    """Return the functions that a file defines at its top level, or none after adding a fault."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        found = f"a syntax error: {error.msg}"
        faults.add(path.name, f"line {error.lineno}", "Python", found, "correct it")
        return None
    except (ValueError, RecursionError, MemoryError) as error:
        faults.add(path.name, "", "Python", str(error), "correct it")
        return None
    return {node.name: node for node in tree.body if isinstance(node, _Function)}


def _check_function(
    function: _Function | None, path: Path, name: str, parameters: tuple[str, ...] | None, faults: _Faults
) -> None:
    """Add a fault unless there is a plain function that takes these parameters (none: any)."""
    if function is None:
        fix = f"define {name}({', '.join(parameters or ())}) at the top level"
        faults.add(path.name, name, "a function of this name", "none", fix)
    elif isinstance(function, ast.AsyncFunctionDef):
        faults.add(path.name, name, "a plain function", "an async one", "remove async")
    elif parameters is not None and not _takes(function.args, len(parameters)):
        expected = f"a function of {len(parameters)} arguments ({', '.join(parameters)})"
        faults.add(path.name, name, expected, f"{name}({ast.unparse(function.args)})", "change its arguments")


def _takes(arguments: ast.arguments, count: int) -> bool:
    """True if a function with these arguments can be called with `count` positional ones."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return (
        positional - len(arguments.defaults) <= count
        and (count <= positional or arguments.vararg is not None)
        and all(default is not None for default in arguments.kw_defaults)
    )


# ---------------------------------------------------------------- finding problems


def bundled_root() -> Path | None:
    """Return the folder of the problems that come with the package, or none if they are not there.

    That is `_problems` inside an installed package, `problems` beside it in a checkout.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_problems", package.parent / "problems"):
        if root.is_dir() and next(root.glob("*/*/problem.toml"), None) is not None:
            return root
    return None


def bundled_problems() -> tuple[str, ...]:
    """Return the names of the problems that come with the package, such as `strings/phone-dashes`."""
    root = bundled_root()
    if root is None:
        return ()
    return tuple(sorted(path.parent.relative_to(root).as_posix() for path in root.glob("**/problem.toml")))


def bundled_suites() -> dict[str, list[SuiteEntry]]:
    """Return the suites that come with the package by name."""
    root = bundled_root()
    files = [] if root is None else sorted(root.glob("*/suite.toml"))
    return {file.parent.name: load_suite(file) for file in files}


def resolve_problem(name_or_path: str | Path) -> Path:
    """Return the folder that is meant by a path, or by the name of a bundled problem.

    Of a project in OpenEvolve's format the evaluator file is returned where that was given. A folder that
    exists wins over a bundled problem of the same name. Raises `ProblemError` with the nearest known names if
    there is neither.
    """
    text = str(name_or_path)
    path = Path(name_or_path)
    if path.name == "problem.toml" and path.is_file():
        path = path.parent
    elif path.is_file() and is_project(path):
        return path.resolve()
    if (path / "problem.toml").is_file():
        return path.resolve()
    root, names = bundled_root(), bundled_problems()
    if root is not None and text.strip("/") in names:
        return root / text.strip("/")
    suite = path if (path / "suite.toml").is_file() else root / text if root is not None and text else None
    if suite is not None and (suite / "suite.toml").is_file():
        raise ProblemError(
            f"{text}: expected one problem, found a suite of several; name one of its problems"
        )
    if path.is_dir():
        return path.resolve()  # loading it says what is missing
    raise ProblemError(
        f"{text}: expected a problem folder or the name of a bundled problem, found neither;"
        f" {_name_hint(text, names)}"
    )


def _name_hint(name: str, names: Collection[str]) -> str:
    """Return a hint that also knows a bundled problem by the last part of its name."""
    if not names:
        return "no problems came with this package; give the path of a folder"
    same_end = [known for known in names if known.rpartition("/")[2] == name.rpartition("/")[2]]
    return f"did you mean {' or '.join(map(repr, same_end))}?" if same_end else nearest_hint(name, names)


def load_suite(path: Path | str) -> list[SuiteEntry]:
    """Return the problems of a suite, in the order of its file, without loading them.

    `path` is a `suite.toml`, its folder, or the name of a bundled suite such as `strings`. Raises
    `ProblemError` naming everything that is wrong with the file.
    """
    file = _suite_file(Path(path))
    faults = _Faults(file.parent)
    data = _toml(file, faults)
    faults.check_keys(file.name, "", data, ("suite", "problems"))
    suite = data.get("suite")
    if isinstance(suite, dict):
        faults.check_keys(file.name, "[suite] ", suite, ("name", "description"))
    if not isinstance(suite, dict) or not isinstance(suite.get("name"), str):
        faults.add(file.name, "[suite] name", "a text", "none", "name the suite")
    if not data.get("problems"):
        faults.add(file.name, "[[problems]]", "at least one", "none", "add one with a path")
    entries: list[SuiteEntry] = []
    for index, table in enumerate(_tables(data, "problems", file.name, faults)):
        where = f"[[problems]] {index + 1} "
        faults.check_keys(file.name, where, table, ("path", "difficulty"))
        inner, difficulty = table.get("path"), table.get("difficulty")
        folder = (file.parent / inner).resolve() if isinstance(inner, str) and inner else None
        if folder is None or not (folder / _TOML).is_file():
            expected = "a problem folder, relative to this file"
            faults.add(file.name, f"{where}path", expected, _shown(inner), "correct it")
        elif folder in (entry.path for entry in entries):
            faults.add(file.name, f"{where}path", "a new problem", f"{inner!r} again", "remove one")
        elif difficulty is not None and not (_is_number(difficulty) and 0 <= difficulty <= 1):
            expected = "a number from 0 to 1"
            faults.add(file.name, f"{where}difficulty", expected, _shown(difficulty), "correct it")
        else:
            entries.append(SuiteEntry(folder, None if difficulty is None else float(difficulty)))
    faults.raise_any()
    return entries


def _suite_file(path: Path) -> Path:
    if path.is_file():
        return path
    root = bundled_root()
    for folder in [path] if root is None else [path, root / path]:
        if (folder / "suite.toml").is_file():
            return folder / "suite.toml"
    known = [] if root is None else sorted(file.parent.name for file in root.glob("*/suite.toml"))
    hint = nearest_hint(str(path), known) if known else "give the path of a suite.toml"
    raise ProblemError(
        f"{path}: expected a suite.toml, its folder or the name of a bundled suite, found none; {hint}"
    )


def problem_id(path: Path) -> str:
    """Return the id of the problem in a folder, without loading it; for a project, also by its evaluator."""
    folder = path.parent if path.is_file() else path
    root = bundled_root()
    if root is not None and folder.is_relative_to(root):
        return folder.relative_to(root).as_posix()
    return folder.name


# ---------------------------------------------------------------- checking by running


def check_problem(path: Path | str, config: Config | None = None) -> CheckReport:
    """Return how the starting programs of a folder do, and what is doubtful about the problem.

    Raises `ProblemError` for a folder that cannot be used or a scorer outside its contract, and
    `SandboxError` if programs cannot be run here.
    """
    if is_project(Path(path)):
        return check_project(open_project(Path(path)).loaded, config)
    problem = load_problem(path)
    seeds: list[SeedReport] = []
    with open_evaluator(problem, config or Config()) as evaluator:
        for file, program in zip(_seed_paths(Path(str(problem.folder))), problem.seeds, strict=True):
            evaluation = evaluator.evaluate(program)
            seeds.append(
                SeedReport(
                    name=file.name,
                    evaluation=evaluation,
                    train_passed=sum(value == 1.0 for value in evaluation.rewards or ()),
                    heldout_passed=sum(evaluator.evaluate_heldout(program)),
                )
            )
    return CheckReport(problem, tuple(seeds), tuple(_doubts(problem, seeds)))


def check_project(loaded: Loaded, config: Config | None = None) -> CheckReport:
    """Return how the initial program of an OpenEvolve project does; it is run only if it was not yet.

    Raises `SandboxError` if programs cannot be run here.
    """
    problem = loaded.problem
    assert problem.evaluator is not None
    evaluation = loaded.initial
    if evaluation is None:
        with open_openevolve(problem, config or Config()) as evaluator:
            evaluation = evaluator.evaluate_all_stages(problem.seeds[0])
    passed = sum(value == 1.0 for value in evaluation.rewards or ())
    seed = SeedReport("the initial program", evaluation, passed, 0)
    return CheckReport(problem, (seed,), loaded.remarks)


def _doubts(problem: Problem, seeds: Sequence[SeedReport]) -> Iterator[str]:
    """Yield what does not stop a run but should be known before it."""
    if problem.is_by_example:
        train = [_Row(f"train[{index}]", row) for index, row in enumerate(problem.train)]
        heldout = [_Row(f"heldout[{index}]", row) for index, row in enumerate(problem.heldout)]
        if len(train) < _FEW_ROWS:
            yield (
                f"examples.json: {len(train)} training rows; a program can memorise so few, give at least"
                f" {_FEW_ROWS}"
            )
        if not heldout:
            yield "examples.json: no held-out rows; a memorised answer then looks like a solved problem"
        for first, second in _twins(train, heldout):
            if first.where.startswith("train") and second.where.startswith("heldout"):
                yield f"examples.json: {second.where} repeats {first.where}; a held-out row must be a new one"
            else:
                yield f"examples.json: {second.where} repeats {first.where}; remove one"
    count = len(problem.objectives)
    components = len(problem.groups) or count
    if components > _MANY_OBJECTIVES:
        what = f"{components} groups of objectives" if problem.groups else f"{count} objectives"
        yield (
            f"{what}; above {_MANY_OBJECTIVES} random weightings are nearly even, and training rewards little"
            " but the mean: group what is alike in [grouping] (`evovpo doctor` suggests how), or train with"
            " alpha below 1"
        )
    if components == 1:
        yield "one objective only; search and training then see one number, not a vector"
    programs: dict[str, str] = {}
    for seed in seeds:
        evaluation = seed.evaluation
        twin = programs.setdefault(evaluation.program_id, seed.name)
        if twin != seed.name:
            yield f"{seed.name}: the same program as {twin}; remove one"
        if evaluation.status is not Status.OK:
            yield f"{seed.name}: fails ({evaluation.feedback}); search starts better from a program that runs"
        elif seed.train_passed == count:
            yield f"{seed.name}: already has the full reward; there is nothing to search for"


# ---------------------------------------------------------------- making a folder


def new_problem(folder: Path | str, kind: Literal["examples", "score"] = "examples") -> Path:
    """Write a working problem to start from into `folder` and return its path.

    The folder is made if it is missing. Raises `ProblemError`, having written nothing, if it holds
    anything already or cannot be made.
    """
    path = Path(folder)
    if kind not in SKELETONS:
        raise ProblemError(f"kind of problem: found {kind!r}; {nearest_hint(kind, SKELETONS)}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ProblemError(
                f"{path}: expected a new or empty folder, found files in it; choose another name"
            )
        for name, text in SKELETONS[kind].items():
            (path / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ProblemError(
            f"{path}: the folder cannot be written: {error.strerror}; choose another place"
        ) from error
    return path
