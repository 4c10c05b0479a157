"""Parses the starting programs and the scorer of a problem folder, without running them."""

import ast
import warnings
from pathlib import Path

from evovpo.problem.faults import Faults, read_file
from evovpo.types import Program

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def seed_paths(folder: Path) -> list[Path]:
    return [folder / "seed.py", *sorted(path for path in folder.glob("seed_*.py") if path.is_file())]


def read_seeds(
    folder: Path, entry: str | None, parameters: tuple[str, ...] | None, faults: Faults
) -> tuple[Program, ...]:
    seeds: list[Program] = []
    for path in seed_paths(folder):
        source = read_file(path, faults, "every search starts from a program, however poor: write one")
        if source is None:
            continue
        functions = _functions(source, path, faults)
        if functions is not None and entry is not None:
            _check_function(functions.get(entry), path, entry, parameters, faults)
        seeds.append(Program(source))
    return tuple(seeds)


def check_scorer_source(path: Path, faults: Faults) -> None:
    """Add an error to `faults` if the scorer at `path` lacks a required function. The scorer is not run."""
    source = read_file(path, faults)
    functions = None if source is None else _functions(source, path, faults)
    if functions is not None:
        _check_function(functions.get("cases"), path, "cases", (), faults)
        _check_function(functions.get("score"), path, "score", ("outputs",), faults)


def _functions(source: str, path: Path, faults: Faults) -> dict[str, _Function] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        found = f"a syntax error: {error.msg}"
        faults.add(path.name, f"line {error.lineno}", "Python", found, "correct it")
        return None
    except (ValueError, RecursionError, MemoryError) as error:
        faults.add(path.name, "", "Python", str(error), "correct it")
        return None
    return {node.name: node for node in tree.body if isinstance(node, _Function)}


def _check_function(
    function: _Function | None, path: Path, name: str, parameters: tuple[str, ...] | None, faults: Faults
) -> None:
    if function is None:
        fix = f"define {name}({', '.join(parameters or ())}) at the top level"
        faults.add(path.name, name, "a function of this name", "none", fix)
    elif isinstance(function, ast.AsyncFunctionDef):
        faults.add(path.name, name, "a plain function", "an async one", "remove async")
    elif parameters is not None and not _takes_positional(function.args, len(parameters)):
        expected = f"a function of {len(parameters)} arguments ({', '.join(parameters)})"
        faults.add(path.name, name, expected, f"{name}({ast.unparse(function.args)})", "change its arguments")


def _takes_positional(arguments: ast.arguments, count: int) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return (
        positional - len(arguments.defaults) <= count
        and (count <= positional or arguments.vararg is not None)
        and all(default is not None for default in arguments.kw_defaults)
    )
