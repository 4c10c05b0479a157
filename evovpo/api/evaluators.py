"""Builds an OpenEvolve project from an evaluator function and an initial program given in Python."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from evovpo.errors import ConfigError, ProblemError
from evovpo.files import write_errors
from evovpo.types import content_id

EvaluatorFunction = Callable[[str], Any]
"""A function that returns metrics, given the path of a program file. It runs in a sandboxed process."""


def project_of(
    evaluator: str | Path | EvaluatorFunction, initial_program: str | Path | Sequence[str] | None
) -> tuple[str, str]:
    """Return the path of the evaluator and the path of the initial program (empty if there is none).

    Functions and source text are first written to files in `evovpo-out`. Raises `ConfigError` for unusable
    arguments, and `ProblemError` if a file cannot be written.
    """
    for what, value in (("evaluator", evaluator), ("initial_program", initial_program)):
        text = str(value)
        if text.endswith(".py") and "\n" not in text and not Path(text).is_file():
            raise ConfigError(f"{what}: expected a file, found none at {text}; correct the path")
    source = evaluator_source(evaluator) if callable(evaluator) else ""
    if isinstance(initial_program, Sequence) and not isinstance(initial_program, str):
        initial_program = "\n".join(initial_program) + "\n"
    is_file = isinstance(initial_program, Path) or (
        isinstance(initial_program, str) and "\n" not in initial_program and Path(initial_program).exists()
    )
    if source and initial_program is None:
        raise ConfigError("evaluator is a function, so initial_program must say where to begin; give it")
    text = "" if is_file or initial_program is None else str(initial_program)
    folder = Path("evovpo-out", f"project-{content_id(source, text)[:8]}")
    for name, content in (("evaluator.py", source), ("initial_program.py", text)):
        if content:
            with write_errors(f"{folder}:", kind=ProblemError):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(content, encoding="utf-8")
    initial = str(initial_program) if is_file else str(folder / "initial_program.py") if text else ""
    return str(folder / "evaluator.py") if source else str(evaluator), initial


def evaluator_source(function: EvaluatorFunction) -> str:
    """Return module source that defines `function` as `evaluate`, and all names that `function` uses."""
    found: dict[str, str] = {}
    _collect(function, found)
    name = getattr(function, "__name__", "")
    last = "" if name == "evaluate" else f"\n\nevaluate = {name}\n"
    return "\n\n".join(found.values()) + last


def _collect(function: Any, found: dict[str, str]) -> None:
    name = getattr(function, "__name__", repr(function))
    if name in found:
        return
    if name == "<lambda>" or (isinstance(function, FunctionType) and function.__closure__):
        raise ConfigError(
            f"evaluator: expected functions that stand alone, found {name}, a lambda or one that uses names "
            "of another function; define it with def at the top level, or give the path of a file"
        )
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"evaluator: the source of {name} is not at hand ({error}); give the path of a file instead"
        ) from error
    found[name] = ""  # it may use itself
    for used in sorted(_names(compile(ast.parse(source), name, "exec"))):
        values: Mapping[str, Any] = getattr(function, "__globals__", {})
        if used in values and used not in found:
            _define(used, values[used], str(function.__module__), found)
    found[name] = found.pop(name) or source


def _define(name: str, value: Any, module: str, found: dict[str, str]) -> None:
    home = getattr(value, "__module__", None)
    if isinstance(value, ModuleType):
        found[name] = f"import {value.__name__} as {name}"
    elif home == module and (inspect.isfunction(value) or inspect.isclass(value)):
        _collect(value, found)
    elif isinstance(home, str) and hasattr(value, "__qualname__"):
        found[name] = f"from {home} import {value.__qualname__} as {name}"
    else:
        try:
            ast.literal_eval(repr(value))
        except (ValueError, SyntaxError) as error:
            raise ConfigError(
                f"evaluator: it uses {name}, a {type(value).__name__} that cannot be written into a file; "
                "make it inside the function, or give the path of a file"
            ) from error
        found[name] = f"{name} = {value!r}"


def _names(code: CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names}.union(*map(_names, inner))
