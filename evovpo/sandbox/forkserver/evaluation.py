"""The forked evaluation: locks itself down, writes the candidate's files, and runs the evaluator.

The result is one JSON object, which the candidate can forge: `{"metrics": [[name, value], ...], "artifacts":
[[name, text], ...], "done": true}`. If stage i did not reach its threshold, `"stopped": i` is added.
After an exception, `"exc": type, "msg": text, "trace": text, "errno": number` replace `"done"`.
"""

import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

from . import calls, child, kernel, program, strict_json

RESULT, CALLS = 3, 4
"""File descriptors of the result file, and of the socket to a candidate in another process, if any."""

Settings: TypeAlias = dict[str, Any]
"""The settings of all evaluations, or the job of one evaluation; written by `evovpo.sandbox.watched`."""

MODULE = "evovpo_evaluator"
_TRACE_FRAMES = 4
_TRACE_LIMIT = 1200


Imported: TypeAlias = tuple[ModuleType, object]
"""An imported evaluator, and Python's random state afterwards (None if the import did not change it)."""


def become_evaluation(
    settings: Settings, filters: list[kernel.Filter], imported: Imported | None, descriptors: list[int]
) -> NoReturn:
    """Restrict this newly forked child of a zygote further, and run one evaluation.

    `descriptors` belong to result, payload, log, ready pipe and, optionally, a socket for calls.
    """
    result, payload, log, ready, *call_sockets = descriptors
    kept = [result, *call_sockets]
    first_free = RESULT + len(kept)
    own_process = os.getpid()
    job: Settings = json.loads(os.pread(payload, os.fstat(payload).st_size, 0))

    def lock_down() -> None:
        numbers = [*kept, ready, *settings["ruleset"]]
        child.place({1: log, 2: log, **dict(enumerate(numbers, RESULT))})
        os.setsid()
        child.limit_evaluation(settings, job["other_tasks"], is_final=True)
        if settings["ruleset"]:
            kernel.restrict(first_free + 1, settings["landlock_abi"])
        for compiled in filters:
            compiled.load(signal_places(settings, settings["zygote"]))

    def run_and_write() -> None:
        line = run(settings, job, imported)
        if os.getpid() != own_process:  # a process forked by the evaluation must not write the result
            return
        child.flush(OSError, ValueError)
        data = json.dumps(line, allow_nan=False, ensure_ascii=False).encode(errors="replace")
        program.write_all(RESULT, data)

    child.become(settings["zygote"], lock_down, first_free, first_free, run_and_write)


def signal_places(settings: Settings, watcher: int) -> dict[int, int]:
    """Return {placeholder in a seccomp filter: id of a process that must not be signalled}."""
    return {
        kernel.WATCHER_PLACEHOLDER: watcher,
        kernel.WATCHER_GROUP_PLACEHOLDER: -watcher,
        kernel.SUPERVISOR_PLACEHOLDER: settings["supervisor"],
    }


def run(settings: Settings, job: Settings, imported: Imported | None) -> dict[str, Any]:
    """Run an evaluation and return its result line, which also reports exceptions."""
    found: dict[str, Any] = {}
    artifacts: dict[str, str] = {}
    ending: dict[str, Any] = {"done": True}
    try:
        copy_project(settings)
        path = write_files(settings["program_folder"], job)
        if job["has_calls"]:
            sys.modules[calls.MODULE] = calls.SocketModule(CALLS, settings["limits"]["result_bytes"])
        if imported is None:
            evaluator = load_evaluator(settings["evaluator"], settings["program_folder"])
        else:
            evaluator, random_state = imported
            seed_generators(random_state)
        for index, name in enumerate(job["functions"]):
            if index and not hasattr(evaluator, name):
                break
            function = getattr(evaluator, name, None)
            if not callable(function):
                raise AttributeError(f"the evaluator defines no function {name!r}")
            result = function(path, **job["arguments"] if name == "evaluate" else {})
            if hasattr(result, "__await__"):
                import asyncio  # slow to import, and few evaluators need it

                result = asyncio.run(result)
            found.update(strict_json.metrics_of(result))
            artifacts.update(strict_json.artifacts_of(result))
            thresholds = job["thresholds"]
            if index < len(thresholds) and not strict_json.score_of(found) >= thresholds[index]:
                ending["stopped"] = index + 1
                break
    except BaseException as error:  # including SystemExit and KeyboardInterrupt
        ending = {
            "exc": type(error).__name__,
            "msg": strict_json.text(str(error)),
            "trace": strict_json.text(_trace(error)),
            "errno": getattr(error, "errno", None),
        }
    return {"metrics": list(found.items()), "artifacts": strict_json.capped(artifacts.items()), **ending}


def copy_project(settings: Settings) -> None:
    for name, source, is_link in settings["copied"]:
        path = Path(settings["work"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_link:
            path.symlink_to(source)
            continue
        with open(source, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777 | 0o200
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            program.write_all(descriptor, file.read())
            os.close(descriptor)


def write_files(folder: str, job: Settings) -> str:
    """Write the candidate's files and return the path to pass to the evaluator."""
    for name, content in job["files"].items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a project file of the same name may be a link
        path.write_text(content, encoding="utf-8", newline="")
    return str(Path(folder, job["entry"]))


def load_evaluator(path: str, program_folder: str) -> ModuleType:
    """Import and return the evaluator. `sys.path` then begins with the folders of evaluator and program."""
    sys.path[:0] = [str(Path(path).parent), program_folder]
    sys.argv = [path]
    # multiprocessing would look for the file of `__main__`, which is not readable here.
    sys.modules["__main__"] = ModuleType("__main__")
    add_light_package()
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None, "the supervisor takes Python files only"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module  # dataclasses and pickle look up their module
    spec.loader.exec_module(module)
    return module


def seed_generators(state: Any) -> None:
    """Set Python's random generator to `state`, if given. Reseed numpy if the evaluator has not seeded it."""
    if state is not None:
        random.setstate(state)
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None and numpy.get_bit_generator().seed_seq is not None:  # not seeded
        numpy.seed()


def _trace(error: BaseException) -> str:
    own = (str(Path(__file__).parent), "<frozen importlib")
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(own)]
    return "".join(traceback.format_list(frames[-_TRACE_FRAMES:]))[-_TRACE_LIMIT:]


def add_light_package() -> None:
    """Make `openevolve` importable without running its `__init__`, which takes almost a second."""
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
