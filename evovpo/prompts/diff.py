"""Parses the SEARCH/REPLACE edits in an answer, and applies either all or none of them to a program.

The SEARCH text is matched exactly, then without trailing whitespace, then without common indentation. The
first comparison that finds a match decides. Several matches are an error.
"""

import difflib
import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evovpo.errors import AnswerError
from evovpo.prompts.blocks import shared
from evovpo.prompts.replies import named_path

_SEARCH = re.compile(r"[ \t]*<{5,9}[ \t]*SEARCH[ \t]*")
_DIVIDER = re.compile(r"[ \t]*={5,9}[ \t]*")
_REPLACE = re.compile(r"[ \t]*>{5,9}[ \t]*REPLACE[ \t]*")
_READINGS = 8
_SHOWN = 100


class Edit(NamedTuple):
    """One SEARCH/REPLACE edit. If several lines could be the divider `=======`, each split is kept."""

    number: int
    readings: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """(SEARCH lines, REPLACE lines) of each split. The split with the most SEARCH lines is first."""
    path: str


class _Place(NamedTuple):
    path: str
    start: int
    """Index of the first line to replace, from 0."""
    search: tuple[str, ...]
    replace: tuple[str, ...]


def read_edits(answer: str) -> list[Edit]:
    """Return the edits in an answer. Raises `AnswerError` if there is no edit or an edit is incomplete."""
    edits: list[Edit] = []
    body: list[str] | None = None
    path = ""
    for line in answer.replace("\r\n", "\n").split("\n"):
        if body is None:
            if _SEARCH.fullmatch(line):
                body = []
            elif named := named_path(line):
                path = named
        elif _REPLACE.fullmatch(line):
            marks = [at for at, text in enumerate(body) if _DIVIDER.fullmatch(text)]
            if not marks:
                raise AnswerError(f"edit {len(edits) + 1} has no line '=======' between SEARCH and REPLACE")
            readings = tuple((tuple(body[:at]), tuple(body[at + 1 :])) for at in reversed(marks[:_READINGS]))
            edits.append(Edit(len(edits) + 1, readings, path))
            body, path = None, ""
        elif _SEARCH.fullmatch(line):
            break
        else:
            body.append(line)
    if body is not None:
        raise AnswerError(f"edit {len(edits) + 1} does not end with '>>>>>>> REPLACE'")
    if not edits:
        raise AnswerError("it has no edit of the form '<<<<<<< SEARCH', '=======', '>>>>>>> REPLACE'")
    return edits


def apply_edits(files: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Return the files {path: text} after all edits. Raises `AnswerError` if an edit cannot be applied."""
    lines = {path: _unix_newlines(text).split("\n") for path, text in files.items()}
    places: list[_Place] = []
    for edit in edits:
        if edit.path and edit.path not in files:
            raise AnswerError(
                f"edit {edit.number} names the file {edit.path!r}, which the program does not have"
            )
        places.append(_locate({edit.path: lines[edit.path]} if edit.path else lines, edit))
    ordered = sorted(places, key=lambda place: (place.path, place.start))
    for first, second in itertools.pairwise(ordered):
        if first.path == second.path and second.start < first.start + len(first.search):
            raise AnswerError(f"two edits touch line {second.start + 1}{_in_file(second.path)}; join them")
    for place in reversed(ordered):
        lines[place.path][place.start : place.start + len(place.search)] = place.replace
    edited = {path: "\n".join(found) for path, found in lines.items()}
    for path, text in files.items():
        if _unix_newlines(text) != text:
            edited[path] = edited[path].replace("\n", "\r\n")
    if edited == dict(files):
        raise AnswerError("it changes nothing")
    return edited


def _unix_newlines(text: str) -> str:
    plain = text.replace("\r\n", "\n")
    return plain if plain.count("\n") == text.count("\r\n") else text


def _locate(files: Mapping[str, Sequence[str]], edit: Edit) -> _Place:
    its = f"edit {edit.number}: its SEARCH text is"
    if not any(line.strip() for line in edit.readings[-1][0]):
        raise AnswerError(f"{its} empty; begin with the lines that are there now")
    for exactness in range(3):
        for search, replace in edit.readings:
            places = [
                (path, start) for path, lines in files.items() for start in _matches(lines, search, exactness)
            ]
            if len(places) > 1:
                named = ", ".join(f"{start + 1}{_in_file(path)}" for path, start in places[:5])
                raise AnswerError(f"{its} found in {len(places)} places (lines {named}); give more lines")
            if places:
                path, start = places[0]
                if exactness == 2:
                    window = files[path][start : start + len(search)]
                    old, new = _common_indent(search), _common_indent(window)
                    if any(line.strip() and not line.startswith(old) for line in replace):
                        raise AnswerError(f"{its} indented otherwise than the program, and REPLACE less so")
                    replace = tuple(new + line[len(old) :] if line.strip() else "" for line in replace)
                return _Place(path, start, tuple(search), tuple(replace))
    raise AnswerError(f"{its} {_describe_nearest(files, edit.readings[-1][0])}")


def _matches(lines: Sequence[str], search: Sequence[str], exactness: int) -> list[int]:
    if exactness > 0:
        lines, search = [line.rstrip() for line in lines], [line.rstrip() for line in search]
    shape = _dedented if exactness == 2 else list
    size, wanted = len(search), shape(search)
    key = next(at for at, line in enumerate(search) if line.strip())
    bare = search[key].strip()
    return [
        start
        for start in range(len(lines) - size + 1)
        if lines[start + key].strip() == bare and shape(lines[start : start + size]) == wanted
    ]


def _common_indent(lines: Sequence[str]) -> str:
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    return functools.reduce(lambda one, other: one[: shared(one, other)], indents or [""])


def _dedented(lines: Sequence[str]) -> list[str]:
    width = len(_common_indent(lines))
    return [line[width:] if line.strip() else "" for line in lines]


def _describe_nearest(files: Mapping[str, Sequence[str]], search: Sequence[str]) -> str:
    wanted = [line.strip() for line in search]
    bare = {path: [line.strip() for line in lines] for path, lines in files.items()}

    def same(place: tuple[str, int]) -> int:
        pairs = zip(wanted, bare[place[0]][place[1] :], strict=False)
        return sum(bool(line) and line == other for line, other in pairs)

    path, start = best = max(((path, at) for path in bare for at in range(len(bare[path]))), key=same)
    if same(best):
        found = bare[path][start : start + len(wanted)]
        for at, (line, there) in enumerate(itertools.zip_longest(wanted, found, fillvalue=""), start + 1):
            if line != there:
                place = f"{at}{_in_file(path)}, {there[:_SHOWN]!r} where SEARCH has {line[:_SHOWN]!r}"
                return f"not in the program; nearest is line {place}"
        return f"indented otherwise than line {start + 1}{_in_file(path)} and following"
    first = next(filter(None, wanted))
    for path, lines in bare.items():
        for close in difflib.get_close_matches(first, lines, n=1):
            place = f"{lines.index(close) + 1}{_in_file(path)}"
            return f"not in the program; nearest is line {place}, {close[:_SHOWN]!r}"
    return f"not in the program, nor anything like {first[:_SHOWN]!r}"


def _in_file(path: str) -> str:
    return f" of {path}" if path else ""
