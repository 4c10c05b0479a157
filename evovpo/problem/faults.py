"""Collects the errors in the files of a folder, to report them together."""

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evovpo.errors import ProblemError, nearest_hint, raise_faults

TOML, EXAMPLES, SCORER = "problem.toml", "examples.json", "score.py"


@dataclass(slots=True)
class Faults:
    folder: Path
    texts: list[str] = field(default_factory=list)

    def add(self, file: str, key: str, expected: str, found: str, fix: str) -> None:
        """Add an error at `key` in a file; an empty `key` means the whole file."""
        place = f"{self.folder / file}: {key}" if key else str(self.folder / file)
        self.texts.append(f"{place}: expected {expected}, found {found}; {fix}")

    def check_keys(self, file: str, where: str, found: Iterable[str], known: Collection[str]) -> None:
        for key in found:
            if key not in known:
                self.add(file, f"{where}{key}", "a known key", "this one", nearest_hint(key, known))

    def raise_any(self) -> None:
        raise_faults(self.texts, ProblemError)


def shown(value: object) -> str:
    return "nothing" if value is None else f"{value!r:.80}"


def read_file(path: Path, faults: Faults, advice: str = "add it") -> str | None:
    """Return the text of a file. If this fails, add an error and return None."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        faults.add(path.name, "", "a file", "none", advice)
    except OSError as error:
        faults.add(path.name, "", "a readable file", str(error.strerror), "correct its permissions")
    except UnicodeDecodeError as error:
        faults.add(path.name, "", "UTF-8 text", str(error), "save it as UTF-8")
    return None


def read_toml(path: Path, faults: Faults) -> dict[str, Any]:
    """Return the content of a TOML file. Raises `ProblemError` if the file is missing or is not TOML."""
    advice = "every problem folder has one, or an evaluator.py; `evovpo new` makes a skeleton"
    text = read_file(path, faults, advice)
    try:
        data = tomllib.loads(text or "")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        faults.add(path.name, "", "TOML", str(error), "correct it")
        data = {}
    faults.raise_any()
    return data


def tables(
    data: Mapping[str, Any], key: str, file: str, known: Collection[str], faults: Faults
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (location, content) for each section `[[key]]`. Errors are added to `faults`."""
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        faults.add(file, key, f"[[{key}]] sections", shown(value), "write them with two brackets")
        return
    for number, table in enumerate(value, start=1):
        where = f"[[{key}]] {number} "
        faults.check_keys(file, where, table, known)
        yield where, table
