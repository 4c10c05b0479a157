"""Splits a completion of an instruction model into answers, and answers into code blocks."""

import itertools
import re
from typing import NamedTuple

from evovpo.prompts.bundles import HEADER

_DELIMITER = re.compile(r"[#*>_ \t]*={2,}[ \t]*ANSWER[ \t]*(\d+)[ \t]*={2,}[*_ \t:]*", re.IGNORECASE)
_OPENING = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([^`]*)")
_CLOSING = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*")
_NAMED = re.compile(r"[\s#*`>]*(=== FILE(?: \(no newline at end\))?: .+? ===)[\s*`]*")
_PROGRAM_START = re.compile(r"^[ \t]*(?:`{3,}|~{3,}|<{5,} ?SEARCH|=== FILE)", re.MULTILINE)
_IDEA_CHARACTERS = 300
# Without an opening tag, the chat template has written it; a tag before a quote is part of a program.
_REASONING = re.compile(r"\A(?:\s*<think>.*?(?:</think>|\Z)|.*</think>(?!['\"]))", re.DOTALL)


class Block(NamedTuple):
    text: str
    language: str
    is_closed: bool
    path: str
    """File path from a header line before the block; empty without a header."""


class _Line(NamedTuple):
    text: str
    block: int
    """Number of the block that contains the line (fences belong to their block); -1 outside of blocks."""


def delimiter(number: int) -> str:
    """Return the delimiter line that precedes answer `number`; answers are numbered from 1."""
    return f"=== ANSWER {number} ==="


def without_reasoning(text: str) -> str:
    """Return a completion without its reasoning, up to `</think>`; empty if `<think>` has no end."""
    return _REASONING.sub("", text)


def idea_of(text: str) -> str:
    """Return the text before an answer's first code block or edit as one short line, which may be empty."""
    found = _PROGRAM_START.search(without_reasoning(text))
    if found is None:
        return ""
    words = " ".join(without_reasoning(text)[: found.start()].split())
    return words if len(words) <= _IDEA_CHARACTERS else f"{words[:_IDEA_CHARACTERS]}..."


def split_answers(text: str, answers: int) -> list[str]:
    """Return at most `answers` answers of a completion, in order.

    If one answer is requested, the whole text is the answer. Otherwise, an answer begins at each delimiter.
    If the number of the first delimiter is not 1, text before it with a code block is also an answer. If
    there are no delimiters, every code block is an answer. If there are no code blocks either, the whole text
    is one answer.
    """
    text = without_reasoning(text)
    if not text.strip() or answers == 0:
        return []
    if answers == 1:
        return [text]
    lines = _lines(text)
    starts = [at for at, line in enumerate(lines) if line.block < 0 and _DELIMITER.fullmatch(line.text)]
    if not starts:
        parts = ["\n".join(part) for number, part in _parts(lines) if number >= 0]
        return parts[:answers] or [text]
    found = []
    first = _DELIMITER.fullmatch(lines[starts[0]].text)
    if first is not None and first[1] != "1" and any(line.block >= 0 for line in lines[: starts[0]]):
        found.append("\n".join(line.text for line in lines[: starts[0]]))
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        found.append("\n".join(line.text for line in lines[start + 1 : end]))
    return found[:answers]


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    path = ""
    for number, lines in _parts(_lines(text)):
        if number < 0:
            path = next(filter(None, map(named_path, reversed(lines))), "")
        else:
            found.append(_block(lines, path))
            path = ""
    return found


def named_path(line: str) -> str:
    """Return the path in a file header line, with or without Markdown decoration; empty for other lines."""
    found = _NAMED.fullmatch(line)
    header = HEADER.fullmatch(found[1]) if found else None
    return header[2] if header else ""


def _parts(lines: list[_Line]) -> list[tuple[int, list[str]]]:
    grouped = itertools.groupby(lines, key=lambda line: line.block)
    return [(number, [line.text for line in part]) for number, part in grouped]


def _block(lines: list[str], path: str) -> Block:
    opening = _OPENING.fullmatch(lines[0])
    assert opening is not None
    indent, fence, info = opening.groups()
    is_closed = len(lines) > 1 and _closes(lines[-1], fence)
    content = lines[1:-1] if is_closed else lines[1:]
    if not is_closed and content and content[-1].endswith(fence):
        # The closing fence is at the end of the last line of code.
        content, is_closed = [*content[:-1], content[-1].removesuffix(fence)], True
    while content and not is_closed and not content[-1]:
        content = content[:-1]
    # Remove the fence's indentation from every line that has it.
    outer = re.compile(rf"\A[ \t]{{0,{len(indent)}}}")
    text = "".join(outer.sub("", line) + "\n" for line in content)
    return Block(text, info.split()[0].lower() if info.split() else "", is_closed, path)


def _closes(line: str, fence: str) -> bool:
    found = _CLOSING.fullmatch(line)
    return found is not None and found[1].startswith(fence)


def _lines(text: str) -> list[_Line]:
    lines = text.replace("\r\n", "\n").split("\n")
    found: list[_Line] = []
    fence, number = "", -1
    will_close = False
    for at, line in enumerate(lines):
        opening = None if fence else _OPENING.fullmatch(line)
        if opening:
            fence, number, will_close = opening[2], number + 1, False
        elif fence and not will_close and _DELIMITER.fullmatch(line):
            will_close = not _is_unclosed(lines[at + 1 :], fence)
            fence = fence if will_close else ""
        found.append(_Line(line, number if fence else -1))
        if fence and not opening and _closes(line, fence):
            fence = ""
    return found


def _is_unclosed(following: list[str], fence: str) -> bool:
    for line in following:
        if _closes(line, fence):
            return False
        opening = _OPENING.fullmatch(line)
        if opening and opening[3].strip():
            return True
    return True
