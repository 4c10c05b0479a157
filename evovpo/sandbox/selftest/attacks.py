"""Programs that try to escape the sandbox. They do no harm even if they succeed.

Each program defines `f(x)`, which returns the list of its successful actions. The sandbox withstands a
program if the run ends with an expected status. If this status is `ok`, the list must also be empty.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from string import Template

from evovpo.sandbox.selftest import exhaustion, reach
from evovpo.types import Limits, Status

QUICK = Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256)
"""Limits of the attacks. Endless attacks reach the CPU limit before the wall-clock limit."""
SHORT = Limits(wall_seconds=0.5, cpu_seconds=1, memory_mb=256)
"""Limits of attacks that use no CPU time and end only at the wall-clock limit."""
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
# fork bomb that catches nothing -> forbidden
import os
def f(x):
    while True: os.fork()
# shared memory of many processes -> memory
import mmap, os, time
def f(x):
    for _ in range(7):
        if os.fork() == 0:
            kept = mmap.mmap(-1, 100 << 20)
            for place in range(0, 100 << 20, 4096): kept[place] = 1
            time.sleep(60)
            os._exit(0)
    time.sleep(60)
    return ['700 MiB']
# folders too deep to be removed -> ok or output_limit
import os
def f(x):
    for _ in range(1200):
        os.mkdir('d')
        os.chdir('d')
    return []
# folders too deep for a path, and closed -> ok or output_limit
import os
def f(x):
    for _ in range(30):
        os.mkdir('d' * 250)
        os.chdir('d' * 250)
    os.mkdir('closed', 0)
    return []
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
CONTROLS = {
    "env=OPENAI_API_KEY": "import os\n? os.environ.get('OPENAI_API_KEY') or open('')",
    "read=$home/.ssh": "? open('$home/.ssh/id_rsa').read()",
    "write=$home/.ssh": "? open('$home/.ssh/new', 'w').close()",
    "cwd=$home": "import os\n? open('.bashrc').close()",
    "network": "import socket\n? socket.create_connection(('127.0.0.1', $port), 5).close()",
    "sandbox=off": "import os\n? os.kill($pid, 0)\n? open('$home/.ssh/id_rsa').close()",
}
"""Permissions, each with an attack that must fail without the permission and succeed with it."""
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


@dataclass(frozen=True, slots=True)
class AttackTarget:
    """Targets of the attacks: a home folder, this process, an open local port and a hidden file."""

    home: str
    pid: int
    port: int
    hidden_file: str


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack, and the statuses with which it may end. If it ends with `ok`, `f` must return `[]`."""

    name: str
    code: str
    expected: frozenset[Status]
    limits: Limits = QUICK


def read_attacks(text: str, target: AttackTarget, limits: Limits = QUICK) -> list[Attack]:
    """Return the attacks in a text: programs, each below a line `# name -> expected status`.

    `$home` and other placeholders stand for fields of the target. Lines `? statement` at the end of a program
    become a function `f`, which tries each statement and returns the successful statements.
    """
    text = Template(text).safe_substitute(asdict(target))
    _, *parts = re.split(r"^# (.+) -> (.+)\n", text, flags=re.MULTILINE)
    return [
        Attack(name, _program(code), frozenset(map(Status, ends.split(" or "))), limits)
        for name, ends, code in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def _program(code: str) -> str:
    setup, *statements = re.split(r"^\? ", code, flags=re.MULTILINE)
    if not statements:
        return code
    lines = [setup, "def f(x):", "    done = []"]
    for statement in map(str.strip, statements):
        lines += ["    try:", f"        {statement}", f"        done.append({statement!r})"]
        lines += ["    except (OSError, ValueError, RuntimeError, MemoryError, ImportError):", "        pass"]
    return "\n".join([*lines, "    return done", ""])


def attacks(target: AttackTarget) -> list[Attack]:
    early = exhaustion.MEMORY + exhaustion.LIMITS
    outside = reach.FILES + reach.ENVIRONMENT + reach.NETWORK + reach.OTHER_PROCESSES
    late = exhaustion.KERNEL + RESULTS + exhaustion.ENDINGS
    return [
        *read_attacks(exhaustion.ENDLESS, target),
        *read_attacks(exhaustion.SLEEPING, target, SHORT),
        *read_attacks(early + outside + late, target),
        *read_attacks(reach.ANSWERS, target, Limits(wall_seconds=30.0, cpu_seconds=20, memory_mb=256)),
        *read_attacks(reach.OTHER_DATA, target),
    ]


def whole_attacks(target: AttackTarget) -> list[Attack]:
    texts = exhaustion.ENDLESS + exhaustion.MEMORY + exhaustion.ENDINGS
    texts += reach.ENVIRONMENT + reach.BESIDE_AN_EVALUATOR + WHOLE
    return read_attacks(texts, target, Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256, processes=8))


def controls(target: AttackTarget) -> Iterator[tuple[str, Attack]]:
    for word, code in CONTROLS.items():
        (attack,) = read_attacks(f"# {word} -> ok\n{code}\n", target)
        yield Template(word).safe_substitute(asdict(target)), attack


def proxy_attacks(target: AttackTarget) -> list[Attack]:
    return read_attacks(reach.ENVIRONMENT + reach.BESIDE_AN_EVALUATOR + PROXY, target)


RESULTS = r"""
# prints 1 GB -> ok
import os
def f(x):
    written = 0
    for _ in range(1024):
        try: written += os.write(1, b'x' * (1 << 20))
        except OSError: pass
    return [] if written <= 2 << 20 else [written]
# returns 64 MB -> output_limit or memory
def f(x): return 'x' * (64 << 20)
# nests 100,000 lists -> bad_output
def f(x):
    o = []
    for _ in range(100000): o = [o]
    return o
# NaN -> bad_output
def f(x): return float('nan')
# integer of 4,000 digits -> bad_output
def f(x): return 10 ** 4000
# half a surrogate pair -> bad_output
def f(x): return '\ud800'
# object equal to everything -> bad_output
class E:
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 0
def f(x): return E()
# verdict to every descriptor -> bad_output
import os
def f(x):
    for fd in range(64):
        try: os.write(fd, b'R{"score": 1, "status": "ok"}\n')
        except OSError: pass
    os._exit(0)
# patches json and builtins -> ok or bad_output
import json, builtins
json.dumps = json.JSONEncoder.encode = lambda *a, **k: '{"done": true}'
builtins.abs = lambda *a: 0
def f(x): return []
"""
RAW = {
    "nesting, raw": "b'[' * 500000",
    "1e999, raw": r"""b'{"i": 0, "out": 1e999}\n{"done": true}\n'""",
    "a million digits, raw": r"""b'{"i": 0, "out":' + b'9' * 900000 + b'}\n{"done": true}\n'""",
    "half a surrogate pair, raw": r"""b'{"i": 0, "out": "\\ud800"}\n{"done": true}\n'""",
    "a case that is not there": r"""b'{"i": 7, "out": 1}\n{"done": true}\n'""",
    "verdict instead of result": r"""b'{"status": "ok", "rewards": [1]}\n'""",
    "pickle": "pickle.dumps(P())",
}
"""Forged content that attacks write to the result file, whose descriptor they know."""
WRITING = """
# {} -> bad_output
import os, pickle
class P:
    def __reduce__(self): return os.system, ('true',)
def f(x):
    os.write(4, {})
    os._exit(0)
"""
RESULTS += "".join(WRITING.format(name, data) for name, data in RAW.items())
