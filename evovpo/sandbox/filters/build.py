"""Compiles the seccomp filters of this folder: `python -m evovpo.sandbox.filters.build`.

Needs pyseccomp and libseccomp, which running the sandbox does not. One machine compiles the filters
of every architecture.
"""

import errno
import os
import socket
import sys
from typing import Any

import pyseccomp as seccomp

from evovpo.sandbox.filters import filter_path
from evovpo.sandbox.forkserver.kernel import (
    PID_PLACEHOLDER,
    SUPERVISOR_PLACEHOLDER,
    WATCHER_GROUP_PLACEHOLDER,
    WATCHER_PLACEHOLDER,
)

ARCHITECTURES = {"x86_64": seccomp.Arch.X86_64, "aarch64": seccomp.Arch.AARCH64}
"""Names as `platform.machine()` gives them."""


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
"""System calls allowed with any arguments. Not listed and so refused: everything that starts a
program, connects, changes a file system or its metadata, or acts on other processes."""

HOSTILE = _names("""
ptrace process_vm_readv process_vm_writev process_madvise mount umount2 pivot_root chroot setns unshare bpf
kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff perf_event_open keyctl
add_key request_key userfaultfd open_by_handle_at name_to_handle_at move_pages migrate_pages fanotify_init
quotactl acct settimeofday clock_settime adjtimex iopl ioperm pidfd_getfd pidfd_send_signal mount_setattr
fsopen fsmount move_mount open_tree
""")
"""System calls that no honest program makes: they end the process instead of failing."""

ABSENT = _names("clone3 openat2 memfd_create io_uring_setup")
"""System calls answered with ENOSYS, so that libraries fall back to the older one that is checked."""

SERVER_ONLY = _names("wait4 recvmsg recvfrom sendmsg sendto fork")
"""System calls that the fork-server needs and a candidate does not get."""

EVALUATION = _names("""
fork vfork execve execveat wait4 waitid setsid setpgid pidfd_open kill tgkill
sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockopt setsockopt getsockname
getpeername
creat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat flock
fadvise64 splice tee vmsplice getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
inotify_init1 inotify_add_watch inotify_rm_watch signalfd4 rt_sigsuspend mlock munlock
""")
"""System calls that an evaluation needs on top of the harmless ones: it starts programs and writes to its
private folder. Where is not for the filter to say."""

METADATA = _names("""
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
""")
"""System calls that change whom a file belongs to, who may use it, and its times."""

