"""Compiles the seccomp filters of this folder, with pyseccomp: `python -m evovpo.sandbox.filters.build`."""

import errno
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyseccomp as seccomp

from evovpo.sandbox.filters import filter_path
from evovpo.sandbox.forkserver.kernel import (
    PID_PLACEHOLDER,
    SUPERVISOR_PLACEHOLDER,
    WATCHER_GROUP_PLACEHOLDER,
    WATCHER_PLACEHOLDER,
)

ARCHITECTURES = {"x86_64": seccomp.Arch.X86_64, "aarch64": seccomp.Arch.AARCH64}


def _names(text: str) -> list[str]:
    return text.split()


HARMLESS = _names("""
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range lseek
fstat stat lstat newfstatat statx access faccessat faccessat2 getdents64 readlink readlinkat getcwd
dup dup2 dup3 ftruncate fsync fdatasync pipe pipe2 sendfile copy_file_range
mmap munmap mprotect mremap madvise brk membarrier mincore msync
rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack rt_sigpending rt_sigtimedwait
select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2
nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getitimer setitimer alarm pause
timerfd_create timerfd_settime timerfd_gettime
getpid gettid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid
getrusage getrlimit sysinfo uname sched_yield sched_getaffinity sched_getparam sched_getscheduler getcpu
getpriority futex futex_waitv set_robust_list get_robust_list set_tid_address rseq arch_prctl restart_syscall
getrandom umask exit exit_group chdir fchdir fallocate statfs fstatfs
""")
"""System calls allowed with any arguments. None of them starts a program, connects, changes a file system or
its metadata, or acts on other processes."""

HOSTILE = _names("""
ptrace process_vm_readv process_vm_writev process_madvise mount umount2 pivot_root chroot setns unshare bpf
kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff perf_event_open keyctl
add_key request_key userfaultfd open_by_handle_at name_to_handle_at move_pages migrate_pages fanotify_init
quotactl acct settimeofday clock_settime adjtimex iopl ioperm pidfd_getfd mount_setattr
fsopen fsmount move_mount open_tree
""")
"""System calls that no honest program makes. Such a call kills the process; other refused calls only fail."""

ABSENT = _names("clone3 openat2 memfd_create io_uring_setup")
"""System calls that fail with ENOSYS, so that libraries fall back to older calls, which are checked."""

SERVER_ONLY = _names("wait4 recvmsg recvfrom sendmsg sendto fork")
"""System calls allowed for the fork-server but not for a candidate."""

EVALUATION = _names("""
fork vfork execve execveat wait4 waitid setsid setpgid pidfd_open kill tgkill
sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockopt setsockopt getsockname
getpeername
creat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat flock
fadvise64 splice tee vmsplice fgetxattr flistxattr signalfd4 rt_sigsuspend mlock munlock
landlock_restrict_self
""")
"""Additional system calls of an evaluation, which may start programs and write to its private folder. The
filter cannot restrict paths. `landlock_restrict_self` only drops rights."""

BY_PATH = _names("getxattr lgetxattr listxattr llistxattr")
"""System calls that read attributes of any file, because Landlock does not control these calls. Each call
fails as on a file system without attributes. Copying tools ignore this error."""

METADATA = _names("""
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
""")
"""System calls that change the owner, mode or times of a file."""

OPEN_TO_CHANGE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CLONE_NEW_NAMESPACES = 0x7E020080
IOCTL_QUERIES = (0x5401, 0x5413, 0x5451, 0x5450, 0x541B)
"""The `ioctl` requests allowed: TCGETS, TIOCGWINSZ, FIOCLEX, FIONCLEX, FIONREAD."""
FCNTL_OWN_DESCRIPTOR = (0, 1, 2, 3, 1030)
"""The `fcntl` commands allowed: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC. F_SETFL and locks are
not allowed: they act on the open file, which the next candidate inherits."""
FCNTL_EVALUATION = (4, 5, 6, 7, 36, 37, 38, 1031, 1032)
"""More `fcntl` commands for an evaluation: F_SETFL, locks and pipe sizes. F_SETOWN is refused."""
SOCKET_KIND = 0xF
"""Mask of the bits in a socket's type that are its kind, without flags."""
WORD = 0xFFFFFFFF
PRCTL_SETUP = (1, 22)
"""The `prctl` operations PR_SET_PDEATHSIG, PR_SET_SECCOMP, which a child needs until its filter is loaded."""
PRCTL_OWN = (15, 16, 3, 21, 23, 39)
"""The `prctl` operations PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_SECCOMP, PR_CAPBSET_READ and
PR_GET_NO_NEW_PRIVS, which a child may always use."""


Rule: TypeAlias = tuple[int, str | Sequence[str], *tuple[Any, ...]]
"""Action, names of system calls, and conditions on their arguments."""

ALLOW, KILL = seccomp.ALLOW, seccomp.KILL_PROCESS
REFUSE, UNKNOWN, LACKING, PRETEND = map(seccomp.ERRNO, (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, 0))
"""Actions in place of a system call: return EPERM, ENOSYS or EOPNOTSUPP, or (`PRETEND`) success."""


def equal(index: int, value: int) -> Any:
    """Return the condition that argument number `index` of a system call is `value`."""
    return seccomp.Arg(index, seccomp.EQ, value)


def masked(index: int, mask: int, value: int) -> Any:
    return seccomp.Arg(index, seccomp.MASKED_EQ, mask, value)


