"""Interrupts and short errors of calls, also from notebooks, where an event loop runs already."""

import asyncio
import contextlib
import ctypes
import functools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import ParamSpec, TypeVar

from evovpo.errors import EvovpoError, ProposerError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_STOPPED = "stopped before the run began"


_WORD = r"(?:\$\([^)]*\)|[^\s;,)\]}])+"
_OPTIONS = {
    r"evovpo resume \S+ --evaluations (\d+)": r"evovpo.resume(run, evaluations=\1)",
    r"evovpo resume \S+": "evovpo.resume(run) with",
    r"--base-url URL --model NAME": "base_url= and model=, or proposer=",
    r" \(choose with --columns A,B\)": "",
    r"--set ([\w.]+)=([\d.]+)(?![^\s;,)])": r"settings={'\1': \2}",
    r"--set ([\w.]+)=([^\s;,)]+)": r"settings={'\1': '\2'}",
    r"under \[limits\] in problem.toml": "with limits=",
    rf"--allow ({_WORD})((?: --allow {_WORD})*)": r"settings={'evaluator.allow': ['\1'\2]}",
    rf" --allow ({_WORD})": r", '\1'",
    r"--from ([^\s;,)]+)": r"settings={'run.origin': ['\1']}",
    r"--(evaluations|seed|config)\b ?": r"\1=",
    r" \(# in the table\)": "",
}
"""Options of the command line -> arguments in Python."""


def in_python(text: str) -> str:
    """Return a message with arguments in Python in place of options."""
    for option, argument in _OPTIONS.items():
        text = re.sub(option, argument, text)
    return text


def short_errors(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return `function` with short tracebacks of its errors, which name arguments in place of options.

    Only a `ProposerError` keeps its cause.
    """

    @functools.wraps(function)
    def called(*arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return function(*arguments, **named)
        except (EvovpoError, KeyboardInterrupt) as error:
            cause = error.__cause__ if isinstance(error, ProposerError) else None
            error.args = tuple(in_python(str(part)) for part in error.args)
            raise error.with_traceback(None) from cause

    return called


def outside_loop(function: Callable[[], _T]) -> _T:
    """Return `function()`. If this thread runs an event loop, call `function` in another thread.

    An interrupt of this thread is raised in the other thread, too.
    """
    is_inside = False
    with contextlib.suppress(RuntimeError):
        is_inside = asyncio.get_running_loop() is not None
    if not is_inside:
        try:
            return function()
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(*(error.args or (_STOPPED,))) from None
    threads: list[int] = []
    is_stopped = False
    with ThreadPoolExecutor(1, initializer=lambda: threads.append(threading.get_ident())) as pool:
        future = pool.submit(function)
        while not future.done():
            try:
                wait([future], timeout=0.2)  # a longer wait would not notice every kind of interrupt
            except KeyboardInterrupt:
                is_stopped = True
                for thread in map(ctypes.c_ulong, threads):
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))
    if is_stopped:
        ended = future.exception()
        raise KeyboardInterrupt(*(ended.args if isinstance(ended, KeyboardInterrupt) else ()) or (_STOPPED,))
    return future.result()
