"""Formats text, programs and tables for the terminal, where untrusted text must not act as control codes."""

import ast
import difflib
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
    """Return `text` with control characters escaped."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text.replace("\t", "    ")
    )


def one_line(source: str, entry: str) -> str:
    """Return a program in one line: what it returns if it does nothing else, else its first lines."""
    expression = only_expression(source, entry)
    if expression is not None:
        return printable(expression)
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return printable(" ⏎ ".join(lines[:4]) + (" ⏎ ..." if len(lines) > 4 else ""))


def only_expression(source: str, entry: str) -> str | None:
    """Return what a program returns, if it does nothing else; none for any other program."""
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
    """Return the lines that differ between two programs, with `-` and `+`, and how many are left out."""
    compared = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    lines = [line for line in list(compared)[2:] if not line.startswith("@@")]
    styles = {"-": "red", "+": "green"}
    shown = [Text(printable(line), style=styles[line[0]]) for line in lines[:_CHANGES_SHOWN]]
    if hidden := lines[_CHANGES_SHOWN:]:
        shown.append(Text(f"... and {counted(len(hidden), 'changed line')} more", style="dim"))
    return Text("\n").join(shown)


def program_view(source: str) -> RenderableType:
    """Return a program, highlighted; its lines are never broken, so that it can be copied."""
    text = Syntax("", "python", background_color="default").highlight(printable(source).strip("\n"))
    text.no_wrap, text.overflow = True, "ignore"
    text.rstrip()
    return Group(text)  # printed bare, a text loses that it is not to be wrapped


class _PlainTable(Table):
    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        """Add a row whose texts cannot steer a terminal, wherever they come from."""
        super().add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in cells), **settings)


def plain_table(*columns: str | Column, title: str | None = None) -> Table:
    """Return an empty table with only a line below its header; `right` and `folded` make columns too."""
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


def right(header: RenderableType, **settings: Any) -> Column:
    """Return a column of figures."""
    return Column(header, justify="right", **settings)


def folded(header: RenderableType = "", **settings: Any) -> Column:
    """Return a column whose long cells are broken at any character, so that nothing of them is lost."""
    return Column(header, overflow="fold", **settings)


def shortened(table: Table, hidden: int) -> RenderableType:
    """Return a table with a line below it that says how many rows are left out, if any are."""
    return Group(table, Text(f"   ... and {hidden} more", style="dim")) if hidden > 0 else table


def value_text(value: Json) -> str:
    """Return a value as Python writes it; `repr` also escapes what is not printable."""
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


def reward_text(value: float) -> str:
    """Return a reward with three decimals; only full reward is written as 1."""
    return f"{value if value >= 1.0 else min(value, 0.999):.3f}"


def calls_text(totals: CallTotals) -> str:
    """Return the sums over requests to model servers in words."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(totals.faults.items()))
    failed = f" ({totals.failed} of them brought nothing: {printable(reasons)})" if totals.failed else ""
    tokens = f", {totals.prompt_tokens} tokens of prompts and {totals.completion_tokens} of replies"
    cost = "" if totals.cost is None else f", cost {totals.cost:.4g}"
    return f"{counted(totals.calls, 'request')} to servers{failed}{tokens * bool(totals.prompt_tokens)}{cost}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Return a span of time in the two units that say most."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {rest} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"
