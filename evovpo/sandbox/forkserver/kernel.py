"""Landlock, seccomp and privilege calls of Linux, by ctypes. Everything here raises OSError on refusal."""

import ctypes
import errno
import os
import signal
import stat
import struct
from collections.abc import Iterable, Mapping
from typing import Any

PLACEHOLDERS = (0x7EADBEE1, 0x7EADBEE2, 0x7EADBEE3, 0x7EADBEE4)
PID_PLACEHOLDER, WATCHER_PLACEHOLDER, WATCHER_GROUP_PLACEHOLDER, SUPERVISOR_PLACEHOLDER = PLACEHOLDERS
"""Stand in a compiled filter for process ids: of the child that loads it, of the process that watches an
evaluation, of its group as `kill` is told of one (the negative), and of the supervisor."""

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
SECCOMP_MODE_FILTER = 2

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_TRUNCATE = 1 << 14
_CONTROL_DEVICE = 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_CHANGE = 0x7FF << 4 & ~_MAKE_DEVICES
"""Truncate, make, rename, link and remove what is in a folder."""
_FILE_RIGHTS = ((1, 0x1FFF), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15), (9, 1 << 16))
"""(ABI, file system access rights that it added)."""
_NETWORK_RIGHTS = ((4, 0b0011), (10, 0b1100))
_SCOPES = ((6, 0b11),)
"""No abstract unix sockets and no signals to processes outside."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _checked(returned: int) -> int:
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return returned


def _syscall(number: int, *arguments: Any) -> int:
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments))


def die_with(parent: int) -> None:
    """Have this process killed when the thread that started it ends; ends it if `parent` is gone already."""
    _checked(_prctl(PR_SET_PDEATHSIG, signal.SIGKILL, None, 0, 0))
    if os.getppid() != parent:
        os._exit(1)


def close_to_others() -> None:
    """Keep processes of the same user, the children too, from this one's descriptors and memory."""
    _checked(_prctl(PR_SET_DUMPABLE, 0, None, 0, 0))


def landlock_abi() -> int:
    """Return the Landlock ABI that the kernel offers; 0 if it offers none."""
    try:
        return _syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def has_seccomp_filters() -> bool:
    """True if the kernel takes seccomp filters (tried with one that cannot be read)."""
    refused = _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, None, 0, 0) < 0
    return refused and ctypes.get_errno() == errno.EFAULT  # it went as far as reading the filter


def file_rules(
    rules: Iterable[tuple[str, bool]],
    abi: int,
    writable: Iterable[str] = (),
    can_execute: bool = False,
    has_network: bool = False,
) -> int:
    """Return the descriptor of rules for `restrict`, which leave only reading below the given paths.

    A rule is a path and whether only names may be listed there; missing paths are passed over. Below
    `writable` everything may be changed, and with `can_execute` programs be started from all these paths. TCP
    (unless there is a network) and signals to processes outside are refused where the ABI knows them.
    """
    files = _rights(_FILE_RIGHTS, abi)
    network = 0 if has_network else _rights(_NETWORK_RIGHTS, abi)
    attributes = struct.pack("QQQ", files, network, _rights(_SCOPES, abi))
    attributes = attributes[: 8 if abi < 4 else 16 if abi < 6 else 24]
    size = ctypes.c_size_t(len(attributes))
    ruleset = _syscall(LANDLOCK_CREATE_RULESET, ctypes.c_char_p(attributes), size, ctypes.c_uint32(0))
    read = _READ_FILE | (_EXECUTE if can_execute else 0)
    for path, names_only in rules:
        _add_rule(ruleset, path, 0 if names_only else read, _READ_DIR)
    for path in writable:
        on_file = read | (_WRITE_FILE | _TRUNCATE | _CONTROL_DEVICE) & files
        _add_rule(ruleset, path, on_file, _READ_DIR | _CHANGE & files)
    return ruleset


def restrict(ruleset: int, abi: int) -> None:
    """Put this process under the rules of `file_rules`, for good, and apart from those not under them."""
    # From ABI 7 on refusals are logged unless asked not to; a candidate could flood the system's log.
    _syscall(LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(1 if abi >= 7 else 0))


def _rights(table: Iterable[tuple[int, int]], abi: int) -> int:
    return sum(bits for since, bits in table if abi >= since)


def _add_rule(ruleset: int, path: str, on_file: int, on_folder: int) -> None:
    """Allow `on_file` at the path, and `on_folder` too if it is one."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    access = on_file
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        access |= on_folder
    rule = struct.pack("<Qi", access, descriptor)
    _syscall(LANDLOCK_ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), ctypes.c_uint32(0))
    os.close(descriptor)


class Filter:
    """A compiled seccomp filter, ready to load."""

    def __init__(self, program: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(program, len(program))
        self._header = _FilterProgram(len(program) // 8, ctypes.addressof(self._buffer))
        self._address = ctypes.byref(self._header)
        words = struct.unpack(f"<{len(program) // 4}I", program)
        self._places = [(4 * index, word) for index, word in enumerate(words) if word in PLACEHOLDERS]

    def load(self, values: Mapping[int, int] | None = None) -> None:
        """Put this process under the filter, for good, with `values` in place of the placeholders."""
        known = {PID_PLACEHOLDER: os.getpid(), **(values or {})}
        for place, placeholder in self._places:
            struct.pack_into("<I", self._buffer, place, known[placeholder] & 0xFFFFFFFF)
        _checked(_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._address, 0, 0))


def drop_privileges() -> None:
    """Give up every capability, and the chance to gain one by starting a program."""
    _drop_capabilities(0)
    _checked(_prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0))


def reading_capability() -> int | None:
    """Return the least capability of this process that opens files of every user; none if it has none."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        effective = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff")), 0)
    return next((bit for bit in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if effective >> bit & 1), None)


def become_user(user: int, capability: int) -> None:
    """Turn this process of root's into one of a user that nobody else is, keeping `reading_capability`.

    The kernel exempts root from the limit on processes and lets it signal everything; not so such a user.
    """
    _checked(_prctl(PR_SET_KEEPCAPS, 1, None, 0, 0))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _drop_capabilities(1 << capability)
    _checked(_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))
    _checked(_prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0))


def _drop_capabilities(kept: int) -> None:
    """Give up every capability but those in the bit set `kept`."""
    for capability in range(64):
        if not kept >> capability & 1:
            _prctl(PR_CAPBSET_DROP, capability, None, 0, 0)  # refused without privileges: nothing to drop
    header, sets = struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", kept, kept, kept, 0, 0, 0)
    _checked(_libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(sets)))


def adopt_orphans() -> None:
    """Have descendants of this process whose parent ends become its children."""
    _checked(_prctl(PR_SET_CHILD_SUBREAPER, 1, None, 0, 0))


def fork_unwaited() -> int:
    """Return as `os.fork` does, of a child that waiting for any child does not see; no hooks are called."""
    return _syscall({"x86_64": 56}.get(os.uname().machine, 220), *[ctypes.c_long(0)] * 5)


def wait_for_unwaited(process: int) -> None:
    """Wait for a child of `fork_unwaited`."""
    os.waitpid(process, -1 << 31)  # __WCLONE
