"""Writes examples as alignments: inputs are split into runs, and outputs are references to these runs.

A run of characters is a series of letters, a series of digits, a series of spaces, or one other character.
A token is a name in brackets `⟦…⟧`, or a single character.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from evovpo.prompts.blocks import shared

MAX_RUNS = 20
"""Number of runs that can be referenced from the start of an argument."""
MAX_BACK = 8
"""Number of runs that can be referenced from the end of an argument."""
MAX_PIECES = 24
"""Maximum number of pieces that show an output. A longer output is cut, with a mark at the cut."""
_ARGUMENT_LETTERS = "abcd"
_RUN = re.compile(r"[^\W\d_]+|[0-9]+| +|.", re.DOTALL)
_CASES = (("", str), ("u", str.upper), ("l", str.lower), ("t", str.capitalize))


def runs(text: str) -> list[str]:
    """Return the runs of `text`: series of letters, digits or spaces, and single other characters."""
    return _RUN.findall(text)


@lru_cache(maxsize=4096)
def run_class(run: str) -> str:
    """Return a token for a run of letters, digits or spaces; for another character, its `plain` text."""
    if run[0].isalpha():
        if run.islower():
            kind = "w"
        elif run.isupper() and len(run) > 1:
            kind = "W"
        elif run[0].isupper() and (len(run) == 1 or run[1:].islower()):
            kind = "C"
        else:
            kind = "M"
        return f"⟦{kind}{min(len(run), 7)}⟧"
    if run[0] in "0123456789":
        return f"⟦d{min(len(run), 6)}⟧"
    if run[0] == " ":
        return f"⟦s{min(len(run), 3)}⟧"
    return plain(run)


def plain(text: str) -> str:
    return text.replace("⟦", "[").replace("⟧", "]")


class _Way(NamedTuple):
    vote: str
    """Reference and form as text. Of a piece's references, the one that fits in most rows is used."""
    source: tuple[int, int]
    """Index of the argument, and index of the run in this argument."""
    order: int
    code: str


class _Piece(NamedTuple):
    """One piece of an output: literal text, or the references to all runs that could produce the text."""

    text: str
    ways: tuple[_Way, ...] = ()
    form: str = ""


@lru_cache(maxsize=4096)  # the prompts of a run repeat the same rows and a few programs
def _pieces(
    inputs_runs: tuple[tuple[str, ...], ...], output: str, constant: frozenset[int]
) -> tuple[_Piece, ...]:
    found: list[_Piece] = []
    position = 0
    places = [
        (k, i, run)
        for k, args in enumerate(inputs_runs)
        for i, run in enumerate(args[:MAX_RUNS])
        if run[0].isalnum()
    ]
    while position < len(output) and len(found) < MAX_PIECES:
        ways = [
            (length + (0.5 if form in _WHOLE else 0.0), -_FORM_ORDER.index(form[:1]), form, length, (k, i))
            for k, i, run in places
            if output[position].isalnum()
            for form, length in _matches(run, output, position)
            if form[:1] in _WHOLE or length >= 3 or position not in constant
        ]
        if not ways:
            found.append(_Piece(output[position]))
            position += 1
            continue
        # The first of equally good ways is taken.
        best = max(ways, key=lambda way: way[:2])
        pointed = tuple(
            _Way(code + best[2], way[4], order, code)
            for way in ways
            if way[:3] == best[:3]
            for order, code in enumerate(_reference_tokens(way[4], inputs_runs))
        )
        found.append(_Piece(output[position : position + best[3]], pointed, best[2]))
        position += best[3]
    return tuple(found)


_WHOLE = ("", "u", "l", "t")
_FORM_ORDER = (*_WHOLE, "<", ">", "[")


def _matches(run: str, output: str, position: int) -> list[tuple[str, int]]:
    """Return (form, length) for each form of `run`, such as its upper case, found at `position`."""
    found = []
    for form, change in _CASES:
        changed = change(run)
        if changed and output.startswith(changed, position):
            found.append((form, len(changed)))
            break
    if found and len(run) == 1:
        return found
    rest = output[position : position + 9]
    for mark, source in (("<", run), ("<u", run.upper()), ("<l", run.lower())):
        length = shared(source[:9], rest)
        if 0 < length < len(run):
            found.append((f"{mark}{length}", length))
            break
    for length in range(min(len(run) - 1, 9), 0, -1):
        if rest.startswith(run[-length:]):
            found.append((f">{length}", length))
            break
    for start in range(1, min(len(run) - 2, 9)):
        length = shared(run[start : start + 9], rest)
        if length >= 2 and start + length < len(run):
            found.append((f"[{start}:{length}", length))
            break
    return found


