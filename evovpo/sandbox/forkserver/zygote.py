"""The zygote: imports an evaluator once, under an evaluation's restrictions, and forks for each evaluation.

If the import has side effects that a fork would lose, such as threads, each evaluation imports the evaluator.
"""

import gc
import importlib
import json
import os
import random
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from . import child, evaluation, kernel
from .server import serve

CONTROL = 3
"""File descriptor of the socket on which the watcher requests evaluations."""


def become_zygote(settings: evaluation.Settings, control_end: int, watcher: int, is_warm: bool) -> NoReturn:
    """Lock down this newly forked child, import the evaluator if `is_warm` is true, and serve requests."""
    try:
        kernel.die_with(watcher)
        child.place({1: 0, 2: 0, CONTROL: control_end})  # output of the import belongs to no evaluation
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
        with socket.socket(fileno=CONTROL) as control, open("/proc/self/maps", errors="replace") as maps:
            filters = _lock_down(settings, watcher)
            found = _import(settings, maps.readlines) if is_warm else None
            imported, reason = (None, found) if isinstance(found, str) else (found, "")
            control.send(json.dumps({"reason": reason}).encode())
            gc.collect()
            gc.freeze()
            counted_ms = 0.0

            def evaluate(_request: bytes, descriptors: list[int]) -> dict[str, float]:
                nonlocal counted_ms
                pid = os.fork()
                if pid == 0:
                    evaluation.become_evaluation(settings, filters, imported, descriptors)
                for number in descriptors:
                    os.close(number)
                _, status, usage = os.wait4(pid, 0)
                before, counted_ms = counted_ms, child.own_cpu_ms()
                return {
                    "status": status,
                    "child_cpu_ms": child.cpu_ms(usage),
                    "cpu_ms": counted_ms - before,
                }

            serve(control, evaluate)
    finally:
        os._exit(1)


def _lock_down(settings: evaluation.Settings, watcher: int) -> list[kernel.Filter]:
    """Apply the restrictions that evaluations inherit. Return seccomp filters that they must load again."""
    settings |= {"own_bytes": child.mapped_bytes(), "zygote": os.getpid(), "ruleset": []}
    child.limit_evaluation(settings, settings["other_tasks"], is_final=False)
    os.chdir(settings["working_folder"])
    filters = settings["filters"]
    if settings["user"] is not None:
        kernel.become_user(settings["user"], settings["reading_capability"])
    elif settings["is_locked"]:
        kernel.drop_privileges()
        filters = [*settings["metadata_filters"], *filters]
    abi = settings["landlock_abi"]
    if abi:
        paths = settings["readable"], abi, settings["writable"]
        ruleset = kernel.file_rules(*paths, can_execute=True, has_network=settings["has_network"])
        settings["ruleset"] = [ruleset]
        kernel.restrict(ruleset, abi)
    own = [kernel.Filter(bytes.fromhex(compiled)) for compiled in settings["signal_filters"]]
    for compiled in (*own, *(kernel.Filter(bytes.fromhex(compiled)) for compiled in filters)):
        compiled.load(evaluation.signal_places(settings, watcher))
    return own


def _import(settings: evaluation.Settings, maps: Callable[[], list[str]]) -> evaluation.Imported | str:
    """Import and return the evaluator, or return the reason that forked processes cannot share the import."""
    work = settings["work"]
    before = random.getstate()
    try:
        evaluation.copy_project(settings)
        descriptors, files = _open_descriptors(settings), _tree(work)
        module = evaluation.load_evaluator(settings["evaluator"], settings["program_folder"])
        if "numpy" in sys.modules:
            importlib.import_module("numpy.random")  # lazy in numpy 2, and slow to import
    except BaseException as error:  # each evaluation reports it itself
        return f"raised {type(error).__name__}"
    here = Path.cwd()
    did = {
        "started threads": os.stat("/proc/self/task").st_nlink > 3,  # noqa: PTH116  # ., .. and one thread
        "left files or devices open": _open_descriptors(settings) != descriptors,
        "made memory that processes share": any(line.split()[1] in ("rw-s", "rwxs") for line in maps()),
        "wrote files": _tree(work) != files,
        "went to a folder that is made for each": here != Path(work) and here.is_relative_to(work),
    }
    for path in [path for path in sys.path_importer_cache if path.startswith(work)]:
        del sys.path_importer_cache[path]  # cached folder contents are out of date later
    state = random.getstate()
    imported = module, None if state == before else state
    return next((what for what, is_done in did.items() if is_done), imported)


def _open_descriptors(settings: evaluation.Settings) -> list[int]:
    limit = settings["limits"]["open_files"]
    return [number for number in range(limit) if os.path.exists(f"/proc/self/fd/{number}")]  # noqa: PTH110


def _tree(folder: str) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in Path(folder).rglob("*"))
