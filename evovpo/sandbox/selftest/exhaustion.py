"""Attacks on what a machine has: time, memory, processes, and ends that should not look like results."""

import platform

from evovpo.sandbox.selftest.attack import SHORT, Attack, Target, attack, attempts
from evovpo.types import Status


def endless() -> list[Attack]:
    """Return programs that never end, and one that does no harm."""
    return [
        attack("no attack: must run", "def f(x): return []"),
        attack("infinite loop", "def f(x):\n    while True: pass", Status.TIMEOUT),
        attack(
            "sleeps forever",
            "import time\ndef f(x):\n    while True: time.sleep(3600)",
            Status.TIMEOUT,
            limits=SHORT,
        ),
        attack(
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
        attack(
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
        attack("long call in C", "def f(x): return 7 ** (10 ** 8) % 2", Status.TIMEOUT),
        attack(
            "regular expression that backtracks",
            "import re\ndef f(x): return re.match('(a+)+$', 'a' * 40 + 'b')",
            Status.TIMEOUT,
        ),
    ]


def memory() -> list[Attack]:
    """Return programs that take memory."""
    return [
        attack(
            "memory: heap",
            "def f(x):\n    kept = [bytearray(64 << 20) for _ in range(16)]\n    return ['1 GiB']",
            Status.MEMORY,
        ),
        attack(
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
        attack(
            "memory: memory file",
            "import os\ndef f(x): return [os.memfd_create('x')]",
            Status.ERROR,
            Status.FORBIDDEN,
        ),
        attack(
            "memory: System V segment",
            """
            import ctypes
            def f(x): return [1] if ctypes.CDLL(None).shmget(0, 1 << 20, 0o1600) >= 0 else []
            """,
        ),
        attempts(
            "raises its own limits",
            "import resource as r",
            {
                "memory": "r.setrlimit(r.RLIMIT_AS, (-1, r.getrlimit(r.RLIMIT_AS)[1]))",
                "time": "r.setrlimit(r.RLIMIT_CPU, r.getrlimit(r.RLIMIT_CPU)[1:] * 2)",
                "files": "r.setrlimit(r.RLIMIT_NOFILE, r.getrlimit(r.RLIMIT_NOFILE)[1:] * 2)",
            },
        ),
    ]


def processes(target: Target) -> list[Attack]:
    """Return programs that start processes and threads."""
    fork_by_number = "((56, 17), (57, 0), (58, 0))" if platform.machine() == "x86_64" else "((220, 17),)"
    return [
        attempts(
            "fork, spawn, exec",
            "import os, subprocess",
            {
                "fork": "os.fork() or os._exit(0)",
                "spawn": "subprocess.run(['/bin/true'])",
                "exec": "os.execv('/bin/true', ['true'])",
            },
            Status.OK,
            Status.FORBIDDEN,
        ),
        attack(
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
        attack(
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
        ),
        attack(
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


def kernel(target: Target) -> list[Attack]:
    """Return programs that ask the kernel for what none needs."""
    return [
        attack(
            "unshare",
            "import ctypes\ndef f(x): return [ctypes.CDLL(None).unshare(0x10000000)]",
            Status.FORBIDDEN,
        ),
        attack(
            "x32 system call",
            "import ctypes\ndef f(x): return [ctypes.CDLL(None).syscall(0x40000000 + 39)]",
            Status.FORBIDDEN,
        ),
        attack(
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
        ),
    ]


def endings() -> list[Attack]:
    """Return programs that end badly."""
    failures = (Status.MEMORY, Status.TIMEOUT, Status.CRASH, Status.ERROR)
    return [
        attack("exits before the result", "import os\ndef f(x): os._exit(0)", Status.BAD_OUTPUT),
        attack("exits while loaded", "import os\nos._exit(0)", Status.BAD_OUTPUT),
        attack("SystemExit", "def f(x): raise SystemExit(0)", Status.ERROR),
        attack(
            "recursion without limit",
            "import sys\nsys.setrecursionlimit(10**9)\ndef g(n): return g(n + 1)\ndef f(x): return g(0)",
            *failures,
        ),
        attack(
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
        attack("reads address 0", "import ctypes\ndef f(x): return ctypes.string_at(0)", Status.CRASH),
        attack("aborts", "import os\ndef f(x): os.abort()", Status.CRASH),
    ]
