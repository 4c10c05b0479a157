"""What a forked evaluation does: lock itself down, write the candidate's files, and run the evaluator.

One JSON object is left in the result file:

- `{"metrics": [[name, value], ...], "artifacts": [[name, text], ...], "done": true}`, or
- the same with `{"exc": type, "msg": text, "trace": text, "errno": number}` in place of `done`.

Evaluator and candidate share this process, and so the candidate can write it too.
"""

import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

from . import calls, child, kernel, program, strict_json
from .child import clamped, mapped_bytes

RESULT, CALLS = 3, 4
"""File descriptors. The second exists only where the candidate answers calls from elsewhere."""

Settings: TypeAlias = dict[str, Any]
"""What the supervisor wants run and how: `evovpo.sandbox.evaluators` writes it."""

MODULE = "evovpo_evaluator"
_TRACE_FRAMES = 4
_TRACE_LIMIT = 1200


def become_evaluation(
    settings: Settings, watcher: int, user: int | None, kept: list[int], log: int, ready: int
) -> NoReturn:
    """Lock this fresh child down, with `kept` as its descriptors from `RESULT` on, and run the evaluation."""
    first_free = RESULT + len(kept)

    def lock_down() -> None:
        child.place({1: log, 2: log, **dict(enumerate([*kept, ready], RESULT))})
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.setsid()
        limit_resources(settings, user)
        os.chdir(settings["work"])
        if user is not None:
            kernel.become_user(user, settings["reading_capability"])
        elif settings["is_locked"]:
            kernel.drop_privileges()
        if settings["landlock_abi"]:
            kernel.restrict_files(
                settings["readable"], settings["landlock_abi"], settings["writable"], can_execute=True
            )
        places = {
            kernel.WATCHER_PLACEHOLDER: watcher,
            kernel.WATCHER_GROUP_PLACEHOLDER: -watcher,
            kernel.SUPERVISOR_PLACEHOLDER: settings["supervisor"],
        }
        for compiled in settings["filters"]:
            kernel.Filter(bytes.fromhex(compiled)).load(places)

    def run_and_write() -> None:
        line = run(settings)
        child.flush(OSError, ValueError)
        data = json.dumps(line, allow_nan=False, ensure_ascii=False).encode(errors="replace")
        program.write_all(RESULT, data)

    child.become(watcher, lock_down, first_free, first_free, run_and_write)


def limit_resources(settings: Settings, user: int | None) -> None:
    """Put this process and its future children under the resource limits, soft and hard."""
    limits = settings["limits"]
    tasks = limits["processes"] + limits["threads"]
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_AS: mapped_bytes() + (limits["memory_mb"] << 20),
        resource.RLIMIT_FSIZE: max(limits["disk_mb"] << 20, limits["result_bytes"] + 1),
        resource.RLIMIT_STACK: limits["stack_mb"] << 20,
        resource.RLIMIT_NOFILE: limits["open_files"],
        # Tasks of this very user: of this process alone, or besides it of the watcher and of what
        # started that, or of everything else that the user runs.
        resource.RLIMIT_NPROC: 1 + tasks + (0 if user is not None else settings["other_tasks"]),
    }
    for name, value in values.items():
        resource.setrlimit(name, clamped(name, value, value))
    seconds = limits["cpu_seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, clamped(resource.RLIMIT_CPU, seconds, seconds + 1))


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of an evaluation; exceptions of evaluator and candidate become part of it."""
    found: dict[str, Any] = {}
    artifacts: dict[str, str] = {}
    ending: dict[str, Any] = {"done": True}
    try:
        path = write_files(settings)
        if settings["has_calls"]:
            sys.modules[calls.MODULE] = calls.Client(CALLS, settings["limits"]["result_bytes"])
        evaluator = load_evaluator(settings["evaluator"], path)
        for index, name in enumerate(settings["functions"]):
            if index and not hasattr(evaluator, name):
                break
            function = getattr(evaluator, name, None)
            if not callable(function):
                raise AttributeError(f"the evaluator defines no function {name!r}")
            result = function(path)
            if hasattr(result, "__await__"):
                result = _awaited(result)
            found.update(strict_json.metrics_of(result))
            artifacts.update(strict_json.artifacts_of(result))
            thresholds = settings["thresholds"]
            if index < len(thresholds) and not strict_json.score_of(found) >= thresholds[index]:
                break
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the candidate's doing too
        ending = {
            "exc": type(error).__name__,
            "msg": strict_json.text(str(error)),
            "trace": strict_json.text(_trace(error)),
            "errno": getattr(error, "errno", None),
        }
    return {"metrics": list(found.items()), "artifacts": strict_json.capped(artifacts.items()), **ending}


def write_files(settings: Settings) -> str:
    """Write the candidate's files into the private folder; returns the path that the evaluator is given."""
    work = settings["work"]
    for name, content in settings["files"].items():
        path = Path(work, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="")
    return str(Path(work, settings["entry"]))


def load_evaluator(path: str, program: str) -> ModuleType:
    """Return the evaluator's module, run once; its folder is importable, and then the program's."""
    folder = Path(program) if Path(program).is_dir() else Path(program).parent
    sys.path[:0] = [str(Path(path).parent), str(folder)]
    sys.argv = [path]
    # Python's own ways to start a process would look for the file of this one, which nobody may read.
    sys.modules["__main__"] = ModuleType("__main__")
    add_light_package()
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{Path(path).name} is not the name of a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module  # dataclasses and pickle look their module up
    spec.loader.exec_module(module)
    return module


def _awaited(result: Any) -> Any:
    import asyncio  # slow to import, and few evaluators need it

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _trace(error: BaseException) -> str:
    """Return the innermost lines of a traceback, without this file's."""
    own = (str(Path(__file__).parent), "<frozen importlib")
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(own)
    ]
    return "".join(traceback.format_list(frames[-_TRACE_FRAMES:]))[-_TRACE_LIMIT:]


def add_light_package() -> None:
    """Import `openevolve` without running its `__init__`, which loads all of it and takes most of a second.

    Evaluators want one record of one of its modules. Any name of the package itself that is not one of
    its modules loads all of it as usual.
    """
    spec = importlib.machinery.PathFinder.find_spec("openevolve")
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    loader, module = spec.loader, importlib.util.module_from_spec(spec)

    def find(name: str) -> Any:
        if name.startswith("__") or importlib.util.find_spec(f"openevolve.{name}") is None:
            del module.__dict__["__getattr__"]
            loader.exec_module(module)
            return getattr(module, name)
        return importlib.import_module(f"openevolve.{name}")

    module.__dict__["__getattr__"] = find
    sys.modules["openevolve"] = module
