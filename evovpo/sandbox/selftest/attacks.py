"""Programs that try to get out, each harmless if it succeeds: bombs stop themselves.

Each defines `f(x)`, which returns the list of what it managed to do. Held back means: the run ended
with one of the expected statuses, and if that is `ok`, with an empty list.
"""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evovpo.types import Limits, Status

QUICK = Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256)
"""Limits of the attacks: the CPU limit ends what never ends, so a busy machine changes nothing."""
SHORT = Limits(wall_seconds=0.5, cpu_seconds=1, memory_mb=256)
"""For attacks that use no CPU time."""

HIDDEN_ANSWER = "HIDDEN-" + "ANSWER-"
"""Start of a text that is only in the supervisor's memory."""
OTHER_CANDIDATE = "OTHER-" + "CANDIDATE"
"""A text that only an earlier program held."""

REFUSED = "(OSError, ValueError, RuntimeError, MemoryError, ImportError)"


@dataclass(frozen=True, slots=True)
class Target:
    """What the attacks aim at."""

    home: str
    """A folder that looks like a user's home."""
    pid: int
    """Process id of the supervisor."""
    port: int
    """A port on which something listens at 127.0.0.1."""
    hidden_file: str
    """A file below the Python installation that the sandbox was told to hide."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One program and how running it may end."""

    name: str
    code: str
    expected: frozenset[Status]
    limits: Limits = QUICK


def attacks(target: Target) -> list[Attack]:
    """Return the table of attacks on `target`."""
    table = [
        *_endless(),
        *_memory(),
        *_processes(target),
        *_files(target),
        *_network(target),
        *_other_processes(target),
        *_kernel(target),
        *_output(),
        *_results(),
        *_endings(),
        *_secrets(),
    ]
    if platform.machine() != "x86_64":
        table = [attack for attack in table if "x32" not in attack.name]
    return table


