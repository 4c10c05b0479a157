"""Finds the evaluator and the initial program in an OpenEvolve project folder, without running code."""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evovpo.errors import ProblemError
from evovpo.files import file_digests
from evovpo.prompts.bundles import pack
from evovpo.prompts.extract_programs import defined_names
from evovpo.types import Program

EVALUATOR = "evaluator.py"
_CONFIGS = ("config.yaml", "config.yml")
_METRICS = "metrics.toml"
_STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
_NOT_PROGRAMS = frozenset({".yaml", ".yml", ".json", ".toml", ".md", ".pyc"})
_SKIPPED_FOLDERS = frozenset({"__pycache__", "openevolve_output", "evovpo-out", "node_modules"})
_RESULT = Path("best", "best_program_info.json")
_SKIPPED_ENDINGS = (".pyc", ".db", ".db-wal", ".db-shm", ".db-journal", ".log", ".out", ".png", ".md")
_TEXTS = (".txt", ".err")
_MOST_BUNDLED_FILES = 200


class Project(NamedTuple):
    folder: Path
    evaluator: str
    stages: tuple[str, ...]
    has_evaluate: bool
    initial: Program
    suffix: str
    """File suffix of the initial program, with the dot; `/` for a folder."""
    initial_name: str
    metrics: Path | None


def is_project(path: Path) -> bool:
    """True if `path` seems to be an evaluator file or a project folder, and there is no `problem.toml`."""
    if path.is_file():
        return path.suffix == ".py" and not (path.parent / "problem.toml").is_file()
    if not path.is_dir() or (path / "problem.toml").is_file():
        return False
    return bool(_evaluators(path) or _typical_files(path))


def own_settings(path: Path) -> Path | None:
    """Return a project's config.yaml or config.yml, if any. `path` is the folder or the evaluator file."""
    folder = (path.parent if path.is_file() else path).resolve()
    return next((folder / name for name in _CONFIGS if (folder / name).is_file()), None)


def other_settings(path: Path) -> list[str]:
    """Return the names of the YAML files in a project's folder and in its `configs/`."""
    folder = path.parent if path.is_file() else path
    return sorted(
        str(file.relative_to(folder)) for part in ("", "configs/") for file in folder.glob(f"{part}*.y*ml")
    )


def read_project(path: Path, initial_program: str | None = None) -> Project:
    """Return the project at `path`, which is its folder or its evaluator file.

    `initial_program` is the file or folder of the initial program; if None, usual names are tried.
    Raises `ProblemError` if the evaluator or the initial program is missing, ambiguous or unreadable.
    """
    folder = (path.parent if path.is_file() else path).resolve()
    evaluator = path.resolve() if path.is_file() else _the_evaluator(folder)
    names = _defined(evaluator)
    if names is None:
        raise ProblemError(f"{evaluator}: expected a Python file, and it cannot be parsed; correct it")
    stages = tuple(itertools.takewhile(names.__contains__, _STAGES))
    if "evaluate" not in names and not stages:
        raise ProblemError(
            f"{evaluator}: expected a function evaluate(program_path), found none; define it, or give the "
            "file that does"
        )
    initial = Path(initial_program).resolve() if initial_program else _initial_program(folder, evaluator.name)
    return Project(
        folder=folder,
        evaluator=evaluator.name,
        stages=stages,
        has_evaluate="evaluate" in names,
        initial=_program(initial),
        suffix="/" if initial.is_dir() else initial.suffix,
        initial_name=initial.name,
        metrics=folder / _METRICS if (folder / _METRICS).is_file() else None,
    )


def input_files(project: Project, writable: Sequence[Path] = ()) -> list[Path]:
    """Return the files of a project that an evaluation may read.

    Run outputs, the output of this command, documentation and settings are left out. In folders to which the
    evaluator may write (`writable`), only code counts.
    """
    outputs = {(file.st_dev, file.st_ino) for file in map(os.fstat, (1, 2))}

    def is_input(path: Path) -> bool:
        is_code = path.suffix in (".py", project.suffix)
        is_written = any(path == one or (one in path.parents and not is_code) for one in writable)
        file = path.stat()
        return not (
            is_written or path.name.endswith(_SKIPPED_ENDINGS) or (file.st_dev, file.st_ino) in outputs
        )

    settings = (own_settings(project.folder), project.metrics)
    return [path for path in _files(project.folder) if path not in settings and is_input(path)]


