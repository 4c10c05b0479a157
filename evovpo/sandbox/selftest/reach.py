"""Attacks on files, the network, other processes and memory that other programs used."""

HIDDEN_ANSWER = "HIDDEN-" + "ANSWER-"
"""Prefix of a text that exists only in the supervisor's memory."""
OTHER_CANDIDATE = "OTHER-" + "CANDIDATE"

FILES = """
# writes files -> ok
import sys
? open('$home/.bashrc', 'a').write('x')
? open('$home/new', 'a').write('x')
? open('x', 'a').write('x')
? open('/tmp/evovpo-x', 'a').write('x')
? open('/var/tmp/evovpo-x', 'a').write('x')
? open('/dev/shm/evovpo-x', 'a').write('x')
? open(sys.prefix + '/evovpo-x', 'w')
# changes names and metadata -> ok
import os
p = '$home/.bashrc'
? os.chmod(p, 0o777)
? os.chown(p, -1, -1)
? os.utime(p, (1, 1))
? os.setxattr(p, 'user.x', b'1')
? os.truncate(p, 0)
? os.open(p, os.O_RDONLY | os.O_TRUNC)
? os.link(p, p + '2')
? os.symlink(p, p + '3')
? os.rename(p, p + '4')
? os.unlink(p)
? os.mkdir(p + '5')
? os.mkfifo(p + '6')
# reads secrets -> ok
import os
? open('$home/.ssh/id_rsa', 'rb').read(9)
? open('/etc/passwd', 'rb').read(9)
? open('/etc/hostname', 'rb').read(9)
? open('$hidden_file', 'rb').read(9)
? open('/proc/$pid/mem', 'rb').read(9)
? open('/proc/$pid/maps', 'rb').read(9)
? open('/proc/$pid/cmdline', 'rb').read(9)
? open('/proc/$pid/environ', 'rb').read(9)
? open('/proc/self/environ', 'rb').read(9)
? open('/proc/self/maps', 'rb').read(9)
? open('/proc/1/cmdline', 'rb').read(9)
? os.listdir('$home')
? os.listdir('/')
? os.listdir('/proc')
"""
ENVIRONMENT = """
# reads the environment -> ok
import ctypes, os
def f(x):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    seen = [name for name in os.environ if 'KEY' in name]
    return seen + ['C'] if getenv(b'OPENAI_API_KEY') else seen
"""
BESIDE_AN_EVALUATOR = """
# reads and changes the home -> ok
import os
? open('$home/.ssh/id_rsa').read()
? open('/etc/passwd').read()
? open('/proc/$pid/environ').read()
? open('$home/.bashrc', 'a').write('x')
? open('$home/new', 'w')
? os.unlink('$home/.bashrc')
? os.rename('$home/.bashrc', 'x')
# opens sockets -> ok
import socket
? socket.socket(2, 1)
? socket.socket(2, 2)
? socket.socket(1, 1)
? socket.socket(16, 3)
# reads names and attributes of the owner's files -> ok
import ctypes, os
? os.listxattr('$home/.ssh/id_rsa')
? os.getxattr('$home/.ssh/id_rsa', 'user.x')
? os.close(os.dup(ctypes.CDLL(None).inotify_init1(0)))
"""
"""Actions that even an evaluation is denied, although it may use its own files and socket pairs."""
NETWORK = """
# opens sockets -> ok
import socket
? socket.socket(2, 1)
? socket.socket(10, 1)
? socket.socket(2, 2)
? socket.socket(1, 1)
? socket.socket(16, 3)
? socket.socket(17, 3)
? socket.socket(40, 1)
? socket.socket(38, 5)
? socket.socketpair()
# connects to this machine -> forbidden
import socket
def f(x): return [socket.create_connection(('127.0.0.1', $port), 1) and 1]
# io_uring -> ok
import ctypes
parameters = ctypes.create_string_buffer(120)
def f(x): return [1] if ctypes.CDLL(None).syscall(425, 4, parameters) >= 0 else []
"""
OTHER_PROCESSES = """
# signals -> ok
import os
? os.kill(os.getppid(), 0)
? os.kill(-os.getppid(), 0)
? os.kill($pid, 0)
? os.kill(-1, 0)
? os.kill(0, 0)
? os.killpg($pid, 0)
? os.pidfd_open($pid)
# limits and scheduling of others -> ok
import os, resource as r
? r.prlimit($pid, r.RLIMIT_CPU, (999, 999))
? r.prlimit(os.getppid(), r.RLIMIT_CPU)
? os.setpriority(os.PRIO_PROCESS, $pid, 19)
? os.sched_setaffinity($pid, {0})
# takes what its parent is told of it -> ok
import os
? os.read(os.open(f'/proc/{os.getppid()}/fd/6', os.O_RDONLY | os.O_NONBLOCK), 1)
? os.open(f'/proc/{os.getppid()}/fd/3', os.O_RDONLY)
# passes its failure off as the sandbox's -> crash
import os
try: os.read(os.open(f'/proc/{os.getppid()}/fd/6', os.O_RDONLY | os.O_NONBLOCK), 1)
except OSError: pass
os._exit(1)
# ptrace -> forbidden
import ctypes
def f(x): return [ctypes.CDLL(None).ptrace(0x4206, $pid, 0, 0)]
# reads another process's memory -> forbidden
import ctypes
def f(x): return [ctypes.CDLL(None).process_vm_readv($pid, 0, 0, 0, 0, 0)]
# leaves marks on shared files for the next program -> ok
import fcntl, os
? [fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND) for fd in (0, 1, 3, 4)]
? [fcntl.flock(fd, fcntl.LOCK_EX) for fd in (1, 3, 4)]
? fcntl.fcntl(4, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
? os.fchmod(4, 0o600)
? os.set_blocking(4, False)
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