def _common_affix_positions(outputs: Sequence[str | None]) -> list[frozenset[int]]:
    texts = [text for text in outputs if text is not None]
    if len(texts) < 2 or len(set(texts)) == 1:
        return [frozenset() for _ in outputs]
    head = min(shared(texts[0], text) for text in texts)
    tail = min(shared(texts[0][head:][::-1], text[head:][::-1]) for text in texts)
    return [
        frozenset() if text is None else frozenset((*range(head), *range(len(text) - tail, len(text))))
        for text in outputs
    ]


def _reference_tokens(source: tuple[int, int], args: Sequence[Sequence[str]]) -> tuple[str, ...]:
    k, i = source
    back = len(args[k]) - i
    letter = _ARGUMENT_LETTERS[k]
    return (f"⟦@{letter}{i}⟧", f"⟦@{letter}-{back}⟧") if back <= MAX_BACK else (f"⟦@{letter}{i}⟧",)


def describe_inputs(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one text for each of N rows, with the kind and length of each stretch of its arguments."""
    per_row = [[runs(text) for text in row] for row in rows]
    shared = Counter(run for row in per_row for run in {run for args in row for run in args})
    texts = []
    for row in per_row:
        parts = []
        for k, args in enumerate(row):
            parts.append(f"⟦{_ARGUMENT_LETTERS[k]}⟧")
            for run in args[:MAX_RUNS]:
                parts.append(run_class(run))
                if (
                    run[0].isalnum()
                    and len(run) <= 12
                    and shared[run] > 1
                    and (run[0].isalpha() or len(run) > 1 or shared[run] == len(rows))
                ):
                    parts.append(plain(run))
            if len(args) > MAX_RUNS:
                parts.append("⟦cut⟧")
        texts.append("".join(parts))
    return texts


def describe_outputs(rows: Sequence[Sequence[str]], outputs: Sequence[str | None]) -> list[str]:
    """Return one text per row: its output as references to runs and as characters. None is an error."""
    per_row = [tuple(tuple(runs(text)) for text in row) for row in rows]
    constants = _common_affix_positions(outputs)
    pieces = [
        None if output is None else _pieces(args, output, constant)
        for args, output, constant in zip(per_row, outputs, constants, strict=True)
    ]
    votes: Counter[str] = Counter()
    for found in pieces:
        votes.update({way.vote for piece in found or () for way in piece.ways})
    texts = []
    for found, output in zip(pieces, outputs, strict=True):
        if found is None or output is None:
            texts.append("⟦err⟧")
            continue
        parts: list[str] = []
        last = (0, -1)
        for piece in found:
            if not piece.ways:
                parts.append(plain(piece.text))
                continue
            following = (last[0], last[1] + 1)
            *_, last, code = max(
                (votes[vote], source == following, -order, -source[0], -source[1], source, code)
                for vote, source, order, code in piece.ways
            )
            parts.append(code)
            if piece.form:
                parts.append(_form_tokens(piece.form))
        if sum(len(piece.text) for piece in found) < len(output):
            parts.append("⟦cut⟧")
        texts.append("".join(parts))
    return texts


def _form_tokens(form: str) -> str:
    if form[0] == "[":
        start, length = form[1:].split(":")
        return f"⟦from{start}⟧⟦<{length}⟧"
    if form[0] == "<" and form[1] in "ul":
        return f"⟦{form[1]}⟧⟦<{form[2:]}⟧"
    return f"⟦{form}⟧"


def alignment_tokens() -> list[str]:
    """Return all bracketed tokens of alignments, in a fixed order."""
    tokens = [f"⟦{letter}⟧" for letter in _ARGUMENT_LETTERS] + ["⟦cut⟧", "⟦err⟧"]
    tokens += [f"⟦{kind}{length}⟧" for kind in "wWCM" for length in range(1, 8)]
    tokens += [f"⟦d{length}⟧" for length in range(1, 7)] + [f"⟦s{length}⟧" for length in range(1, 4)]
    tokens += [f"⟦@{letter}{index}⟧" for letter in _ARGUMENT_LETTERS for index in range(MAX_RUNS)]
    tokens += [f"⟦@{letter}-{index}⟧" for letter in _ARGUMENT_LETTERS for index in range(1, MAX_BACK + 1)]
    tokens += ["⟦u⟧", "⟦l⟧", "⟦t⟧"]
    tokens += [f"⟦{mark}{length}⟧" for mark in "<>" for length in range(1, 10)]
    return tokens + [f"⟦from{start}⟧" for start in range(1, 9)]