def unnamed_texts(project: Project) -> frozenset[Path]:
    """Return the text files that no code of a project names, such as the output of a command: no inputs."""
    endings = (".py", project.suffix)
    texts = {
        path for path in project.folder.iterdir() if path.suffix in _TEXTS and path.suffix not in endings
    }
    if not texts:
        return frozenset()
    sources = (path for path in _files(project.folder) if path.suffix in endings)
    code = "".join(path.read_text(errors="replace") for path in sources)
    return frozenset(path for path in texts if path.name not in code)


def content_digest(project: Project, files: Sequence[Path]) -> str:
    digests = file_digests(project.folder, files)
    return hashlib.sha256(json.dumps([project.evaluator, digests], sort_keys=True).encode()).hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _SKIPPED_FOLDERS:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from () if (path / _RESULT).is_file() else _files(path)
        elif path.is_file():
            yield path


def _evaluators(folder: Path) -> list[Path]:
    usual = folder / EVALUATOR
    if usual.is_file():
        return [usual]
    return [
        path
        for path in sorted(folder.glob("*.py"))
        if not path.name.startswith(("initial_", "init_"))
        and (_defined(path) or frozenset()) & {"evaluate", _STAGES[0]}
    ]


def _the_evaluator(folder: Path) -> Path:
    found = _evaluators(folder)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found)
        raise ProblemError(
            f"{folder}: expected one evaluator, found {names}; name it, for example "
            f"evovpo evolve {folder}/{found[0].name}"
        )
    signs = ", ".join(_typical_files(folder))
    looks = f" (it looks like an OpenEvolve project without its evaluator: {signs})" * bool(signs)
    raise ProblemError(
        f"{folder}: expected {EVALUATOR}, or one Python file that defines evaluate(program_path) and returns "
        f"a dictionary of numbers, found none{looks}; add one, or give a folder with a problem.toml"
    )


def _typical_files(folder: Path) -> list[str]:
    patterns = ("initial_program", "initial_program.*", "init_program.*", *_CONFIGS)
    return sorted({path.name for pattern in patterns for path in folder.glob(pattern)})


def _defined(path: Path) -> frozenset[str] | None:
    try:
        return defined_names(path.read_bytes())
    except OSError:
        return None


def _initial_program(folder: Path, evaluator: str) -> Path:
    for pattern in ("initial_program.*", "init_program.*", "initial_program/", "initial_*.*", "initial.*"):
        there = [path for path in folder.glob(pattern) if path.is_dir() is pattern.endswith("/")]
        found = sorted(path for path in there if path.suffix not in _NOT_PROGRAMS and path.name != evaluator)
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found)
            raise ProblemError(
                f"{folder}: expected one initial program, found {names}; name one with "
                "--set evaluator.initial_program=FILE, or move all but one out of the folder"
            )
    raise ProblemError(
        f"{folder}: expected an initial program (initial_program.*, init_program.*, initial_*.* or a folder "
        "initial_program), found none; add one"
    )


def _program(path: Path) -> Program:
    try:
        if path.is_file():
            return Program(_text(path))
        files = {file.relative_to(path).as_posix(): _text(file) for file in _files(path)}
    except OSError as error:
        raise ProblemError(
            f"{error.filename or path}: cannot be read: {error.strerror}; correct it"
        ) from error
    if not files:
        raise ProblemError(f"{path}: expected the files of the initial program, found none; add them")
    if len(files) > _MOST_BUNDLED_FILES:
        raise ProblemError(
            f"{path}: expected at most {_MOST_BUNDLED_FILES} files, found {len(files)}; a program is shown "
            "to a model as one text, so move what is not to be changed next to the evaluator"
        )
    return Program(pack(files))


def _text(path: Path) -> str:
    try:
        # Not read_text, which would change line endings.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: expected UTF-8 text ({error}); save the file as UTF-8") from error
