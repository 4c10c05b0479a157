"""Formats text, programs and tables for the terminal; control characters of untrusted text are escaped."""

import ast
import difflib
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from evovpo.store import CallTotals
from evovpo.types import Json

_CHANGES_SHOWN = 8


def printable(text: str) -> str:
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text.replace("\t", "    ")
    )


def one_line(source: str, entry: str) -> str:
    """Return a program as one line: the result of `only_expression` or, if that is None, the first lines."""
    expression = only_expression(source, entry)
    if expression is not None:
        return printable(expression)
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return printable(" ⏎ ".join(lines[:4]) + (" ⏎ ..." if len(lines) > 4 else ""))


def only_expression(source: str, entry: str) -> str | None:
    """Return the expression if function `entry` consists of a single return statement, otherwise None."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == entry]
    if functions and len(functions[-1].body) == 1:
        returned = functions[-1].body[0]
        if isinstance(returned, ast.Return) and returned.value is not None:
            return ast.get_source_segment(source, returned.value) or ast.unparse(returned.value)
    return None


def changes_view(before: str, after: str) -> Text:
    """Return the first differing lines of two programs, marked - and +, and the number of lines left out."""
    compared = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    lines = [line for line in list(compared)[2:] if not line.startswith("@@")]
    styles = {"-": "red", "+": "green"}
    shown = [Text(printable(line), style=styles[line[0]]) for line in lines[:_CHANGES_SHOWN]]
    if hidden := lines[_CHANGES_SHOWN:]:
        shown.append(Text(f"... and {counted(len(hidden), 'changed line')} more", style="dim"))
    return Text("\n").join(shown)


def program_view(source: str) -> RenderableType:
    """Return a highlighted program. Its lines never wrap, so that users can copy the program."""
    text = Syntax("", "python", background_color="default").highlight(printable(source).strip("\n"))
    text.no_wrap, text.overflow = True, "ignore"
    text.rstrip()
    return Group(text)  # a bare Text would lose its no_wrap setting


class _PlainTable(Table):
    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        super().add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in cells), **settings)


def plain_table(*columns: str | Column, title: str | None = None) -> Table:
    return _PlainTable(
        *columns,
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="dim",
        title=title,
        title_justify="left",
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def right(header: RenderableType, **settings: Any) -> Column:
    return Column(header, justify="right", **settings)


def folded(header: RenderableType = "", **settings: Any) -> Column:
    """Return a column whose long cells wrap at any character, so that they are shown in full."""
    return Column(header, overflow="fold", **settings)


def shortened(table: Table, hidden: int) -> RenderableType:
    return Group(table, Text(f"   ... and {hidden} more", style="dim")) if hidden > 0 else table


def value_text(value: Json) -> str:
    """Return the `repr` of a value, which escapes non-printable characters, cut to 300 characters."""
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


def reward_text(value: float) -> str:
    """Return a reward with three decimals; rewards below 1 are never rounded up to 1."""
    return f"{value if value >= 1.0 else min(value, 0.999):.3f}"


def calls_text(totals: CallTotals) -> str:
    """Return a line on the requests to model servers: their number, failures, tokens and cost."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(totals.faults.items()))
    failed = f" ({totals.failed} of them brought nothing: {printable(reasons)})" if totals.failed else ""
    tokens = f", {totals.prompt_tokens} tokens of prompts and {totals.completion_tokens} of replies"
    cost = "" if totals.cost is None else f", cost {totals.cost:.4g}"
    return f"{counted(totals.calls, 'request')} to servers{failed}{tokens * bool(totals.prompt_tokens)}{cost}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {rest} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"
