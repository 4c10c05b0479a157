"""Reads a TOML file of an experiment part by part, and collects all that is wrong with it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError, nearest_hint
from evovpo.problem.suites import load_suite, problem_id, resolve_problem

_GIVEN_ELSEWHERE = {
    ("search", "evaluations"): "evaluations = [...]",
    ("run", "seed"): "seeds = [...]",
    ("store", "url"): "--store",
}
_FAULTS_SHOWN = 30
_MOST_SEEDS = 10_000
"""Seeds of one command; more is a slip of the pen."""
_MOST_NAME = 100
"""Characters of a name."""


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds that a text names, as `0-4` or `0,3,7-9`, in its order.

    Raises `ConfigError` for anything else, a range that runs backwards, a seed named twice, and too many.
    """
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else -1
        if last < first:
            raise ConfigError(f"--seeds: expected seeds as 0-4 or 0,3,7, found {text!r}; change it")
        if len(seeds) + last - first + 1 > _MOST_SEEDS:
            raise ConfigError(f"--seeds: {text!r} names more than {_MOST_SEEDS} seeds; name fewer")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds: {text!r} names a seed twice; name each once")
    return tuple(seeds)


def raise_faults(faults: Collection[str]) -> None:
    """Raise `ConfigError` if there is a fault."""
    listed = list(faults)
    if len(listed) == 1:
        raise ConfigError(listed[0])
    if listed:
        shown = listed[:_FAULTS_SHOWN]
        more = [f"... and {len(listed) - len(shown)} more"] if len(listed) > len(shown) else []
        lines = "\n".join(f"- {fault}" for fault in [*shown, *more])
        raise ConfigError(f"{len(listed)} things are wrong:\n{lines}")


class Reader:
    """Returns the parts of a file, with a usable value in the place of one that is wrong.

    `where` names a part in errors, the file itself if it is empty.
    """

    def __init__(self, path: Path, faults: list[str]) -> None:
        self.path = path
        self.faults = faults

    def add(self, fault: str, where: str = "") -> None:
        """Take note of what is wrong, once."""
        text = f"{self.path}: {where + ': ' if where else ''}{fault}"
        if text not in self.faults:
            self.faults.append(text)

    def known(self, table: Mapping[str, Any], keys: Sequence[str], where: str = "") -> None:
        """Check that a table has no other keys."""
        for key in table:
            if key not in keys:
                self.add(f"unknown key {key!r}; {nearest_hint(key, keys)}", where)

    def table(self, data: Mapping[str, Any], key: str, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return a table, empty without it; with `keys` it may hold no others."""
        table = data.get(key, {})
        if not isinstance(table, Mapping):
            self.add(f"{key}: expected a [{key}] table, found {table!r:.80}")
            return {}
        if keys is not None:
            self.known(table, keys, f"[{key}]")
        return dict(table)

    def tables(self, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        """Return a list of tables that must be there."""
        value = data.get(key)
        if isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            return value
        self.add(f"{key}: expected [[{key}]] tables, found {value!r:.80}")
        return []

    def name(self, table: Mapping[str, Any], where: str = "") -> str:
        """Return the name that something is told apart by."""
        value = table.get("name")
        if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _MOST_NAME:
            return value
        self.add(
            f"name: expected a short text, found {value!r:.80}; runs and rows are told apart by it", where
        )
        return ""

    def checked(
        self, table: Mapping[str, Any], key: str, default: Any, what: str, is_fit: Callable[[Any], bool],
        where: str = "",
    ) -> Any:  # fmt: skip
        """Return a value, or `default` where it is missing or does not fit."""
        value = table.get(key, default)
        if is_fit(value):
            return value
        self.add(f"{key}: expected {what}, found {value!r:.80}; change it", where)
        return default

    def whole(self, table: Mapping[str, Any], key: str, default: int, where: str = "", least: int = 1) -> int:
        """Return a whole number."""
        fits = lambda value: type(value) is int and value >= least  # noqa: E731
        found: int = self.checked(table, key, default, f"a whole number, {least} or more", fits, where)
        return found

    def number(self, table: Mapping[str, Any], key: str, where: str = "", most: float = 1.0) -> float:
        """Return a number from 0, which is the default."""
        fits = lambda value: type(value) in (int, float) and 0 <= value <= most  # noqa: E731
        return float(self.checked(table, key, 0.0, f"a number from 0 to {most:g}", fits, where))

    def rates(
        self, table: Mapping[str, Any], key: str, default: tuple[float, ...], where: str
    ) -> tuple[float, ...]:
        """Return different numbers, 0 or more."""
        value = self.checked(
            table, key, default, "different numbers, 0 or more",
            lambda values: isinstance(values, list | tuple) and 0 < len(values) == len(set(values))
            and all(type(one) in (int, float) and one >= 0 for one in values), where,
        )  # fmt: skip
        return tuple(float(one) for one in value)

    def names(
        self,
        table: Mapping[str, Any],
        key: str,
        known: Sequence[str],
        default: Sequence[str],
        where: str = "",
    ) -> tuple[str, ...]:
        """Return some of the names that are known, at least one unless the default is empty."""
        value = self.checked(
            table, key, list(default), f"names of {list(known)}",
            lambda names: isinstance(names, list) and all(name in known for name in names)
            and bool(names or not default), where,
        )  # fmt: skip
        return tuple(value)

    def different(self, names: Sequence[str], what: str) -> None:
        """Check that no name is there twice."""
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.add(f"{what}: {name!r} is there twice; runs and rows are told apart by it: rename one")

    def numbers(self, data: Mapping[str, Any], key: str, default: list[int], least: int) -> tuple[int, ...]:
        """Return one or several different whole numbers."""
        value = data.get(key, default)
        found = value if isinstance(value, list) else [value]
        if not (found and all(type(number) is int and number >= least for number in found)):
            self.add(f"{key}: expected whole numbers, {least} or more, found {value!r:.80}; change it")
        elif len(set(found)) < len(found):
            self.add(f"{key}: {value!r:.80} names a number twice; name each once")
        else:
            return tuple(found)
        return ()

    def problems(self, data: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the folders that problems and suites name, relative to the file or bundled."""
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
                    self.add(
                        f"problems: {other} and {folder} have the same name, by which runs are told apart; "
                        "rename one of the folders"
                    )
        return tuple(folders.values())

    def settings(self, value: object, where: str) -> Mapping[str, object]:
        """Return sections of settings, after checking each key by itself."""
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
    """Return the folder of a problem, or those of a suite."""
    try:
        return [resolve_problem(name)]
    except ProblemError as no_problem:
        try:
            return [entry.path for entry in load_suite(name)]
        except ProblemError as no_suite:
            is_suite = "found a suite" in str(no_problem)
            raise (no_suite if is_suite else no_problem) from None
