"""Loads and checks problem folders.

A folder has `problem.toml`, the starting programs `seed.py` and `seed_*.py`, and either `examples.json`
(programming by example) or the scorer `score.py`, which may read files under `data/`.
"""

import dataclasses
import json
import keyword
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from evovpo.analysis.scores import number
from evovpo.errors import ProblemError, nearest_hint
from evovpo.files import file_digests
from evovpo.problem.examples import read_examples
from evovpo.problem.faults import EXAMPLES, SCORER, TOML, Faults, read_toml, shown, tables
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.openevolve.opening import open_project
from evovpo.problem.programs import check_scorer_source, read_seeds
from evovpo.problem.suites import problem_id
from evovpo.types import Example, Feature, Limits, Objective, Problem, content_id

_EXAMPLE_LIMITS = Limits(wall_seconds=2.0, cpu_seconds=2)
_SMALLEST_LIMIT = {"memory_mb": 16, "result_bytes": 1024, "open_files": 16, "threads": 0, "processes": 0}
_LONGEST_SECONDS = 86_400
_LATER_FIELDS = {"suffix": ".py", "evaluator": None, "validation": ()}
"""Field that `Problem` got later -> default. Defaults are not hashed, so old problems keep their version."""
_LATER_LIMITS = {"processes": 0, "disk_mb": 64}


def load_problem(path: Path | str) -> Problem:
    """Return the checked problem of the folder `path`.

    For an OpenEvolve project, `path` is its folder or its evaluator file. The project's initial program is
    evaluated once in the sandbox. Raises a `ProblemError` that lists all errors, each with a fix.
    """
    folder = Path(path).resolve()
    if is_project(folder):
        return open_project(folder).problem
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise ProblemError(f"{path}: expected a problem folder, found {found}; correct the path")
    faults = Faults(Path(path))
    data = read_toml(folder / TOML, faults)
    has_examples, has_scorer = (folder / EXAMPLES).is_file(), (folder / SCORER).is_file()
    if has_examples is has_scorer:
        found, fix = ("both", "remove one") if has_scorer else ("neither", "add one")
        faults.add("", "", f"either {EXAMPLES} or {SCORER}", found, fix)
    faults.check_keys(TOML, "", data, ("problem", "limits", "objectives", "features", "grouping"))
    if "problem" not in data:
        faults.add(TOML, "[problem]", "this section", "none", "add it, with statement and inputs")
    about = _table(data, "problem", ("statement", "entry", "inputs"), faults)

    def asked(key: str, expected: str, is_right: Callable[[Any], bool], fix: str, usual: str = "") -> Any:
        value = about.get(key, usual or None)
        if is_right(value):
            return value
        faults.add(TOML, f"[problem] {key}", expected, shown(value), fix)
        return None

    statement = asked("statement", "a text", _is_text, "say what a program should do")
    entry = asked("entry", "a function name", _is_name, 'write for example entry = "solve"', "solve")
    names = asked(
        "inputs", "a list of different parameter names", _are_names, 'write for example inputs = ["text"]'
    )
    parameters = None if names is None else tuple(names)
    limits = _limits(data, _EXAMPLE_LIMITS if has_examples else Limits(), faults)
    train: tuple[Example, ...] = ()
    heldout: tuple[Example, ...] = ()
    objectives: tuple[Objective, ...] = ()
    if has_examples:
        if "objectives" in data:
            fix = f"remove them: each training row of {EXAMPLES} is an objective"
            faults.add(TOML, "[[objectives]]", "none", "some", fix)
        train, heldout = read_examples(folder, parameters, faults)
        objectives = tuple(Objective(f"row-{index + 1}") for index in range(len(train)))
    if has_scorer:
        objectives = _objectives(data, faults)
        check_scorer_source(folder / SCORER, faults)
    features = _features(data, objectives, faults)
    groups = _groups(_table(data, "grouping", ("groups",), faults), objectives, faults)
    seeds = read_seeds(folder, entry, parameters, faults)
    faults.raise_any()

    problem = Problem(
        id=problem_id(folder),
        version="",
        statement=statement,
        entry=entry,
        parameters=parameters or (),
        objectives=objectives,
        seeds=seeds,
        limits=limits,
        train=train,
        heldout=heldout,
        scorer_path=str(folder / SCORER) if has_scorer else None,
        features=features,
        folder=str(folder),
        groups=groups,
    )
    return dataclasses.replace(problem, version=_version(problem))


def _version(problem: Problem) -> str:
    """Return a hash of everything that can change a search: most fields, the scorer and its data files."""
    values = dataclasses.asdict(problem)
    for outside in ("id", "version", "folder", "scorer_path", "groups"):
        del values[outside]
    for table, added in ((values, _LATER_FIELDS), (values["limits"], _LATER_LIMITS)):
        for later, unset in added.items():  # to keep older versions unchanged
            if table[later] == unset:
                del table[later]
    digests: dict[str, str] = {}
    if problem.scorer_path is not None:
        scorer = Path(problem.scorer_path)
        digests = file_digests(scorer.parent, (scorer, *(scorer.parent / "data").rglob("*")))
    return content_id(json.dumps(values, sort_keys=True), json.dumps(digests, sort_keys=True))