COMMON: list[Rule] = [
    (ALLOW, HARMLESS),
    (KILL, HOSTILE),
    (UNKNOWN, ABSENT),
    (ALLOW, "clone", masked(0, CLONE_NEW_NAMESPACES, 0)),
    (ALLOW, "prlimit64", equal(0, 0)),
    *((ALLOW, "ioctl", equal(1, request)) for request in IOCTL_QUERIES),
    *((ALLOW, "fcntl", equal(1, command)) for command in FCNTL_OWN_DESCRIPTOR),
    *((ALLOW, "prctl", equal(0, operation)) for operation in PRCTL_SETUP + PRCTL_OWN),
]

SEALED: list[Rule] = [
    *COMMON,
    (ALLOW, [*SERVER_ONLY, "kill", "tgkill", "pidfd_open"]),
    (KILL, "pidfd_send_signal"),
]
"""Allow-list of a fork-server and its candidates that forbids opening files."""

SERVER: list[Rule] = [
    *SEALED,
    # Opening for writing is refused here too: Landlock before ABI 3 does not cover truncation, and
    # "no writes" should not depend on one mechanism.
    (ALLOW, "open", masked(1, OPEN_TO_CHANGE, 0)),
    (ALLOW, "openat", masked(2, OPEN_TO_CHANGE, 0)),
]

CHILD: list[Rule] = [
    (REFUSE, [*SERVER_ONLY, "clone"]),
    (UNKNOWN, "pidfd_open"),
    (REFUSE, ["kill", "tgkill"], seccomp.Arg(0, seccomp.NE, PID_PLACEHOLDER)),
    (REFUSE, "prlimit64", seccomp.Arg(2, seccomp.NE, 0)),
    *((REFUSE, "prctl", equal(0, operation)) for operation in PRCTL_SETUP),
]
"""Rules added in a candidate's process. They forbid the calls that only the fork-server needs."""

WHOLE: list[Rule] = [
    *COMMON,
    (ALLOW, [*EVALUATION, *METADATA, "open", "openat", "setrlimit"]),
    (LACKING, BY_PATH),
    (ALLOW, "socketpair", masked(1, SOCKET_KIND, socket.SOCK_STREAM)),
    (ALLOW, "socketpair", masked(1, SOCKET_KIND, socket.SOCK_SEQPACKET)),  # used by Rust to start processes
    (ALLOW, "seccomp", equal(0, 2)),  # SECCOMP_GET_ACTION_AVAIL
    (ALLOW, "ioctl", equal(1, 0x5421)),  # FIONBIO, which makes sockets non-blocking
    *((ALLOW, "fcntl", equal(1, command)) for command in FCNTL_EVALUATION),
]
"""Allow-list of an evaluation: its own processes and files, no network.

Connected pairs of stream or seqpacket sockets are allowed, because event loops and Rust need them. Datagram
sockets are not allowed, because they can send to any path.
"""

NETWORK: list[Rule] = [
    *((ALLOW, "socket", equal(0, family)) for family in (socket.AF_INET, socket.AF_INET6)),
    (ALLOW, ["connect", "bind", "listen", "accept", "accept4"]),
]
"""Additional rules for network access. Unix sockets stay forbidden: the machine's services use them."""
GPU: list[Rule] = [(ALLOW, ["ioctl"])]
"""Additional rules of an evaluation with GPU access: drivers are controlled by ioctl."""

TRUNCATING = os.O_ACCMODE | os.O_TRUNC
OUTSIDE: list[Rule] = [
    *(
        (REFUSE, ["kill", "tgkill"], masked(0, WORD, process))
        for process in (WATCHER_PLACEHOLDER, WATCHER_GROUP_PLACEHOLDER, SUPERVISOR_PLACEHOLDER, WORD)
    ),
    # Truncating without writing: not covered by Landlock before ABI 3.
    (REFUSE, "open", masked(1, TRUNCATING, os.O_TRUNC)),
    (REFUSE, "openat", masked(2, TRUNCATING, os.O_TRUNC)),
]
"""Rules that protect other processes from an evaluation. As a process number, `WORD` is -1: all processes."""

FILTERS: dict[str, tuple[int, list[Rule]]] = {
    "server": (REFUSE, SERVER),
    "sealed": (REFUSE, SEALED),
    "child": (ALLOW, CHILD),
    "whole": (REFUSE, WHOLE),
    "whole-network": (REFUSE, WHOLE + NETWORK),
    "whole-gpu": (REFUSE, WHOLE + GPU),
    "whole-network-gpu": (REFUSE, WHOLE + NETWORK + GPU),
    "outside": (ALLOW, OUTSIDE),
    # Landlock does not cover metadata. Copying a file ends with such a call, which must not fail.
    "metadata": (ALLOW, [(PRETEND, METADATA)]),
}


def compile_filters(architecture: str) -> dict[str, bytes]:
    return {name: _compiled(architecture, *rules) for name, rules in FILTERS.items()}


def _compiled(architecture: str, default: int, rules: list[Rule]) -> bytes:
    found: Any = seccomp.SyscallFilter(default)
    wanted = ARCHITECTURES[architecture]
    if seccomp.system_arch() != wanted:
        found.add_arch(wanted)
        found.remove_arch(seccomp.system_arch())
    found.set_attr(seccomp.Attr.ACT_BADARCH, KILL)
    for action, names, *arguments in rules:
        for name in [names] if isinstance(names, str) else names:
            if seccomp.resolve_syscall(wanted, name) >= 0:  # an architecture may lack a call
                # Call numbers of the native architecture: libseccomp translates them.
                found.add_rule(action, name, *arguments)
    descriptor = os.memfd_create("filter")
    with open(descriptor, "r+b") as file:
        found.export_bpf(file)
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def main() -> None:
    for architecture in ARCHITECTURES:
        for name, program in compile_filters(architecture).items():
            filter_path(name, architecture).write_bytes(program)
            sys.stdout.write(f"{name}-{architecture}.bpf: {len(program) // 8} instructions\n")


if __name__ == "__main__":
    main()
