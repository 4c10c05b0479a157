"""Adds the table of every file to the page on the architecture while mkdocs builds the site."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- every file -->"


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].removesuffix(".").replace("|", "\\|")


def every_file() -> Iterator[str]:
    """Yield the lines of a section for each folder of the packages, with a row for each file."""
    for package in ("evovpo", "trainer"):
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.py")}):
            files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
            if files:
                about = folder / "__init__.py"
                yield from (f"### {folder.relative_to(ROOT)}", "")
                yield from (first_line(about) + "." if about.exists() else "", "")
                yield from ("| file | is |", "|---|---|")
                yield from (f"| `{path.name}` | {first_line(path)} |" for path in files)
                yield ""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    return markdown.replace(MARK, "\n".join(every_file()))
