"""The text that the built-in model for strings reads and writes, and its vocabulary.

Prompt: how many answers are wanted, the examples as alignments, and optionally a parent program
with its outputs. Completion: a chain of up to four expressions between `⟦sep⟧` marks, closed by
`⟦end⟧`. Everything is text; `vocabulary` and `TOKEN_PATTERN` say how a tokenizer cuts it, so that
decoding is plain concatenation.
"""

import re
from collections.abc import Sequence

from evovpo.builtin.chain import BEGIN, END, MAX_ANSWERS, PAD, SEPARATOR
from evovpo.builtin.strings.grammar import ARGUMENTS, PATTERNS
from evovpo.builtin.strings.references import alignment_tokens, describe_inputs, describe_outputs

_MARKS = (
    "⟦unk⟧", "⟦ex⟧", "⟦to⟧", "⟦par⟧", "⟦ran⟧", "⟦ok⟧", "⟦no⟧", "⟦out⟧",
    *(f"⟦m{m}⟧" for m in range(1, MAX_ANSWERS + 1)),
)  # fmt: skip

_METHODS = (
    ".upper()", ".lower()", ".title()", ".capitalize()", ".swapcase()", ".strip()", ".isdigit()",
    ".isalpha()", ".isupper()", ".islower()", ".split()", ".strip(", ".lstrip(", ".rstrip(", ".split(",
    ".rsplit(", ".partition(", ".rpartition(", ".replace(", ".join(", ".zfill(", ".startswith(", ".endswith(",
    ".find(", ".rfind(", ".count(", "re.sub(", "re.findall(", "len(", "str(", "int(",
)  # fmt: skip
_SYNTAX = (
    " if ", " else ", " for w in ", " in ", " not in ", " and ", " or ", "not ", " + ", " - ", " < ", " > ",
    " == ", " != ", ", ", "[w", "''", "[::-1]", ", 1)", ")[0]", ")[2]", ")[-1]", ")[1]",
)  # fmt: skip


def program_tokens() -> list[str]:
    """Return the program pieces of more than one character that are single tokens."""
    tokens = [*ARGUMENTS, *_METHODS, *_SYNTAX, *(repr(pattern) for pattern in PATTERNS)]
    tokens += [f"[{index}]" for index in range(-4, 6)]
    tokens += [f"[{index}:]" for index in range(-6, 10) if index]
    tokens += [f"[:{index}]" for index in range(-6, 10) if index]
    return tokens


def vocabulary() -> list[str]:
    """Return all tokens in the order of their ids: marks, alignments, program pieces, characters, bytes."""
    characters = [chr(code) for code in range(32, 127)]
    tokens = [PAD, BEGIN, END, SEPARATOR, *_MARKS, *alignment_tokens(), *program_tokens(), *characters]
    return tokens + [f"<0x{byte:02X}>" for byte in range(256)]


def _token_pattern() -> str:
    pieces = sorted(program_tokens(), key=lambda token: (-len(token), token))
    return "⟦[^⟦⟧]*⟧|" + "|".join(_escaped(piece) for piece in pieces) + "|[\\s\\S]"


def _escaped(text: str) -> str:
    return re.sub(r"([^A-Za-z0-9 '])", r"\\\1", text)


TOKEN_PATTERN = _token_pattern()
"""Regular expression whose successive matches are the tokens of a text (other characters as bytes)."""


def encode_prompt(
    inputs: Sequence[Sequence[str]],
    outputs: Sequence[str],
    answers: int,
    parent: str | None = None,
    parent_outputs: Sequence[str | None] = (),
) -> str:
    """Return the prompt text for N examples (at most `MAX_ROWS` of `chain`) and `answers` wanted programs.

    `parent` is a canonical expression and `parent_outputs` (N) what it returned, none for an
    error; which examples it passes follows from them.
    """
    shown = describe_inputs(inputs)
    wanted = describe_outputs(inputs, outputs)
    parts = [f"⟦m{answers}⟧"]
    parts += [f"⟦ex⟧{row}⟦to⟧{output}" for row, output in zip(shown, wanted, strict=True)]
    if parent is not None:
        parts.append(f"⟦par⟧{parent}")
        got = describe_outputs(inputs, parent_outputs)
        for output, wanted_output, text in zip(parent_outputs, outputs, got, strict=True):
            parts.append("⟦ok⟧" if output == wanted_output else f"⟦no⟧{text}")
    parts.append("⟦out⟧")
    return "".join(parts)
