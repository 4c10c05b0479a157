"""Programs that try to get out, each harmless if it succeeds: bombs stop themselves.

Each defines `f(x)`, which returns the list of what it managed to do. Held back means: the run ended
with one of the expected statuses, and if that is `ok`, with an empty list.
"""

import platform
from dataclasses import replace
from pathlib import Path

from evovpo.sandbox.selftest.attack import SHORT, Attack, Target, attack
from evovpo.sandbox.selftest.exhaustion import endings, endless, kernel, memory, processes
from evovpo.sandbox.selftest.reach import files, network, other_processes, secret_files, secrets, sockets
from evovpo.sandbox.selftest.results import output, results
from evovpo.types import Limits, Status


def attacks(target: Target) -> list[Attack]:
    """Return the table of attacks on `target`."""
    table = [
        *endless(),
        *memory(),
        *processes(target),
        *files(target),
        *network(target),
        *other_processes(target),
        *kernel(target),
        *output(),
        *results(),
        *endings(),
        *secrets(),
    ]
    if platform.machine() != "x86_64":
        table = [one for one in table if "x32" not in one.name]
    return table


def whole_attacks(target: Target) -> list[Attack]:
    """Return attacks by a candidate that shares a process with its evaluator, which may start processes."""
    evaluation = Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256, processes=8)
    table = [
        one
        for one in [*endless(), *memory()[:2], *endings(), *secret_files(target), *sockets()]
        if one.limits is not SHORT
    ]
    own = [
        attack(
            "kills itself and all others",
            "import os\ndef f(x):\n    os.kill(-1, 9)\n    os.kill(os.getppid(), 9)",
            Status.FORBIDDEN,
        ),
        attack(
            "fork bomb",
            """
            import os, time
            def f(x):
                while True:
                    try: os.fork()
                    except OSError: time.sleep(0.01)
            """,
            Status.FORBIDDEN,
            Status.TIMEOUT,
        ),
        attack(
            "daemon by two forks",
            """
            import os, time
            def f(x):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0: time.sleep(600)
                    os._exit(0)
                return []
            """,
        ),
        attack(
            "result that is no JSON",
            "import os\ndef f(x):\n    os.write(3, b'[' * 500000)\n    os._exit(0)",
            Status.BAD_OUTPUT,
        ),
    ]
    return [replace(one, limits=evaluation) for one in [*table, *own]]


def proxy_attacks(target: Target) -> list[Attack]:
    """Return attacks by a candidate that an evaluator calls in another process."""
    return [
        *secret_files(target),
        *sockets(),
        attack("exits in a call", "import os\ndef f(x): os._exit(0)", Status.ERROR),
        attack("kills itself in a call", "import os\ndef f(x): os.kill(os.getpid(), 9)", Status.CRASH),
        attack("never answers", "def f(x):\n    while True: pass", Status.TIMEOUT),
        attack("object in place of a value", "def f(x): return open", Status.ERROR),
        attack("NaN", "def f(x): return float('nan')", Status.ERROR),
        attack(
            "looks for the evaluator",
            """
            import gc, sys
            def f(x):
                seen = [name for name in sys.modules if "evaluator" in name]
                frame = sys._getframe()
                while frame:
                    seen += [name for name in frame.f_globals if name == "evaluate"]
                    frame = frame.f_back
                dictionaries = [found for found in gc.get_objects() if isinstance(found, dict)]
                return seen + [1 for found in dictionaries if "evaluate" in found]
            """,
        ),
        attack(
            "sends descriptors",
            """
            import array, socket
            def f(x):
                try:
                    with socket.socket(fileno=5) as calls:
                        socket.send_fds(calls, [b"x"], [0])
                        return [1]
                except OSError: return []
            """,
            Status.OK,
            Status.ERROR,
        ),
    ]


def pretend_secrets(home: str) -> None:
    """Fill `home` with what the attacks look for."""
    Path(home, ".ssh").mkdir()
    Path(home, ".ssh", "id_rsa").write_text("PRIVATE")
    Path(home, ".bashrc").write_text("#\n")


def is_untouched(home: str) -> bool:
    """True if `home` is as `pretend_secrets` left it."""
    names = sorted(path.name for path in Path(home).iterdir())
    return names == [".bashrc", ".ssh"] and Path(home, ".bashrc").read_text() == "#\n"