def with_folder_grouping(problem: Problem) -> Problem:
    """Return a stored problem, with its `groups` of objectives updated from the current `problem.toml`.

    The problem is unchanged if its folder is missing or has another version. Raises `ProblemError` if the
    folder is invalid.
    """
    if problem.folder is None or not (Path(problem.folder) / TOML).is_file():
        return problem
    now = load_problem(problem.folder)
    return dataclasses.replace(problem, groups=now.groups) if now.version == problem.version else problem


def _table(data: Mapping[str, Any], key: str, known: Collection[str], faults: Faults) -> Mapping[str, Any]:
    value = data.get(key, {})
    if isinstance(value, Mapping):
        faults.check_keys(TOML, f"[{key}] ", value, known)
        return value
    faults.add(TOML, key, f"a section [{key}]", shown(value), "write it as one")
    return {}


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_name, value)) and len(set(value)) == len(value)


def _limits(data: Mapping[str, Any], defaults: Limits, faults: Faults) -> Limits:
    known = [entry.name for entry in dataclasses.fields(Limits)]
    table = _table(data, "limits", known, faults)
    changes: dict[str, Any] = {}
    for key in filter(table.__contains__, known):
        value, smallest = table[key], _SMALLEST_LIMIT.get(key, 1)
        expected = f"a whole number, {smallest} or more"
        is_right = type(value) is int and smallest <= value < 2**31
        if key == "wall_seconds":
            expected = f"seconds above 0, at most {_LONGEST_SECONDS}"
            is_right = number(value) is not None and 0 < value <= _LONGEST_SECONDS
        if is_right:
            changes[key] = float(value) if key == "wall_seconds" else value
        else:
            faults.add(TOML, f"[limits] {key}", expected, shown(value), "change it")
    return dataclasses.replace(defaults, **changes)


def _objectives(data: Mapping[str, Any], faults: Faults) -> tuple[Objective, ...]:
    objectives: list[Objective] = []
    if not data.get("objectives"):
        fix = f"add one with the name of each reward that {SCORER} returns"
        faults.add(TOML, "[[objectives]]", "at least one", "none", fix)
        return ()
    for where, table in tables(data, "objectives", TOML, ("name", "description"), faults):
        name, description = table.get("name"), table.get("description", "")
        if not _is_text(name):
            faults.add(TOML, f"{where}name", "a text", shown(name), "name the objective")
        elif name in (objective.name for objective in objectives):
            faults.add(TOML, f"{where}name", "a new name", f"{name!r} again", "rename one")
        elif not isinstance(description, str):
            faults.add(TOML, f"{where}description", "a text", shown(description), "write one")
        else:
            objectives.append(Objective(name, description))
    return tuple(objectives)


def _features(
    data: Mapping[str, Any], objectives: Sequence[Objective], faults: Faults
) -> tuple[Feature, ...]:
    known = ["length", *(f"reward:{objective.name}" for objective in objectives)]
    features: list[Feature] = []
    for where, table in tables(data, "features", TOML, ("name", "edges", "bins"), faults):
        name, edges, bins = table.get("name"), table.get("edges", []), table.get("bins", 8)
        if name not in known:
            faults.add(TOML, f"{where}name", "a known feature", shown(name), nearest_hint(str(name), known))
        elif name in (feature.name for feature in features):
            faults.add(TOML, f"{where}name", "a new name", f"{name!r} again", "remove one")
        elif not (isinstance(edges, list) and None not in map(number, edges) and edges == sorted(set(edges))):
            faults.add(TOML, f"{where}edges", "ascending numbers", shown(edges), "sort them")
        elif not (type(bins) is int and 2 <= bins <= 1000):
            faults.add(TOML, f"{where}bins", "a whole number from 2 to 1000", shown(bins), "change it")
        elif edges and "bins" in table:
            faults.add(TOML, f"{where}bins", "either edges or bins", "both", "remove one")
        else:
            inner = tuple(float(edge) for edge in edges)
            features.append(Feature(name, inner, len(inner) + 1 if inner else bins))
    return tuple(features)


def _groups(
    table: Mapping[str, Any], objectives: Sequence[Objective], faults: Faults
) -> tuple[tuple[int, ...], ...]:
    value, where = table.get("groups", []), "[grouping] groups"
    if not isinstance(value, list) or not all(isinstance(group, list) and group for group in value):
        fix = 'write for example groups = [["row-1", "row-4"]]'
        faults.add(TOML, where, "a list of lists of objective names", shown(value), fix)
        return ()
    names = [objective.name for objective in objectives]
    place: dict[str, int] = {}
    for at, group in enumerate(value):
        for name in group:
            if name not in names:
                if names:  # else faults of the objectives were reported already
                    hint = nearest_hint(str(name), names)
                    faults.add(TOML, where, "a known objective", shown(name), hint)
            elif name in place:
                faults.add(TOML, where, "each objective once", f"{name!r} again", "remove it from one group")
            else:
                place[name] = at
    members: dict[int, list[int]] = {}
    for index, name in enumerate(names):
        members.setdefault(place.get(name, len(value) + index), []).append(index)
    return tuple(map(tuple, members.values())) if len(members) < len(names) else ()
