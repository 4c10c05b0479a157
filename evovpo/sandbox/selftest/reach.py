"""Attacks on what is outside a program: files, network, other processes, and what memory still holds."""

from evovpo.sandbox.selftest.attack import HIDDEN_ANSWER, OTHER_CANDIDATE, Attack, Target, attack, attempts
from evovpo.types import Limits, Status


def files(target: Target) -> list[Attack]:
    """Return programs that read and change files."""
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
        attempts(
            "writes files",
            "import sys",
            {path: f"open({path!r}, 'a').write('x')" for path in written}
            | {"installation": "open(sys.prefix + '/evovpo-x', 'w')"},
        ),
        attempts("changes names and metadata", f"import os\np = {f'{home}/.bashrc'!r}", changes),
        attempts(
            "reads secrets",
            "import os",
            {path: f"open({path!r}, 'rb').read(9)" for path in read}
            | {path: f"os.listdir({path!r})" for path in (home, "/", "/proc")},
        ),
        attack(
            "reads the environment",
            """
            import ctypes, os
            def f(x):
                getenv = ctypes.CDLL(None).getenv
                getenv.restype = ctypes.c_char_p
                seen = [name for name in os.environ if 'KEY' in name]
                return seen + ['C'] if getenv(b'OPENAI_API_KEY') else seen
            """,
        ),
    ]


def secret_files(target: Target) -> list[Attack]:
    """Return programs that look for what a user keeps secret."""
    return [
        *(one for one in files(target) if one.name == "reads the environment"),
        attempts(
            "reads and changes the home",
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
    ]


def network(target: Target) -> list[Attack]:
    """Return programs that use the network."""
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
        attempts(
            "opens sockets",
            "import socket",
            {name: f"socket.socket({kind})" for name, kind in kinds.items()}
            | {"pair": "socket.socketpair()"},
        ),
        attack(
            "connects to this machine",
            f"""
            import socket
            def f(x): return [socket.create_connection(('127.0.0.1', {target.port}), 1) and 1]
            """,
            Status.FORBIDDEN,
        ),
        attack(
            "io_uring",
            """
            import ctypes
            parameters = ctypes.create_string_buffer(120)
            def f(x): return [1] if ctypes.CDLL(None).syscall(425, 4, parameters) >= 0 else []
            """,
        ),
    ]


def sockets() -> list[Attack]:
    """Return a program that opens sockets."""
    kinds = {"tcp": "2, 1", "udp": "2, 2", "unix": "1, 1", "netlink": "16, 3"}
    return [
        attempts(
            "opens sockets", "import socket", {name: f"socket.socket({kind})" for name, kind in kinds.items()}
        )
    ]


def other_processes(target: Target) -> list[Attack]:
    """Return programs that reach for other processes."""
    pid = target.pid
    return [
        attempts(
            "signals",
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
        attempts(
            "limits and scheduling of others",
            "import os, resource as r",
            {
                "limits": f"r.prlimit({pid}, r.RLIMIT_CPU, (999, 999))",
                "fork-server's limits": "r.prlimit(os.getppid(), r.RLIMIT_CPU)",
                "priority": f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
                "affinity": f"os.sched_setaffinity({pid}, {{0}})",
            },
        ),
        attack(
            "ptrace",
            f"import ctypes\ndef f(x): return [ctypes.CDLL(None).ptrace(0x4206, {pid}, 0, 0)]",
            Status.FORBIDDEN,
        ),
        attack(
            "reads another process's memory",
            f"import ctypes\ndef f(x): return [ctypes.CDLL(None).process_vm_readv({pid}, 0, 0, 0, 0, 0)]",
            Status.FORBIDDEN,
        ),
        attempts(
            "leaves marks on shared files for the next program",
            "import fcntl, os",
            {
                "flags": "[fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND) for fd in (0, 1, 3, 4)]",
                "locks": "[fcntl.flock(fd, fcntl.LOCK_EX) for fd in (1, 3, 4)]",
                "seals": "fcntl.fcntl(4, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)",
                "mode": "os.fchmod(4, 0o600)",
                "blocking": "os.set_blocking(4, False)",
            },
        ),
    ]


def secrets() -> list[Attack]:
    """Return programs that search memory."""
    return [
        attack(
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
            limits=Limits(wall_seconds=30.0, cpu_seconds=20, memory_mb=256),
        ),
        attack(
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
        ),
    ]