OPEN_TO_CHANGE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CLONE_NEW_NAMESPACES = 0x7E020080
IOCTL_QUERIES = (0x5401, 0x5413, 0x5451, 0x5450, 0x541B)
"""TCGETS, TIOCGWINSZ, FIOCLEX, FIONCLEX, FIONREAD."""
FCNTL_OWN_DESCRIPTOR = (0, 1, 2, 3, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC. Not F_SETFL nor locks: status flags and locks
live in the open file, which outlives the child, and would pass from one candidate to the next."""
FCNTL_EVALUATION = (*range(8), 36, 37, 38, 1030, 1031, 1032)
"""Besides those: F_SETFL, locks and the size of pipes. Not F_SETOWN, which sends signals."""
IOCTL_EVALUATION = (*IOCTL_QUERIES, 0x5421)
"""Besides those: FIONBIO, which makes sockets non-blocking."""
SOCKET_KIND = 0xF
"""Bits of the type of a socket that say its kind."""
WORD = 0xFFFFFFFF
PRCTL_SETUP = (1, 22)
"""PR_SET_PDEATHSIG, PR_SET_SECCOMP: what a child still needs before its own filter is on."""
PRCTL_OWN = (15, 16, 3, 21, 23, 39)
"""PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS."""


def compile_filters(architecture: str) -> dict[str, bytes]:
    """Return the classic BPF programs of one architecture by name."""
    return {
        "server": _server_filter(architecture),
        "sealed": _server_filter(architecture, can_open=False),
        "child": _child_filter(architecture),
        "whole": _whole_filter(architecture),
        "outside": _outside_filter(architecture),
        "metadata": _metadata_filter(architecture),
    }


def main() -> None:
    """Write every filter of every architecture beside this file."""
    for architecture in ARCHITECTURES:
        for name, program in compile_filters(architecture).items():
            filter_path(name, architecture).write_bytes(program)
            sys.stdout.write(f"{name}-{architecture}.bpf: {len(program) // 8} instructions\n")


class _Filter:
    """A filter under construction; a rule for a call that the architecture lacks is left out."""

    def __init__(self, architecture: str, default: int) -> None:
        self._filter: Any = seccomp.SyscallFilter(default)
        if seccomp.system_arch() != ARCHITECTURES[architecture]:
            self._filter.add_arch(ARCHITECTURES[architecture])
            self._filter.remove_arch(seccomp.system_arch())
        self._filter.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
        self._architecture = ARCHITECTURES[architecture]
        self._default = default

    def add(self, action: int, names: str | list[str], *arguments: Any) -> None:
        """Answer the named calls, where the arguments fit, with `action`."""
        for name in [names] if isinstance(names, str) else names:
            if seccomp.resolve_syscall(self._architecture, name) >= 0:
                # Numbers of the native architecture: libseccomp translates them itself.
                self._filter.add_rule(action, name, *arguments)

    def compile(self) -> bytes:
        """Return the program as bytes."""
        descriptor = os.memfd_create("filter")
        with open(descriptor, "r+b") as file:
            self._filter.export_bpf(file)
            return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _server_filter(architecture: str, can_open: bool = True) -> bytes:
    """Return the allow-list: what a candidate or the fork-server itself may call."""
    rules = _Filter(architecture, seccomp.ERRNO(errno.EPERM))
    rules.add(seccomp.ALLOW, HARMLESS + SERVER_ONLY)
    rules.add(seccomp.KILL_PROCESS, HOSTILE)
    rules.add(seccomp.ERRNO(errno.ENOSYS), ABSENT)
    # Opening for writing is refused here too: Landlock before ABI 3 does not govern truncation, and
    # "no writes" should not hang on one mechanism.
    if can_open:
        rules.add(seccomp.ALLOW, "open", seccomp.Arg(1, seccomp.MASKED_EQ, OPEN_TO_CHANGE, 0))
        rules.add(seccomp.ALLOW, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, OPEN_TO_CHANGE, 0))
    rules.add(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, CLONE_NEW_NAMESPACES, 0))
    rules.add(seccomp.ALLOW, ["kill", "tgkill", "pidfd_open"])
    rules.add(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0))
    for request in IOCTL_QUERIES:
        rules.add(seccomp.ALLOW, "ioctl", seccomp.Arg(1, seccomp.EQ, request))
    for command in FCNTL_OWN_DESCRIPTOR:
        rules.add(seccomp.ALLOW, "fcntl", seccomp.Arg(1, seccomp.EQ, command))
    for operation in PRCTL_SETUP + PRCTL_OWN:
        rules.add(seccomp.ALLOW, "prctl", seccomp.Arg(0, seccomp.EQ, operation))
    return rules.compile()


def _child_filter(architecture: str) -> bytes:
    """Return what is taken away from a candidate on top: the fork-server's own calls."""
    rules = _Filter(architecture, seccomp.ALLOW)
    refused = seccomp.ERRNO(errno.EPERM)
    rules.add(refused, [*SERVER_ONLY, "clone"])
    rules.add(seccomp.ERRNO(errno.ENOSYS), "pidfd_open")
    rules.add(refused, ["kill", "tgkill"], seccomp.Arg(0, seccomp.NE, PID_PLACEHOLDER))
    rules.add(refused, "prlimit64", seccomp.Arg(2, seccomp.NE, 0))
    for operation in PRCTL_SETUP:
        rules.add(refused, "prctl", seccomp.Arg(0, seccomp.EQ, operation))
    return rules.compile()


def _whole_filter(architecture: str) -> bytes:
    """Return the allow-list of an evaluation: processes and files of its own, no network.

    Sockets come in connected pairs only, as event loops need them, and as streams: a datagram socket can
    send to any path.
    """
    rules = _Filter(architecture, seccomp.ERRNO(errno.EPERM))
    rules.add(seccomp.ALLOW, HARMLESS + EVALUATION)
    rules.add(seccomp.KILL_PROCESS, [name for name in HOSTILE if name != "pidfd_send_signal"])
    rules.add(seccomp.ERRNO(errno.ENOSYS), ABSENT)
    rules.add(seccomp.ALLOW, ["open", "openat"])
    rules.add(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, CLONE_NEW_NAMESPACES, 0))
    rules.add(seccomp.ALLOW, "socketpair", seccomp.Arg(1, seccomp.MASKED_EQ, SOCKET_KIND, socket.SOCK_STREAM))
    rules.add(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0))
    rules.add(seccomp.ALLOW, "setrlimit")
    rules.add(seccomp.ALLOW, "seccomp", seccomp.Arg(0, seccomp.EQ, 2))  # SECCOMP_GET_ACTION_AVAIL
    for request in IOCTL_EVALUATION:
        rules.add(seccomp.ALLOW, "ioctl", seccomp.Arg(1, seccomp.EQ, request))
    for command in FCNTL_EVALUATION:
        rules.add(seccomp.ALLOW, "fcntl", seccomp.Arg(1, seccomp.EQ, command))
    for operation in PRCTL_SETUP + PRCTL_OWN:
        rules.add(seccomp.ALLOW, "prctl", seccomp.Arg(0, seccomp.EQ, operation))
    rules.add(seccomp.ALLOW, METADATA)
    return rules.compile()


def _outside_filter(architecture: str) -> bytes:
    """Return what is taken away from an evaluation that sees processes outside its own."""
    rules = _Filter(architecture, seccomp.ALLOW)
    refused = seccomp.ERRNO(errno.EPERM)
    everyone = WORD  # kill(-1)
    for process in (WATCHER_PLACEHOLDER, WATCHER_GROUP_PLACEHOLDER, SUPERVISOR_PLACEHOLDER, everyone):
        rules.add(refused, ["kill", "tgkill"], seccomp.Arg(0, seccomp.MASKED_EQ, WORD, process))
    # Truncating without writing: Landlock before ABI 3 does not govern it.
    kind = os.O_ACCMODE | os.O_TRUNC
    rules.add(refused, "open", seccomp.Arg(1, seccomp.MASKED_EQ, kind, os.O_TRUNC))
    rules.add(refused, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, kind, os.O_TRUNC))
    return rules.compile()


def _metadata_filter(architecture: str) -> bytes:
    """Return what is taken away from an evaluation that sees files outside its own.

    Landlock does not govern metadata. The calls are not carried out and still answered with success:
    copying a file ends with one, and would fail.
    """
    rules = _Filter(architecture, seccomp.ALLOW)
    rules.add(seccomp.ERRNO(0), METADATA)
    return rules.compile()


if __name__ == "__main__":
    main()
