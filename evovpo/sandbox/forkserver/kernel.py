"""Landlock, seccomp and privilege calls of Linux, through ctypes. All functions raise OSError on failure."""

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
"""Placeholders for process ids in a compiled filter: of the process that loads the filter, of the watcher,
of the watcher's process group (negative, as for `kill`), and of the supervisor."""

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
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
_FILE_RIGHTS = ((1, 0x1FFF), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15), (9, 1 << 16))
_NETWORK_RIGHTS = ((4, 0b0011), (10, 0b1100))
_SCOPES = ((6, 0b11),)
"""(Landlock ABI, bits that forbid signals and abstract unix sockets to less restricted processes)."""

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
    """Let the kernel kill this process when the thread that forked it ends. Exit if `parent` is gone."""
    _checked(_prctl(PR_SET_PDEATHSIG, signal.SIGKILL, None, 0, 0))
    if os.getppid() != parent:
        os._exit(1)


def close_to_others() -> None:
    """Deny other processes of the user, even children, access to descriptors and memory of this process."""
    _checked(_prctl(PR_SET_DUMPABLE, 0, None, 0, 0))


def landlock_abi() -> int:
    try:
        return _syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def has_seccomp_filters() -> bool:
    refused = _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, None, 0, 0) < 0
    return refused and ctypes.get_errno() == errno.EFAULT  # it tried to read the filter


def file_rules(
    rules: Iterable[tuple[str, bool]],
    abi: int,
    writable: Iterable[str] = (),
    can_execute: bool = False,
    has_network: bool = False,
) -> int:
    """Return the descriptor of a ruleset for `restrict` that allows reading below the paths of `rules`.

    A rule is a pair (path, is_listing_only). Missing paths are ignored. Files below `writable` may be read
    and changed. `can_execute` allows starting all readable files. With a recent `abi`, the ruleset also
    forbids signals to less restricted processes and, if `has_network` is false, TCP.
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
    """Irrevocably apply a ruleset from `file_rules`. This process can then trace only its own descendants."""
    # From ABI 7 on refusals are logged by default; a candidate could flood the system log.
    _syscall(LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(1 if abi >= 7 else 0))


def _rights(table: Iterable[tuple[int, int]], abi: int) -> int:
    return sum(bits for since, bits in table if abi >= since)


def _add_rule(ruleset: int, path: str, on_file: int, on_folder: int) -> None:
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
    def __init__(self, program: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(program, len(program))
        self._header = _FilterProgram(len(program) // 8, ctypes.addressof(self._buffer))
        self._address = ctypes.byref(self._header)
        words = struct.unpack(f"<{len(program) // 4}I", program)
        self._places = [(4 * index, word) for index, word in enumerate(words) if word in PLACEHOLDERS]

    def load(self, values: Mapping[int, int] | None = None) -> None:
        """Irrevocably apply the filter to this process. `values` maps its placeholders to process ids."""
        known = {PID_PLACEHOLDER: os.getpid(), **(values or {})}
        for place, placeholder in self._places:
            struct.pack_into("<I", self._buffer, place, known[placeholder] & 0xFFFFFFFF)
        _checked(_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._address, 0, 0))


def drop_privileges() -> None:
    _drop_capabilities(0)
    _checked(_prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0))


def reading_capability() -> int | None:
    """Return the weakest capability of this process to read files of every user, or None without any."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        effective = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff")), 0)
    return next((bit for bit in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if effective >> bit & 1), None)


def become_user(user: int, capability: int) -> None:
    """Switch this root process to `user`, an otherwise unused user id, and keep only `capability`.

    Unlike root, such a user is subject to the limit on processes and cannot signal other users' processes.
    """
    # Keep capabilities over the change of user, also for access(2), with which compilers look for files.
    _checked(_prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, None, 0, 0))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _drop_capabilities(1 << capability)
    _checked(_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))
    _checked(_prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0))


def _drop_capabilities(kept: int) -> None:
    for capability in range(64):
        if not kept >> capability & 1:
            _prctl(PR_CAPBSET_DROP, capability, None, 0, 0)  # fails without privileges: nothing to drop
    header, sets = struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", kept, kept, kept, 0, 0, 0)
    _checked(_libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(sets)))


def adopt_orphans() -> None:
    _checked(_prctl(PR_SET_CHILD_SUBREAPER, 1, None, 0, 0))


def fork_unwaited() -> int:
    """Fork without Python's fork hooks. `waitpid(-1)` ignores the child; `wait_for_unwaited` waits for it."""
    return _syscall({"x86_64": 56}.get(os.uname().machine, 220), *[ctypes.c_long(0)] * 5)


def wait_for_unwaited(process: int) -> None:
    os.waitpid(process, -1 << 31)  # __WCLONE
