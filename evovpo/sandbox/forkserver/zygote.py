"""The process that imports an evaluator once, under the locks of an evaluation, and forks for each of them.

What importing did to the process's memory every evaluation finds, and nothing of another one. Where it did
more (threads, processes, open files, memory shared with children), forking would not carry it over, or would
let one evaluation see what another did: then each evaluation imports the evaluator itself.
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
from types import ModuleType
from typing import Any, NoReturn

from . import child, evaluation, kernel

CONTROL = 3
"""File descriptor of the socket by which the watcher asks for evaluations."""


def become_zygote(settings: evaluation.Settings, control_end: int, watcher: int, is_warm: bool) -> NoReturn:
    """Lock this fresh child of a watcher down, import the evaluator if it is to be warm, and serve.

    The first message says what keeps it from being warm; an empty text if nothing does.
    """
    try:
        kernel.die_with_parent()
        if os.getppid() != watcher:
            os._exit(1)
        child.place({1: 0, 2: 0, CONTROL: control_end})  # what importing prints is no evaluation's
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
        with socket.socket(fileno=CONTROL) as control:
            descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
            with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
                prepared = _lock_down(settings, watcher)
                reason = ""
                if is_warm:
                    prepared, reason = _import(prepared, descriptors, maps.readlines)
            os.close(descriptors)
            control.send(json.dumps({"reason": reason}).encode())
            gc.collect()
            gc.freeze()
            _serve(control, prepared)
    finally:
        os._exit(1)


def _lock_down(settings: evaluation.Settings, watcher: int) -> evaluation.Prepared:
    """Take all the locks of an evaluation but those that need its process: limits for good, signals."""
    settings["own_bytes"] = child.mapped_bytes()
    evaluation.limit_resources(settings, settings["other_tasks"], is_final=False)
    os.chdir(settings["working_folder"])
    filters = settings["filters"]
    if settings["user"] is not None:
        kernel.become_user(settings["user"], settings["reading_capability"])
    elif settings["is_locked"]:
        kernel.drop_privileges()
        filters = [*settings["metadata_filters"], *filters]
    ruleset = -1
    if settings["landlock_abi"]:
        ruleset = kernel.file_rules(
            settings["readable"],
            settings["landlock_abi"],
            settings["writable"],
            can_execute=True,
            has_network=settings["has_network"],
        )
        kernel.restrict(ruleset, settings["landlock_abi"])
    loaded = [kernel.Filter(bytes.fromhex(compiled)) for compiled in filters]
    own = [kernel.Filter(bytes.fromhex(compiled)) for compiled in settings["signal_filters"]]
    for compiled in (*own, *loaded):
        compiled.load(evaluation.signal_places(settings, watcher))
    return evaluation.Prepared(settings, os.getpid(), ruleset, own, None, lambda: None)


def _import(
    prepared: evaluation.Prepared, descriptors: int, maps: Callable[[], list[str]]
) -> tuple[evaluation.Prepared, str]:
    """Return what is prepared with the evaluator imported, and what of it forking would not carry over."""
    settings = prepared.settings
    before = random.getstate()
    try:
        evaluation.copy_project(settings)
        state = os.listdir(descriptors), _tree(settings["work"])
        module = evaluation.load_evaluator(settings["evaluator"], settings["program_folder"])
        if "numpy" in sys.modules:
            importlib.import_module("numpy.random")  # lazy in numpy 2, and slow to import
    except BaseException as error:  # each evaluation will say so itself
        return prepared, f"raised {type(error).__name__}"
    if os.stat("/proc/self/task").st_nlink > 3:  # noqa: PTH116  # . and .. and one thread
        return prepared, "started threads"
    if os.listdir(descriptors) != state[0]:
        return prepared, "left files or devices open"
    if any(line.split()[1].startswith("rw") and line.split()[1].endswith("s") for line in maps()):
        return prepared, "made memory that processes share"
    if _tree(settings["work"]) != state[1]:
        return prepared, "wrote files"
    here = Path.cwd()
    if here != Path(settings["working_folder"]) and here.is_relative_to(settings["work"]):
        return prepared, "went to a folder that is made for each evaluation"
    for path in [path for path in sys.path_importer_cache if path.startswith(settings["work"])]:
        del sys.path_importer_cache[path]  # that lists what is there now
    return prepared._replace(evaluator=module, restore=_random_restorer(before)), ""


def _tree(folder: str) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in Path(folder).rglob("*"))


def _random_restorer(before: Any) -> Callable[[], None]:
    """Return what gives a child the generators that a fresh process would have.

    A seed that importing gave them holds; without one each evaluation has its own.
    """
    state = random.getstate()
    is_seeded = state != before

    def restore() -> None:
        if is_seeded:
            random.setstate(state)  # it took a new seed when it was forked
        numpy: ModuleType | None = sys.modules.get("numpy.random")
        if numpy is not None and numpy.get_bit_generator().seed_seq is not None:  # nobody seeded it
            numpy.seed()

    return restore


def _serve(control: socket.socket, prepared: evaluation.Prepared) -> None:
    """Fork an evaluation for every set of descriptors, and say how each ended, until the watcher is gone."""
    counted_ms = 0.0
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 16, 8)
        if not descriptors:
            return
        pid = os.fork()
        if pid == 0:
            evaluation.become_evaluation(prepared, descriptors)
        for number in descriptors:
            os.close(number)
        _, status, usage = os.wait4(pid, 0)
        now_ms = child.own_cpu_ms()
        report = {"status": status, "child_cpu_ms": child.cpu_ms(usage), "cpu_ms": now_ms - counted_ms}
        counted_ms = now_ms
        control.send(json.dumps(report).encode())
