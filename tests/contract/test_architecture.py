"""Folders are layers: a row imports only from rows above it. And what `import evovpo` must not load.

No file imports another in a circle, and no two classes share a name.
"""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = {
    "evovpo": (
        *("errors", "types", "files", "config_values", "config_tree", "config", "trust"),
        *("analysis", "prompts", "search", "proposers", "builtin"),
        *("sandbox", "problem", "judging", "store", "runs", "integrations", "experiments", "reports"),
        *("page", "cli", "api", "__main__"),
    ),
    "trainer": (
        *("config", "objectives", "learning", "domains", "loop", "experiments", "reports", "cli", "recipes"),
    ),
}
"""The files and folders of each package, from the lowest row; within a folder files may import each other."""
LOADS_TORCH = {"evovpo.proposers.local", "evovpo.proposers.sampler"}


def sources(package: str) -> Iterator[Path]:
    yield from sorted((ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Return the full names of everything that a file imports, at any depth."""
    names: set[str] = set()
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], node.module or ""])
            base = base.strip(".") if node.level else str(node.module)
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def faults(path: Path) -> list[str]:
    """Return the imports of a file that go up, or from evovpo to the trainer."""
    own = module_name(path)
    package, _, rest = own.partition(".")
    if not rest:  # the package itself: the names that a library user imports, from any row
        return []
    row, found = ROWS[package].index(rest.partition(".")[0]), []
    for name in sorted(imported(path)):
        other, _, inner = name.partition(".")
        if package == "evovpo" and other == "trainer":
            found.append(f"{own} imports {name}: evovpo never imports the trainer")
        if other == package and inner and ROWS[package].index(inner.partition(".")[0]) > row:
            found.append(f"{own} imports {name}, which is in a row above it")
    return found


@pytest.mark.parametrize("package", ROWS)
def test_every_file_and_folder_has_its_row(package: str) -> None:
    there = {path.relative_to(ROOT / package).parts[0].removesuffix(".py") for path in sources(package)}
    assert there - {"__init__"} == set(ROWS[package])


@pytest.mark.parametrize("package", ROWS)
def test_no_import_runs_upwards(package: str) -> None:
    assert [fault for path in sources(package) for fault in faults(path)] == []


def circle(paths: list[Path]) -> list[str]:
    """Return the files of one circle of imports, inside functions too; empty if there is none."""
    files = {module_name(path): path for path in paths}
    # The file of an imported name is the name itself, for a module, or what stands before its last dot.
    graph = {
        own: {name if name in files else name.rpartition(".")[0] for name in imported(path)} - {own}
        for own, path in files.items()
    }
    try:
        TopologicalSorter({own: names & files.keys() for own, names in graph.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle([path for package in ROWS for path in sources(package)]) == []


def test_every_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = {}
    for path in (path for package in ROWS for path in sources(package)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module_name(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_only_the_store_holds_sql() -> None:
    for path in (path for package in ROWS for path in sources(package)):
        if path.parts[len(ROOT.parts) + 1] != "store":
            assert "store.query(" not in path.read_text(encoding="utf-8"), path


def test_a_folder_holds_at_most_twelve_files() -> None:
    for package in ROWS:
        for folder in {path.parent for path in sources(package)}:
            files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
            assert len(files) <= 12, folder


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("search/population", "from evovpo.store import Store"),
        ("search/search", "from evovpo import proposers"),
        ("store/history", "from ..runs import driver"),
        ("runs/driver", "def f():\n    from evovpo.reports import report"),
        ("runs/run", "from trainer.objectives import OBJECTIVES"),
    ],
)
def test_an_import_against_the_direction_is_found(
    module: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "evovpo" / f"{module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    assert len(faults(path)) == 1


def loaded_by(
    modules: list[str], wanted: tuple[str, ...] = ("torch", "transformers", "tokenizers")
) -> list[str]:
    """Return which of the wanted modules a fresh interpreter holds after importing `modules`."""
    program = (
        "import importlib, json, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(json.dumps([name for name in {wanted!r} if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def importable() -> list[str]:
    """Return the modules that may be imported for their names: no scripts, migrations or problems.

    Nor what needs a package that is not installed here, as Ray and Starlette may be.
    """
    names = [module_name(path) for path in sources("evovpo")]
    skipped = ["__main__", "migrations", "_problems", "starters", "forkserver"]
    needs = {"ray": "ray", "page": "starlette"}
    skipped += [name for name, package in needs.items() if importlib.util.find_spec(package) is None]
    return [
        name
        for name in names
        if name not in LOADS_TORCH and not any(part in skipped for part in name.split("."))
    ]


def test_nothing_but_the_local_proposer_loads_torch() -> None:
    assert len(importable()) > 25
    assert loaded_by(importable()) == []


def test_the_modules_left_out_are_those_that_import_torch() -> None:
    torch = {"torch", "transformers"}
    users = {
        module_name(path)
        for path in sources("evovpo")
        if any(name.split(".")[0] in torch for name in imported(path))
    }
    assert users == LOADS_TORCH
