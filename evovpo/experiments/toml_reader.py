"""Reads the TOML file of an experiment and collects all its errors."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evovpo.config import Config
from evovpo.config_values import expected
from evovpo.errors import ProblemError, nearest_hint
from evovpo.problem.suites import load_suite, problem_id, resolve_problem

_GIVEN_ELSEWHERE = {
    ("search", "evaluations"): "evaluations = [...]",
    ("run", "seed"): "seeds = [...]",
    ("store", "url"): "--store",
}
_MOST_SEEDS = 10_000
_MOST_NAME = 100


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds in a text such as `0-4` or `0,3,7-9`. Raises `ValueError` if the text is invalid."""
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else -1
        if last < first:
            raise ValueError(f"expected seeds as 0-4 or 0,3,7, found {text!r}; change it")
        if len(seeds) + last - first + 1 > _MOST_SEEDS:
            raise ValueError(f"{text!r} names more than {_MOST_SEEDS} seeds; name fewer")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{text!r} names a seed twice; name each once")
    return tuple(seeds)


def several(value: Any) -> tuple[Any, ...]:
    """Return one number, or a list of numbers, as a tuple. Raises `ValueError` if a number is repeated."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if any(values.count(one) > 1 for one in values):
        raise ValueError(f"{value!r:.80} names a number twice; name each once")
    return values


def _seeds(value: Any) -> tuple[Any, ...]:
    return parse_seeds(value) if isinstance(value, str) else several(value)


Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Numbers = Annotated[
    tuple[Positive, ...], Field(title="whole numbers, 1 or more", min_length=1), BeforeValidator(several)
]
Seeds = Annotated[
    tuple[Count, ...], Field(title="whole numbers, 0 or more", min_length=1), BeforeValidator(_seeds)
]


class Part(BaseModel):
    """A table of a TOML file, with a field for each key.

    A field's title states the expected value in error messages. A field with `exclude=True` is not a key.
    """

    model_config = ConfigDict(strict=True, frozen=True, arbitrary_types_allowed=True)


_Part = TypeVar("_Part", bound=Part)


class PartReader:
    """A reader of a TOML file. It collects errors and replaces invalid values by usable values.

    In all methods, `where` is the name of a table for error messages; it is empty for the file itself.
    """

    def __init__(self, path: Path, faults: list[str]) -> None:
        self.path = path
        self.faults = faults

    def add(self, fault: str, where: str = "") -> None:
        self.faults.append(f"{self.path}: {where + ': ' if where else ''}{fault}")

    def part(self, kind: type[_Part], table: Mapping[str, Any], where: str = "", **given: Any) -> _Part:
        """Return a `kind` object with the values of `table` and `given`; defaults replace invalid values."""
        keys = {key: field for key, field in kind.model_fields.items() if not field.exclude}
        for key in table:
            if key not in keys:
                self.add(f"unknown key {key!r}; {nearest_hint(key, keys)}", where)
        values = {key: table[key] for key in keys if key in table} | given
        for key, value in values.items():
            inner = keys[key].annotation if key in keys else None
            if isinstance(inner, type) and issubclass(inner, Part) and isinstance(value, Mapping):
                values[key] = self.part(inner, value, key)
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                key = str(fault["loc"][0])
                wanted = keys[key].title or expected(keys[key])
                what = f"expected {wanted}, found {table[key]!r:.80}; change it"
                self.add(f"{key}: {fault['ctx']['error'] if fault['type'] == 'value_error' else what}", where)
                values.pop(key, None)
        return kind.model_validate(values)

    def tables(self, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        """Return the list of tables under `key`. If there is none, add an error and return []."""
        value = data.get(key)
        if isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            return value
        self.add(f"{key}: expected [[{key}]] tables, found {value!r:.80}")
        return []

    def name(self, table: Mapping[str, Any], where: str = "") -> str:
        """Return the name in a table. If it is missing or invalid, add an error and return an empty text."""
        value = table.get("name")
        if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _MOST_NAME:
            return value
        self.add(f"name: expected a short text, found {value!r:.80}; runs and rows have it", where)
        return ""

    def names(
        self, value: Any, key: str, known: Sequence[str], where: str = "", least: int = 0
    ) -> tuple[str, ...]:
        """Return `value` if it lists `least` or more names from `known`. If not, add an error; return ()."""
        is_listed = isinstance(value, list | tuple) and len(value) >= least
        if is_listed and all(name in known for name in value):
            return tuple(value)
        self.add(f"{key}: expected names of {list(known)}, found {value!r:.80}; change it", where)
        return ()

    def different(self, names: Sequence[str], what: str) -> None:
        """Add an error for each name that occurs twice. `what` is the kind of names, such as `proposers`."""
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.add(f"{what}: {name!r} is there twice; rename one")

    def problems(self, data: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the folders of the listed problems and of the problems in the listed suites."""
        value = data.get("problems")
        if not (isinstance(value, list) and value and all(isinstance(entry, str) for entry in value)):
            self.add(f"problems: expected a list of problems and suites, found {value!r:.80}")
            return ()
        folders: dict[str, Path] = {}
        for entry in value:
            near = self.path.parent / entry
            try:
                found = _folders(str(near) if near.exists() else entry)
            except ProblemError as error:
                self.add(f"problems: {error}")
                continue
            for folder in found:
                other = folders.setdefault(problem_id(folder), folder)
                if other != folder:
                    self.add(f"problems: {other} and {folder} have the same name; rename one of the folders")
        return tuple(folders.values())

    def settings(self, value: object, where: str) -> Mapping[str, object]:
        """Return `value`, a mapping from sections to settings. Add an error for each invalid key."""
        if not isinstance(value, Mapping):
            self.add(f"expected sections with keys, found {value!r:.80}", where)
            return {}
        self.faults += Config.key_faults(value, f"{self.path}: {where}")
        for (section, key), place in _GIVEN_ELSEWHERE.items():
            table = value.get(section)
            if isinstance(table, Mapping) and key in table:
                self.add(f"{section}.{key}: a batch has it as {place}; remove it here", where)
        return value


def _folders(name: str) -> list[Path]:
    try:
        return [resolve_problem(name)]
    except ProblemError as no_problem:
        try:
            return [entry.path for entry in load_suite(name)]
        except ProblemError as no_suite:
            is_suite = "found a suite" in str(no_problem)
            raise (no_suite if is_suite else no_problem) from None
