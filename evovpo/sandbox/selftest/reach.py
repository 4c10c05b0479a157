"""Attacks on what is outside a program: files, network, other processes, and what memory still holds."""

from evovpo.sandbox.selftest.attack import (
    HIDDEN_ANSWER,
    OTHER_CANDIDATE,
    Attack,
    Target,
    attempts,
    read_attacks,
)
from evovpo.types import Limits

ENVIRONMENT = """
# reads the environment -> ok
import ctypes, os
def f(x):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    seen = [name for name in os.environ if 'KEY' in name]
    return seen + ['C'] if getenv(b'OPENAI_API_KEY') else seen
"""
CONNECTIONS = """
# connects to this machine -> forbidden
import socket
def f(x): return [socket.create_connection(('127.0.0.1', {port}), 1) and 1]
# io_uring -> ok
import ctypes
parameters = ctypes.create_string_buffer(120)
def f(x): return [1] if ctypes.CDLL(None).syscall(425, 4, parameters) >= 0 else []
"""
TRACING = """
# ptrace -> forbidden
import ctypes
def f(x): return [ctypes.CDLL(None).ptrace(0x4206, {pid}, 0, 0)]
# reads another process's memory -> forbidden
import ctypes
def f(x): return [ctypes.CDLL(None).process_vm_readv({pid}, 0, 0, 0, 0, 0)]
"""
ANSWERS = f"""
# searches frames and heap for answers -> ok
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
"""
OTHER_DATA = f"""
# searches for another program's data -> ok
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
"""
SOCKETS = {
    "tcp": "socket.socket(2, 1)",
    "udp": "socket.socket(2, 2)",
    "unix": "socket.socket(1, 1)",
    "netlink": "socket.socket(16, 3)",
}


def files(target: Target) -> list[Attack]:
    """Return programs that read and change files."""
    home = target.home
    written = [f"{home}/.bashrc", f"{home}/new", "x"]
    written += [f"{folder}/evovpo-x" for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    read = [f"{home}/.ssh/id_rsa", "/etc/passwd", "/etc/hostname", target.hidden_file]
    read += [f"/proc/{target.pid}/{name}" for name in ("mem", "maps", "cmdline", "environ")]
    read += ["/proc/self/environ", "/proc/self/maps", "/proc/1/cmdline"]
    writing = {path: f"open({path!r}, 'a').write('x')" for path in written}
    writing["installation"] = "open(sys.prefix + '/evovpo-x', 'w')"
    reading = {path: f"open({path!r}, 'rb').read(9)" for path in read}
    reading |= {path: f"os.listdir({path!r})" for path in (home, "/", "/proc")}
    changing = {
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
        attempts("writes files", "import sys", writing),
        attempts("changes names and metadata", f"import os\np = {f'{home}/.bashrc'!r}", changing),
        attempts("reads secrets", "import os", reading),
        *read_attacks(ENVIRONMENT),
    ]


def secret_files(target: Target) -> list[Attack]:
    """Return programs that look for what a user keeps secret, and for the network, beside an evaluator."""
    using = {
        "key": f"open({target.home + '/.ssh/id_rsa'!r}).read()",
        "users": "open('/etc/passwd').read()",
        "supervisor": f"open('/proc/{target.pid}/environ').read()",
        "append": f"open({target.home + '/.bashrc'!r}, 'a').write('x')",
        "create": f"open({target.home + '/new'!r}, 'w')",
        "remove": f"os.unlink({target.home + '/.bashrc'!r})",
        "rename": f"os.rename({target.home + '/.bashrc'!r}, 'x')",
    }
    return [
        *read_attacks(ENVIRONMENT),
        attempts("reads and changes the home", "import os", using),
        attempts("opens sockets", "import socket", SOCKETS),
    ]


def network(target: Target) -> list[Attack]:
    """Return programs that use the network."""
    opening = SOCKETS | {
        "tcp6": "socket.socket(10, 1)",
        "packet": "socket.socket(17, 3)",
        "vsock": "socket.socket(40, 1)",
        "crypto": "socket.socket(38, 5)",
        "pair": "socket.socketpair()",
    }
    return [
        attempts("opens sockets", "import socket", opening),
        *read_attacks(CONNECTIONS.format(port=target.port)),
    ]


def other_processes(target: Target) -> list[Attack]:
    """Return programs that reach for other processes."""
    pid = target.pid
    signalling = {
        "fork-server": "os.kill(os.getppid(), 0)",
        "its thread": "os.kill(-os.getppid(), 0)",
        "supervisor": f"os.kill({pid}, 0)",
        "all": "os.kill(-1, 0)",
        "group": "os.kill(0, 0)",
        "supervisor's group": f"os.killpg({pid}, 0)",
        "pidfd": f"os.pidfd_open({pid})",
    }
    changing = {
        "limits": f"r.prlimit({pid}, r.RLIMIT_CPU, (999, 999))",
        "fork-server's limits": "r.prlimit(os.getppid(), r.RLIMIT_CPU)",
        "priority": f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
        "affinity": f"os.sched_setaffinity({pid}, {{0}})",
    }
    marking = {
        "flags": "[fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND) for fd in (0, 1, 3, 4)]",
        "locks": "[fcntl.flock(fd, fcntl.LOCK_EX) for fd in (1, 3, 4)]",
        "seals": "fcntl.fcntl(4, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)",
        "mode": "os.fchmod(4, 0o600)",
        "blocking": "os.set_blocking(4, False)",
    }
    return [
        attempts("signals", "import os", signalling),
        attempts("limits and scheduling of others", "import os, resource as r", changing),
        *read_attacks(TRACING.format(pid=pid)),
        attempts("leaves marks on shared files for the next program", "import fcntl, os", marking),
    ]


def secrets() -> list[Attack]:
    """Return programs that search memory."""
    searching = Limits(wall_seconds=30.0, cpu_seconds=20, memory_mb=256)
    return [*read_attacks(ANSWERS, searching), *read_attacks(OTHER_DATA)]
