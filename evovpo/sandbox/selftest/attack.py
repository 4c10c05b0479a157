"""What an attack is: a program, and how running it may end."""

import re
from dataclasses import asdict, dataclass
from string import Template

from evovpo.types import Limits, Status

QUICK = Limits(wall_seconds=30.0, cpu_seconds=1, memory_mb=256)
"""Limits of the attacks: the CPU limit ends what never ends, so a busy machine changes nothing."""
SHORT = Limits(wall_seconds=0.5, cpu_seconds=1, memory_mb=256)
"""For attacks that use no CPU time."""

HIDDEN_ANSWER = "HIDDEN-" + "ANSWER-"
"""Start of a text that is only in the supervisor's memory."""
OTHER_CANDIDATE = "OTHER-" + "CANDIDATE"
"""A text that only an earlier program held."""


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
    """One program, held back by any of the expected ends; for `ok`, if nothing was done."""

    name: str
    code: str
    expected: frozenset[Status]
    limits: Limits = QUICK


def read_attacks(text: str, target: Target, limits: Limits = QUICK) -> list[Attack]:
    """Return the attacks of a text: a line `# name -> end or end` before each program.

    `$home` and the like stand for what the target says. A program may end in lines `? statement`: each is
    tried, and `f` returns those that went through.
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