def whole_attacks(target: Target) -> list[Attack]:
    """Return attacks by a candidate that shares a process with its evaluator, which may start processes."""
    evaluation = Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256, processes=8)
    table = [
        attack
        for attack in [*_endless(), *_memory()[:2], *_endings(), *_secret_files(target), *_sockets()]
        if attack.limits is not SHORT
    ]
    own = [
        _attack(
            "kills itself and all others",
            "import os\ndef f(x):\n    os.kill(-1, 9)\n    os.kill(os.getppid(), 9)",
            Status.FORBIDDEN,
        ),
        _attack(
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
        _attack(
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
            Status.OK,
        ),
        _attack(
            "result that is no JSON",
            "import os\ndef f(x):\n    os.write(3, b'[' * 500000)\n    os._exit(0)",
            Status.BAD_OUTPUT,
        ),
    ]
    return [replace(attack, limits=evaluation) for attack in [*table, *own]]


def proxy_attacks(target: Target) -> list[Attack]:
    """Return attacks by a candidate that an evaluator calls in another process."""
    return [
        *_secret_files(target),
        *_sockets(),
        _attack("exits in a call", "import os\ndef f(x): os._exit(0)", Status.ERROR),
        _attack("kills itself in a call", "import os\ndef f(x): os.kill(os.getpid(), 9)", Status.CRASH),
        _attack("never answers", "def f(x):\n    while True: pass", Status.TIMEOUT),
        _attack("object in place of a value", "def f(x): return open", Status.ERROR),
        _attack("NaN", "def f(x): return float('nan')", Status.ERROR),
        _attack(
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
            Status.OK,
        ),
        _attack(
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


def _secret_files(target: Target) -> list[Attack]:
    return [
        *(attack for attack in _files(target) if attack.name == "reads the environment"),
        _attack(
            "reads and changes the home",
            _attempts(
                "import os",
                {
                    "key": f"open({target.home + '/.ssh/id_rsa'!r}).read()",
                    "users": "open('/etc/passwd').read()",
                    "supervisor": f"open('/proc/{target.pid}/environ').read()",
                    "append": f"open({target.home + '/.bashrc'!r}, 'a').write('x')",
                    "create": f"open({target.home + '/new'!r}, 'w')",
                    "remove": f"os.unlink({target.home + '/.bashrc'!r})",
                    "rename": f"os.rename({target.home + '/.bashrc'!r}, 'x')",
                },
            ),
            Status.OK,
        ),
    ]


def _sockets() -> list[Attack]:
    kinds = {"tcp": "2, 1", "udp": "2, 2", "unix": "1, 1", "netlink": "16, 3"}
    return [
        _attack(
            "opens sockets",
            _attempts("import socket", {name: f"socket.socket({kind})" for name, kind in kinds.items()}),
            Status.OK,
        )
    ]


def _attack(name: str, code: str, *expected: Status, limits: Limits = QUICK) -> Attack:
    return Attack(name, textwrap.dedent(code).lstrip("\n"), frozenset(expected), limits)


def _attempts(setup: str, statements: Mapping[str, str]) -> str:
    """Return a program that tries each statement and returns the names of those that went through."""
    lines = [setup, "def f(x):", "    done = []"]
    for name, statement in statements.items():
        lines += ["    try:", f"        {statement}", f"        done.append({name!r})"]
        lines += [f"    except {REFUSED}:", "        pass"]
    return "\n".join([*lines, "    return done", ""])


def _endless() -> list[Attack]:
    return [
        _attack("no attack: must run", "def f(x): return []", Status.OK),
        _attack("infinite loop", "def f(x):\n    while True: pass", Status.TIMEOUT),
        _attack(
            "sleeps forever",
            "import time\ndef f(x):\n    while True: time.sleep(3600)",
            Status.TIMEOUT,
            limits=SHORT,
        ),
        _attack(
            "ignores every signal",
            """
            import signal
            for number in range(1, 65):
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            def f(x):
                while True: pass
            """,
            Status.TIMEOUT,
        ),
        _attack(
            "catches BaseException",
            """
            def f(x):
                while True:
                    try:
                        while True: pass
                    except BaseException: pass
            """,
            Status.TIMEOUT,
        ),
        _attack("long call in C", "def f(x): return 7 ** (10 ** 8) % 2", Status.TIMEOUT),
        _attack(
            "regular expression that backtracks",
            "import re\ndef f(x): return re.match('(a+)+$', 'a' * 40 + 'b')",
            Status.TIMEOUT,
        ),
    ]


def _memory() -> list[Attack]:
    return [
        _attack(
            "memory: heap",
            "def f(x):\n    kept = [bytearray(64 << 20) for _ in range(16)]\n    return ['1 GiB']",
            Status.MEMORY,
        ),
        _attack(
            "memory: shared mapping",
            """
            import mmap
            def f(x):
                kept = []
                for _ in range(16):
                    kept.append(mmap.mmap(-1, 64 << 20))
                    kept[-1].write(b'x' * (64 << 20))
                return ['1 GiB']
            """,
            Status.MEMORY,
        ),
        _attack(
            "memory: memory file",
            "import os\ndef f(x): return [os.memfd_create('x')]",
            Status.ERROR,
            Status.FORBIDDEN,
        ),
        _attack(
            "memory: System V segment",
            """
            import ctypes
            def f(x): return [1] if ctypes.CDLL(None).shmget(0, 1 << 20, 0o1600) >= 0 else []
            """,
            Status.OK,
        ),
        _attack(
            "raises its own limits",
            _attempts(
                "import resource as r",
                {
                    "memory": "r.setrlimit(r.RLIMIT_AS, (-1, r.getrlimit(r.RLIMIT_AS)[1]))",
                    "time": "r.setrlimit(r.RLIMIT_CPU, r.getrlimit(r.RLIMIT_CPU)[1:] * 2)",
                    "files": "r.setrlimit(r.RLIMIT_NOFILE, r.getrlimit(r.RLIMIT_NOFILE)[1:] * 2)",
                },
            ),
            Status.OK,
        ),
    ]


def _processes(target: Target) -> list[Attack]:
    fork_by_number = "((56, 17), (57, 0), (58, 0))" if platform.machine() == "x86_64" else "((220, 17),)"
    return [
        _attack(
            "fork, spawn, exec",
            _attempts(
                "import os, subprocess",
                {
                    "fork": "os.fork() or os._exit(0)",
                    "spawn": "subprocess.run(['/bin/true'])",
                    "exec": "os.execv('/bin/true', ['true'])",
                },
            ),
            Status.OK,
            Status.FORBIDDEN,
        ),
        _attack(
            "fork by system call number",
            f"""
            import ctypes, os
            def f(x):
                done = []
                for number, flags in {fork_by_number}:
                    pid = ctypes.CDLL(None).syscall(number, flags, 0, 0, 0, 0)
                    if pid == 0: os._exit(0)
                    if pid > 0: done.append(number)
                return done
            """,
            Status.OK,
            Status.FORBIDDEN,
        ),
        _attack(
            "threads",
            """
            import threading, time
            threading.stack_size(65536)
            def f(x):
                started = 0
                try:
                    for _ in range(300):
                        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
                        started += 1
                except RuntimeError: pass
                return [started] if started else []
            """,
            Status.OK,
        ),
        _attack(
            "daemon by two forks",
            """
            import os, time
            def f(x):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0: time.sleep(1)
                    os._exit(0)
                return ['daemon']
            """,
            Status.FORBIDDEN,
        ),
    ]


def _files(target: Target) -> list[Attack]:
    home = target.home
    written = [f"{home}/.bashrc", f"{home}/new", "x"]
    written += [f"{folder}/evovpo-x" for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    read = [f"{home}/.ssh/id_rsa", "/etc/passwd", "/etc/hostname", target.hidden_file]
    read += [f"/proc/{target.pid}/{name}" for name in ("mem", "maps", "cmdline", "environ")]
    read += ["/proc/self/environ", "/proc/self/maps", "/proc/1/cmdline"]
    changes = {
        "chmod": "os.chmod(p, 0o777)",
        "chown": "os.chown(p, -1, -1)",
        "utime": "os.utime(p, (1, 1))",
        "setxattr": "os.setxattr(p, 'user.x', b'1')",
        "truncate": "os.truncate(p, 0)",
        "O_TRUNC": "os.open(p, os.O_RDONLY | os.O_TRUNC)",
        "link": "os.link(p, p + '2')",
        "symlink": "os.symlink(p, p + '3')",
        "rename": "os.rename(p, p + '4')",
        "unlink": "os.unlink(p)",
        "mkdir": "os.mkdir(p + '5')",
        "mkfifo": "os.mkfifo(p + '6')",
    }
    return [
        _attack(
            "writes files",
            _attempts(
                "import sys",
                {path: f"open({path!r}, 'a').write('x')" for path in written}
                | {"installation": "open(sys.prefix + '/evovpo-x', 'w')"},
            ),
            Status.OK,
        ),
        _attack(
            "changes names and metadata",
            _attempts(f"import os\np = {f'{home}/.bashrc'!r}", changes),
            Status.OK,
        ),
        _attack(
            "reads secrets",
            _attempts(
                "import os",
                {path: f"open({path!r}, 'rb').read(9)" for path in read}
                | {path: f"os.listdir({path!r})" for path in (home, "/", "/proc")},
            ),
            Status.OK,
        ),
        _attack(
            "reads the environment",
            """
            import ctypes, os
            def f(x):
                getenv = ctypes.CDLL(None).getenv
                getenv.restype = ctypes.c_char_p
                seen = [name for name in os.environ if 'KEY' in name]
                return seen + ['C'] if getenv(b'OPENAI_API_KEY') else seen
            """,
            Status.OK,
        ),
    ]


def _network(target: Target) -> list[Attack]:
    kinds = {
        "tcp": "2, 1",
        "tcp6": "10, 1",
        "udp": "2, 2",
        "unix": "1, 1",
        "netlink": "16, 3",
        "packet": "17, 3",
    }
    kinds |= {"vsock": "40, 1", "crypto": "38, 5"}
    return [
        _attack(
            "opens sockets",
            _attempts(
                "import socket",
                {name: f"socket.socket({kind})" for name, kind in kinds.items()}
                | {"pair": "socket.socketpair()"},
            ),
            Status.OK,
        ),
        _attack(
            "connects to this machine",
            f"""
            import socket
            def f(x): return [socket.create_connection(('127.0.0.1', {target.port}), 1) and 1]
            """,
            Status.FORBIDDEN,
        ),
        _attack(
            "io_uring",
            """
            import ctypes
            parameters = ctypes.create_string_buffer(120)
            def f(x): return [1] if ctypes.CDLL(None).syscall(425, 4, parameters) >= 0 else []
            """,
            Status.OK,
        ),
    ]


def _other_processes(target: Target) -> list[Attack]:
    pid = target.pid
    return [
        _attack(
            "signals",
            _attempts(
                "import os",
                {
                    "fork-server": "os.kill(os.getppid(), 0)",
                    "its thread": "os.kill(-os.getppid(), 0)",
                    "supervisor": f"os.kill({pid}, 0)",
                    "all": "os.kill(-1, 0)",
                    "group": "os.kill(0, 0)",
                    "supervisor's group": f"os.killpg({pid}, 0)",
                    "pidfd": f"os.pidfd_open({pid})",
                },
            ),
            Status.OK,
        ),
        _attack(
            "limits and scheduling of others",
            _attempts(
                "import os, resource as r",
                {
                    "limits": f"r.prlimit({pid}, r.RLIMIT_CPU, (999, 999))",
                    "fork-server's limits": "r.prlimit(os.getppid(), r.RLIMIT_CPU)",
                    "priority": f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
                    "affinity": f"os.sched_setaffinity({pid}, {{0}})",
                },
            ),
            Status.OK,
        ),
        _attack(
            "ptrace",
            f"import ctypes\ndef f(x): return [ctypes.CDLL(None).ptrace(0x4206, {pid}, 0, 0)]",
            Status.FORBIDDEN,
        ),
        _attack(
            "reads another process's memory",
            f"import ctypes\ndef f(x): return [ctypes.CDLL(None).process_vm_readv({pid}, 0, 0, 0, 0, 0)]",
            Status.FORBIDDEN,
        ),
        _attack(
            "leaves marks on shared files for the next program",
            _attempts(
                "import fcntl, os",
                {
                    "flags": "[fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND) for fd in (0, 1, 3, 4)]",
                    "locks": "[fcntl.flock(fd, fcntl.LOCK_EX) for fd in (1, 3, 4)]",
                    "seals": "fcntl.fcntl(4, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)",
                    "mode": "os.fchmod(4, 0o600)",
                    "blocking": "os.set_blocking(4, False)",
                },
            ),
            Status.OK,
        ),
    ]


def _kernel(target: Target) -> list[Attack]:
    return [
        _attack(
            "unshare",
            "import ctypes\ndef f(x): return [ctypes.CDLL(None).unshare(0x10000000)]",
            Status.FORBIDDEN,
        ),
        _attack(
            "x32 system call",
            "import ctypes\ndef f(x): return [ctypes.CDLL(None).syscall(0x40000000 + 39)]",
            Status.FORBIDDEN,
        ),
        _attack(
            "many open files",
            """
            import os
            def f(x):
                opened = 0
                try:
                    while opened < 9999:
                        os.pipe()
                        opened += 1
                except OSError: pass
                return [] if opened < 64 else [opened]
            """,
            Status.OK,
        ),
    ]


def _output() -> list[Attack]:
    return [
        _attack(
            "prints 1 GB",
            """
            import os
            def f(x):
                written = 0
                for _ in range(1024):
                    try: written += os.write(1, b'x' * (1 << 20))
                    except OSError: pass
                return [] if written <= 2 << 20 else [written]
            """,
            Status.OK,
        ),
        _attack("returns 64 MB", "def f(x): return 'x' * (64 << 20)", Status.OUTPUT_LIMIT, Status.MEMORY),
        _attack(
            "nests 100,000 lists",
            "def f(x):\n    o = []\n    for _ in range(100000): o = [o]\n    return o",
            Status.BAD_OUTPUT,
        ),
    ]


def _results() -> list[Attack]:
    """Return attacks on the reader of results; those that write bytes know the result file's number."""
    raw = {
        "nesting, raw": "b'[' * 500000",
        "1e999, raw": """b'{"i": 0, "out": 1e999}\\n{"done": true}\\n'""",
        "a million digits, raw": """b'{"i": 0, "out":' + b'9' * 900000 + b'}\\n{"done": true}\\n'""",
        "half a surrogate pair, raw": """b'{"i": 0, "out": "\\\\ud800"}\\n{"done": true}\\n'""",
        "a case that is not there": """b'{"i": 7, "out": 1}\\n{"done": true}\\n'""",
        "verdict instead of result": """b'{"status": "ok", "rewards": [1]}\\n'""",
        "pickle": "pickle.dumps(P())",
    }
    return [
        *(
            _attack(
                name,
                f"""
                import os, pickle
                class P:
                    def __reduce__(self): return os.system, ('true',)
                def f(x):
                    os.write(4, {data})
                    os._exit(0)
                """,
                Status.BAD_OUTPUT,
            )
            for name, data in raw.items()
        ),
        _attack("NaN", "def f(x): return float('nan')", Status.BAD_OUTPUT),
        _attack("integer of 4,000 digits", "def f(x): return 10 ** 4000", Status.BAD_OUTPUT),
        _attack("half a surrogate pair", "def f(x): return '\\ud800'", Status.BAD_OUTPUT),
        _attack(
            "object equal to everything",
            """
            class E:
                __eq__ = lambda self, other: True
                __hash__ = lambda self: 0
            def f(x): return E()
            """,
            Status.BAD_OUTPUT,
        ),
        _attack(
            "verdict to every descriptor",
            """
            import os
            def f(x):
                for fd in range(64):
                    try: os.write(fd, b'R{"score": 1, "status": "ok"}\\n')
                    except OSError: pass
                os._exit(0)
            """,
            Status.BAD_OUTPUT,
        ),
        _attack(
            "patches json and builtins",
            """
            import json, builtins
            json.dumps = json.JSONEncoder.encode = lambda *a, **k: '{"done": true}'
            builtins.abs = lambda *a: 0
            def f(x): return []
            """,
            Status.OK,
            Status.BAD_OUTPUT,
        ),
    ]


def _endings() -> list[Attack]:
    failures = (Status.MEMORY, Status.TIMEOUT, Status.CRASH, Status.ERROR)
    return [
        _attack("exits before the result", "import os\ndef f(x): os._exit(0)", Status.BAD_OUTPUT),
        _attack("exits while loaded", "import os\nos._exit(0)", Status.BAD_OUTPUT),
        _attack("SystemExit", "def f(x): raise SystemExit(0)", Status.ERROR),
        _attack(
            "recursion without limit",
            "import sys\nsys.setrecursionlimit(10**9)\ndef g(n): return g(n + 1)\ndef f(x): return g(0)",
            *failures,
        ),
        _attack(
            "recursion in C",
            """
            import sys
            sys.setrecursionlimit(10**9)
            def f(x):
                o = []
                for _ in range(10**6): o = [o]
                return len(repr(o))
            """,
            *failures,
        ),
        _attack("reads address 0", "import ctypes\ndef f(x): return ctypes.string_at(0)", Status.CRASH),
        _attack("aborts", "import os\ndef f(x): os.abort()", Status.CRASH),
    ]


def _secrets() -> list[Attack]:
    return [
        _attack(
            "searches frames and heap for answers",
            f"""
            import gc, re, sys
            def f(x):
                pattern = re.compile({HIDDEN_ANSWER[:7]!r} + {HIDDEN_ANSWER[7:]!r} + '[0-9a-f]{{16}}')
                gc.unfreeze()
                values, frame = [], sys._getframe()
                while frame:
                    values += [*frame.f_locals.values(), *frame.f_globals.values()]
                    frame = frame.f_back
                values += [o for o in gc.get_objects() if isinstance(o, (dict, list, tuple))]
                found = set()
                for value in values:
                    try: found.update(pattern.findall(repr(value)[:99999]))
                    except BaseException: pass
                return sorted(found)
            """,
            Status.OK,
            limits=Limits(wall_seconds=30.0, cpu_seconds=20, memory_mb=256),
        ),
        _attack(
            "searches for another program's data",
            f"""
            import gc, os
            def f(x):
                wanted = '-'.join({OTHER_CANDIDATE.split("-")})
                gc.unfreeze()
                seen = gc.get_objects()
                for _ in range(3):
                    seen = list({{id(o): o for o in gc.get_referents(*seen)}}.values())
                    found = [s for s in seen if isinstance(s, str) and wanted in s and s is not wanted]
                    if found: break
                files = [os.pread(fd, 1 << 20, 0).decode(errors='replace').count(wanted) for fd in (1, 4)]
                places = [os.lseek(fd, 0, os.SEEK_CUR) for fd in (1, 3, 4)]
                return found + [n for n in files + places if n]
            """,
            Status.OK,
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
