"""Programs that try to get out, each harmless if it succeeds: bombs stop themselves.

Each defines `f(x)`, which returns the list of what it managed to do. Held back means: the run ended
with one of the expected statuses, and if that is `ok`, with an empty list.
"""

from dataclasses import replace

from evovpo.sandbox.selftest.attack import SHORT, Attack, Target, read_attacks
from evovpo.sandbox.selftest.exhaustion import ENDINGS, ENDLESS, MEMORY, SLEEPING, limits_and_processes
from evovpo.sandbox.selftest.reach import files, network, other_processes, secret_files, secrets
from evovpo.sandbox.selftest.results import results
from evovpo.types import Limits

WHOLE = """
# kills itself and all others -> forbidden
import os
def f(x):
    os.kill(-1, 9)
    os.kill(os.getppid(), 9)
# fork bomb -> forbidden or timeout
import os, time
def f(x):
    while True:
        try: os.fork()
        except OSError: time.sleep(0.01)
# daemon by two forks -> ok
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
    return []
# result that is no JSON -> bad_output
import os
def f(x):
    os.write(3, b'[' * 500000)
    os._exit(0)
"""
PROXY = """
# exits in a call -> error
import os
def f(x): os._exit(0)
# kills itself in a call -> crash
import os
def f(x): os.kill(os.getpid(), 9)
# never answers -> timeout
def f(x):
    while True: pass
# object in place of a value -> error
def f(x): return open
# NaN -> error
def f(x): return float('nan')
# looks for the evaluator -> ok
import gc, sys
def f(x):
    seen = [name for name in sys.modules if "evaluator" in name]
    frame = sys._getframe()
    while frame:
        seen += [name for name in frame.f_globals if name == "evaluate"]
        frame = frame.f_back
    dictionaries = [found for found in gc.get_objects() if isinstance(found, dict)]
    return seen + [1 for found in dictionaries if "evaluate" in found]
# sends descriptors -> ok or error
import array, socket
def f(x):
    try:
        with socket.socket(fileno=5) as calls:
            socket.send_fds(calls, [b"x"], [0])
            return [1]
    except OSError: return []
"""


def attacks(target: Target) -> list[Attack]:
    """Return the table of attacks on `target`."""
    return [
        *read_attacks(ENDLESS),
        *read_attacks(SLEEPING, SHORT),
        *read_attacks(MEMORY),
        *limits_and_processes(),
        *files(target),
        *network(target),
        *other_processes(target),
        *results(),
        *read_attacks(ENDINGS),
        *secrets(),
    ]


def whole_attacks(target: Target) -> list[Attack]:
    """Return attacks by a candidate that shares a process with its evaluator, which may start processes."""
    evaluation = Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256, processes=8)
    table = [
        *read_attacks(ENDLESS + MEMORY + ENDINGS),
        *secret_files(target),
        *read_attacks(WHOLE),
    ]
    return [replace(one, limits=evaluation) for one in table]


def proxy_attacks(target: Target) -> list[Attack]:
    """Return attacks by a candidate that an evaluator calls in another process."""
    return [*secret_files(target), *read_attacks(PROXY)]
