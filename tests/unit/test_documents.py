"""What the documents name is there: files, modules, links of the README, a line for each file."""

import ast
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
PATH = re.compile(
    r"(?<![\w./-])(?:evovpo|trainer|tests|docs|problems)/[\w./-]*\.(?:py|md|toml|json|png|sh)\b(?!\.\w)"
)
MODULE = re.compile(r"python3? -m ((?:evovpo|trainer)[\w.]*)")


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a Python file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds):
            yield ast.get_docstring(node) or ""


@cache
def texts() -> list[tuple[Path, str]]:
    """Return every document, and the docstrings of every Python file, as (path, text)."""
    sources = [path for folder in ("evovpo", "trainer", "tests") for path in (ROOT / folder).rglob("*.py")]
    return [
        *((path, path.read_text(encoding="utf-8")) for path in DOCUMENTS),
        *((path, "\n".join(docstrings(path))) for path in sorted(sources)),
    ]


def is_module(name: str) -> bool:
    """True if `python -m name` would find something to run."""
    path = ROOT.joinpath(*name.rstrip(".").split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_every_file_that_is_named_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts()
        for name in PATH.findall(text)
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_every_module_that_is_to_be_run_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts()
        for name in MODULE.findall(text)
        if not is_module(name)
    }
    assert missing == set()


@pytest.mark.parametrize("name", TOP)
def test_every_link_of_a_file_at_the_top_leads_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_pages_that_show_an_example_show_its_file() -> None:
    shown = [
        (path.name, name, code)
        for path in sorted((ROOT / "docs").glob("*.md"))
        for name, code in re.findall(
            r"\]\((examples/\w+\.py)\)[^\n]*\n\n```python\n(.*?)^```",
            path.read_text("utf-8"),
            flags=re.M | re.S,
        )
    ]
    assert {name for _, name, _ in shown} == {f"examples/{one.name}" for one in EXAMPLES}
    for page, name, code in shown:
        assert code == (ROOT / "docs" / name).read_text(encoding="utf-8"), (page, name)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_file_of_the_packages_has_a_line_in_the_architecture() -> None:
    hooks = runpy.run_path(str(ROOT / "docs" / "hooks.py"))
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+\.py)` \| (.+) \|$", hooks["on_page_markdown"](page), flags=re.M)
    files = [path for package in ("evovpo", "trainer") for path in (ROOT / package).rglob("*.py")]
    assert sorted(name for name, _ in rows) == sorted(p.name for p in files if p.name != "__init__.py")
