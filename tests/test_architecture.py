"""Who may import whom, and what `import evovpo` must not load: the directions of the design, as tables."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS: dict[str, frozenset[str]] = {
    "records": frozenset({"types", "errors", "options", "config", "skeletons", "bundles"}),
    "pure": frozenset(
        {"expressions", "models", "selection", "population", "prompts", "joins", "grouping", "doctor"}
        | {"novelty", "strategies", "statistics", "formulas"}
    ),
    "search": frozenset({"search"}),
    "edges": frozenset({"sandbox", "store", "migrations", "proposers", "evaluator", "problem", "openevolve"})
    | frozenset({"importers", "executors"}),
    "driver": frozenset({"driver"}),
    "wiring": frozenset({"runs", "report", "doctor_report", "live", "terminal", "cli", "__main__", "repeats"})
    | frozenset({"integrations", "cli_import", "cli_batch", "batch", "run_lock"}),
}
"""Every module or package of evovpo, by layer."""
MAY_IMPORT = {
    "records": {"records"},
    "pure": {"records", "pure"},
    "search": {"records", "pure"},
    "edges": {"records", "pure"},
    "driver": {"records", "pure", "search", "edges"},
    "wiring": {"records", "pure", "search", "edges", "driver", "wiring"},
}
"""The layers that a module of each layer may import; within a layer, modules of one package may."""
BESIDES = {
    "openevolve": {"sandbox"},
    "evaluator": {"sandbox", "openevolve"},
    "problem": {"evaluator", "openevolve"},
    "executors": {"evaluator"},
    "driver": {"proposers"},
}
"""Edges that another edge is made of, and the one edge whose protocol the driver knows."""
PURE_OF_EDGES = {"proposers": {"expressions", "formulas", "models"}}
"""Edges that know more than the records: the random baseline draws from the grammar."""
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
            base = ".".join(
                [*package[: len(package) - node.level + 1], node.module or ""]
                if node.level
                else [str(node.module)]
            )
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def layer_of(module: str) -> str:
    return next(layer for layer, modules in LAYERS.items() if module in modules)


def faults(path: Path) -> list[str]:
    """Return the imports of a file of evovpo that go against the direction."""
    own = module_name(path).split(".")[1] if "." in module_name(path) else "__init__"
    found = []
    for name in sorted(imported(path)):
        parts = name.split(".")
        if parts[0] == "trainer":
            found.append(f"{own} imports {name}: evovpo never imports the trainer")
        if parts[0] != "evovpo" or len(parts) < 2 or parts[1] == own:
            continue
        if own == "__init__":
            found.append(f"evovpo imports {name}: the package itself is empty")
            continue
        layer, other = layer_of(own), layer_of(parts[1])
        is_allowed = other in MAY_IMPORT[layer]
        if layer == "edges":
            is_allowed = other == "records" or parts[1] in BESIDES.get(own, set()) | PURE_OF_EDGES.get(
                own, set()
            )
        if layer == "driver" and other == "edges":
            is_allowed = parts[1] in BESIDES["driver"]
        if not is_allowed:
            found.append(f"{own} ({layer}) imports {name} ({other})")
    return found


def test_every_module_has_a_layer_and_only_one() -> None:
    placed = [module for modules in LAYERS.values() for module in modules]
    assert len(placed) == len(set(placed))
    there = {path.relative_to(ROOT / "evovpo").parts[0].removesuffix(".py") for path in sources("evovpo")}
    assert there - {"__init__"} <= set(placed)


@pytest.mark.parametrize("path", list(sources("evovpo")), ids=module_name)
def test_imports_go_in_the_direction_of_the_design(path: Path) -> None:
    assert faults(path) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("types", "from evovpo.search import Search"),
        ("population", "from evovpo.store import Store"),
        ("search", "import evovpo.driver"),
        ("search", "from evovpo import proposers"),
        ("store/reading", "from ..search import Search"),
        ("sandbox/local", "from evovpo.prompts import PromptFormat"),
        ("driver", "from evovpo.store import Store"),
        ("driver", "def f():\n    from evovpo.runs import start"),
        ("runs", "from trainer.columns import draw"),
        ("__init__", "from evovpo.runs import start"),
    ],
)
def test_an_import_against_the_direction_is_found(
    module: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "evovpo" / f"{module}.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert len(faults(path)) == 1


def test_the_trainer_knows_evovpo_and_evovpo_does_not_know_the_trainer() -> None:
    assert any(name.startswith("evovpo.") for path in sources("trainer") for name in imported(path))
    assert not any(name.split(".")[0] == "trainer" for path in sources("evovpo") for name in imported(path))


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
    """Return the modules that may be imported for their names: no scripts, migrations or bundled problems.

    Nor what needs a package that is not installed here, as Ray may be.
    """
    names = [module_name(path) for path in sources("evovpo")]
    skipped = ["__main__", "migrations", "_problems", "forkserver"]
    if importlib.util.find_spec("ray") is None:
        skipped.append("ray")
    return [
        name
        for name in names
        if name not in LOADS_TORCH and not any(part in skipped for part in name.split("."))
    ]


def test_nothing_but_the_local_proposer_loads_torch() -> None:
    assert len(importable()) > 25
    assert loaded_by(importable()) == []


def test_what_is_loaded_is_seen() -> None:
    assert loaded_by(["evovpo.search"], ("numpy", "sqlalchemy")) == ["numpy"]


def test_the_modules_left_out_are_those_that_import_torch() -> None:
    torch = {"torch", "transformers"}
    users = {
        module_name(path)
        for path in sources("evovpo")
        if any(name.split(".")[0] in torch for name in imported(path))
    }
    assert users == LOADS_TORCH
