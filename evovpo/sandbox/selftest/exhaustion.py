"""Attacks that exhaust time, memory or processes, raise limits, or end without a result."""

import platform

ENDLESS = """
# no attack: must run -> ok
def f(x): return []
# infinite loop -> timeout
def f(x):
    while True: pass
# ignores every signal -> timeout
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass
# catches BaseException -> timeout
def f(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
# long call in C -> timeout
def f(x): return 7 ** (10 ** 8) % 2
# regular expression that backtracks -> timeout
import re
def f(x): return re.match('(a+)+$', 'a' * 40 + 'b')
"""
SLEEPING = """
# sleeps forever -> timeout
import time
def f(x):
    while True: time.sleep(3600)
"""
MEMORY = """
# memory: heap -> memory
def f(x):
    kept = [bytearray(64 << 20) for _ in range(16)]
    return ['1 GiB']
# memory: shared mapping -> memory
import mmap
def f(x):
    kept = []
    for _ in range(16):
        kept.append(mmap.mmap(-1, 64 << 20))
        kept[-1].write(b'x' * (64 << 20))
    return ['1 GiB']
"""
LIMITS = """
# memory: memory file -> error or forbidden
import os
def f(x): return [os.memfd_create('x')]
# memory: System V segment -> ok
import ctypes
def f(x): return [1] if ctypes.CDLL(None).shmget(0, 1 << 20, 0o1600) >= 0 else []
# raises its own limits -> ok
import resource as r
? r.setrlimit(r.RLIMIT_AS, (-1, r.getrlimit(r.RLIMIT_AS)[1]))
? r.setrlimit(r.RLIMIT_CPU, r.getrlimit(r.RLIMIT_CPU)[1:] * 2)
? r.setrlimit(r.RLIMIT_NOFILE, r.getrlimit(r.RLIMIT_NOFILE)[1:] * 2)
# fork, spawn, exec -> ok or forbidden
import os, subprocess
? os.fork() or os._exit(0)
? subprocess.run(['/bin/true'])
? os.execv('/bin/true', ['true'])
# fork by system call number -> ok or forbidden
import ctypes, os
def f(x):
    done = []
    x86_64 = ((56, 17), (57, 0), (58, 0))
    for number, flags in x86_64 if os.uname().machine == 'x86_64' else ((220, 17),):
        pid = ctypes.CDLL(None).syscall(number, flags, 0, 0, 0, 0)
        if pid == 0: os._exit(0)
        if pid > 0: done.append(number)
    return done
# threads -> ok
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
# daemon by two forks -> forbidden
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(1)
        os._exit(0)
    return ['daemon']
"""
KERNEL = """
# unshare -> forbidden
import ctypes
def f(x): return [ctypes.CDLL(None).unshare(0x10000000)]
# many open files -> ok
import os
def f(x):
    opened = 0
    try:
        while opened < 9999:
            os.pipe()
            opened += 1
    except OSError: pass
    return [] if opened < 64 else [opened]
"""
"""Programs that make system calls that no program needs, or open many files."""
if platform.machine() == "x86_64":
    KERNEL += """
# x32 system call -> forbidden
import ctypes
def f(x): return [ctypes.CDLL(None).syscall(0x40000000 + 39)]
"""
ENDINGS = """
# exits before the result -> bad_output
import os
def f(x): os._exit(0)
# exits while loaded -> bad_output
import os
os._exit(0)
# SystemExit -> error
def f(x): raise SystemExit(0)
# recursion without limit -> memory or timeout or crash or error
import sys
sys.setrecursionlimit(10**9)
def g(n): return g(n + 1)
def f(x): return g(0)
# recursion in C -> memory or timeout or crash or error
import sys
sys.setrecursionlimit(10**9)
def f(x):
    o = []
    for _ in range(10**6): o = [o]
    return len(repr(o))
# reads address 0 -> crash
import ctypes
def f(x): return ctypes.string_at(0)
# aborts -> crash
import os
def f(x): os.abort()
"""
