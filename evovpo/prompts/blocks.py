"""EVOLVE-BLOCK markers: only lines between markers may change; without markers, all lines may change.

A marker is a line that begins, after a comment sign of any language, with `EVOLVE-BLOCK-START` or
`EVOLVE-BLOCK-END` (the convention of OpenEvolve). An end marker outside of a block is ignored, and so is a
start marker inside a block. A block without an end marker extends to the end of the file.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from evovpo.errors import AnswerError

_MARKER = re.compile(r"[^\w\n]*EVOLVE-BLOCK-(START|END)\b")


class Layout(NamedTuple):
    """A text split at its markers. `fixed` and `blocks` alternate; the first and last part are fixed."""

    fixed: tuple[tuple[str, ...], ...]
    """Lines outside of blocks, including marker lines."""
    blocks: tuple[tuple[str, ...], ...]


def layout(source: str) -> Layout | None:
    """Return `source` split at its markers, or None if it has no markers."""
    if "EVOLVE-BLOCK-START" not in source:
        return None
    parts: list[list[str]] = [[]]
    for line in source.split("\n"):
        found = _MARKER.match(line) if "EVOLVE-BLOCK-" in line else None
        kind = found[1] if found else ""
        is_inside = len(parts) % 2 == 0
        if is_inside and kind == "END":
            parts.append([])
        parts[-1].append(line)
        if not is_inside and kind == "START":
            parts.append([])
    if len(parts) % 2 == 0:
        parts.append([])
    divided = tuple(map(tuple, parts))
    return Layout(divided[::2], divided[1::2]) if len(parts) > 1 else None


def keep_fixed(old: str, new: str) -> str:
    """Return `new`, but with lines outside of blocks exactly as in `old`.

    Raises `AnswerError` if these lines differ in more than whitespace, or if the markers differ.
    """
    wanted = layout(old)
    if wanted is None:
        return new
    found = layout(new)
    if found is None:
        raise AnswerError("the EVOLVE-BLOCK markers are missing; the whole program is to be given, with them")
    if len(found.blocks) != len(wanted.blocks):
        raise AnswerError(
            f"it has {len(found.blocks)} EVOLVE-BLOCKs; the program has {len(wanted.blocks)}, which stay"
        )
    for theirs, ours in zip(found.fixed, wanted.fixed, strict=True):
        if _without_blanks(theirs) != _without_blanks(ours):
            change = _first_change(ours, theirs)
            raise AnswerError(f"it changed a line outside of the EVOLVE-BLOCKs: {change}")
    lines = list(wanted.fixed[0])
    for block, after in zip(found.blocks, wanted.fixed[1:], strict=True):
        lines += [*block, *after]
    return "\n".join(lines)


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(one), len(other))


def _without_blanks(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


def _first_change(ours: Sequence[str], theirs: Sequence[str]) -> str:
    left = [line.strip() for line in ours if line.strip()]
    right = [line.strip() for line in theirs if line.strip()]
    at = shared(left, right)
    if at == len(left) or left[at] in right[at:]:
        return f"{right[at][:120]!r} was added"
    if at == len(right) or right[at] in left[at:]:
        return f"{left[at][:120]!r} was removed"
    return f"{left[at][:120]!r} became {right[at][:120]!r}"
