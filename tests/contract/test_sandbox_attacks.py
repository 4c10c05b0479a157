"""The table of attacks, and that it can fail: with a mechanism switched off some get through."""

import json
import struct
from collections.abc import Callable, Iterator

import pytest

from evovpo.sandbox import Level, worker
from evovpo.sandbox.filters import filter_path
from evovpo.sandbox.probe import probe
from evovpo.sandbox.selftest import attack_run
from evovpo.sandbox.selftest.attack_run import (
    HIDDEN_FILE,
    exposed_target,
    measure_costs,
    plant_secrets,
    run_attack,
    run_attacks,
    run_controls,
    run_mode_attacks,
)
from evovpo.sandbox.selftest.attacks import Attack, AttackTarget, attacks
from evovpo.sandbox.selftest.reach import OTHER_CANDIDATE
from evovpo.sandbox.worker import ForkServer, WorkerSettings
from evovpo.types import Limits, Status

pytestmark = pytest.mark.slow

NAMES = [attack.name for attack in attacks(AttackTarget("", 0, 0, ""))]
HIDDEN = (HIDDEN_FILE,)


@pytest.fixture(scope="module")
def target() -> Iterator[AttackTarget]:
    with exposed_target() as set_up:
        yield set_up


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    running = ForkServer(WorkerSettings(Level.LANDLOCK_SECCOMP, hidden=HIDDEN))
    plant_secrets(running)
    yield running
    running.stop()


@pytest.mark.parametrize("name", NAMES)
def test_the_attack_is_held(name: str, server: ForkServer, target: AttackTarget) -> None:
    attack = next(attack for attack in attacks(target) if attack.name == name)
    pid = server.pid
    outcome = run_attack(server, attack)
    assert outcome.is_held, outcome
    assert server.pid == pid, "the fork-server did not survive"


@pytest.mark.parametrize(
    "level",
    [
        Level.SECCOMP,
        pytest.param(Level.BWRAP_LANDLOCK_SECCOMP, marks=pytest.mark.isolation(Level.BWRAP_LANDLOCK_SECCOMP)),
    ],
)
def test_attacks_are_held_in_namespaces_and_where_no_file_can_be_opened(
    level: Level, target: AttackTarget
) -> None:
    assert _broken(WorkerSettings(level, hidden=HIDDEN), target) == []


def test_where_no_file_can_be_opened_a_program_has_what_was_loaded_before() -> None:
    server = ForkServer(WorkerSettings(Level.SECCOMP, preload=("numpy",)))
    try:
        code = "import {}\ndef f(x): return x\n"
        loaded = server.run(code.format("statistics, numpy.random, textwrap"), "f", [[1]], Limits(), False)
        other = server.run(code.format("telnetlib"), "f", [[1]], Limits(), False)
    finally:
        server.stop()
    assert (loaded.status, loaded.outputs, loaded.isolation) == (Status.OK, [1], "seccomp")
    assert (other.status, "PermissionError" in other.detail) == (Status.FORBIDDEN, True)


def test_attacks_by_candidates_of_evaluators_are_held(level: Level, target: AttackTarget) -> None:
    outcomes = [*run_mode_attacks(level, target), *run_controls(level, target)]
    assert [outcome for outcome in outcomes if not outcome.is_held] == []
    assert len(NAMES) + 1 + len(outcomes) >= 100


@pytest.mark.parametrize("abi", [1, 3, 4, 6])
def test_attacks_are_held_with_the_landlock_of_older_kernels(
    abi: int, target: AttackTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    if probe().landlock_abi < abi:
        pytest.skip(f"this kernel has Landlock ABI {probe().landlock_abi}")
    _change(monkeypatch, landlock_abi=abi)
    assert _broken(WorkerSettings(Level.LANDLOCK_SECCOMP, hidden=HIDDEN), target) == []


def test_without_seccomp_many_attacks_succeed(target: AttackTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    _change(monkeypatch, server_filter="", child_filter="")
    broken = _broken(WorkerSettings(Level.LANDLOCK_SECCOMP, hidden=HIDDEN), target)
    assert {"fork, spawn, exec", "opens sockets", "signals", "changes names and metadata"} <= set(broken)
    assert len(broken) >= 10


def test_without_landlock_secrets_are_read(target: AttackTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    _change(monkeypatch, landlock_abi=0)
    assert _broken(WorkerSettings(Level.LANDLOCK_SECCOMP, hidden=HIDDEN), target) == ["reads secrets"]


def test_the_search_for_another_programs_data_finds_it_where_it_is(
    server: ForkServer, target: AttackTarget
) -> None:
    search = next(
        attack for attack in attacks(target) if attack.name == "searches for another program's data"
    )
    code = f"{search.code}\nkept = {{'its data': {OTHER_CANDIDATE!r}}}\n"
    outcome = run_attack(server, Attack("", code, search.expected))
    assert outcome.outputs[0] == [OTHER_CANDIDATE]


def test_no_failure_of_the_candidate_passes_for_one_of_the_sandbox(server: ForkServer) -> None:
    code = "import os\nfor fd in (3, 4):\n    os.ftruncate(fd, 0)\nos.closerange(0, 64)\nos._exit(1)\n"
    assert server.run(code, "f", [[1]], Limits(), False).status is Status.CRASH


def test_an_evaluation_is_one_fork_of_a_server_that_has_imported_all() -> None:
    code = (
        "import sys\nFOUND = set(sys.modules)\nimport os, numpy.random\n"
        "def f(x):\n    imported = sorted(set(sys.modules) - FOUND)\n"
        "    return [os.getppid(), os.getpid(), id(numpy), imported]\n"
    )
    server = ForkServer(WorkerSettings(Level.LANDLOCK_SECCOMP, preload=("numpy",)))
    try:
        found = [server.run(code, "f", [[1]], Limits(), False).outputs[0] for _ in range(3)]
        pid = server.pid
    finally:
        server.stop()
    # A process between the two would be the parent, and one that was started anew has other addresses.
    parents, processes, addresses, imported = zip(*found, strict=True)
    assert set(parents) == {pid}
    assert len(set(processes)) == 3
    assert len(set(addresses)) == 1
    assert imported == ([], [], [])


def test_what_an_evaluation_costs_is_measured_in_every_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_run, "COST_EVALUATIONS", 3)
    monkeypatch.setattr(attack_run, "MODE_EVALUATIONS", 1)
    costs = measure_costs(Level.LANDLOCK_SECCOMP)
    assert list(costs) == ["trivial", "numpy", "whole", "proxy"]
    assert all(cost is not None and cost >= 0 for cost in costs.values())


# --- the compiled filters


@pytest.fixture(params=["x86_64", "aarch64"])
def architecture(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("pyseccomp")
    return str(request.param)


@pytest.fixture
def verdict(architecture: str) -> Callable[..., int]:
    """Return what tells how the filter of a name answers a call with these arguments."""
    from evovpo.sandbox.filters import build

    def answered(kind: str, name: str, *arguments: int) -> int:
        number = build.seccomp.resolve_syscall(build.ARCHITECTURES[architecture], name)
        return _verdict(filter_path(kind, architecture).read_bytes(), architecture, number, arguments)

    return answered


def test_shipped_filters_are_what_the_source_compiles_to(architecture: str) -> None:
    from evovpo.sandbox.filters.build import compile_filters

    for name, program in compile_filters(architecture).items():
        assert filter_path(name, architecture).read_bytes() == program, f"run {compile_filters.__module__}"


def test_filters_of_every_architecture_refuse_what_leads_out(verdict: Callable[..., int]) -> None:
    from evovpo.sandbox.filters import build

    def is_allowed(name: str, *arguments: int) -> bool:
        return {verdict(kind, name, *arguments) for kind in ("server", "child")} == {build.ALLOW}

    assert all(is_allowed(name) for name in ("read", "write", "mmap", "exit_group", "futex", "openat"))
    assert is_allowed("kill", build.PID_PLACEHOLDER)
    assert not is_allowed("kill", 1)
    assert not is_allowed("openat", 0, 0, 0x241)
    assert is_allowed("fcntl", 3, 3)
    assert not is_allowed("fcntl", 3, 4)
    assert is_allowed("prlimit64", 0, 1, 0)
    assert not is_allowed("prlimit64", 0, 1, 0x7FFF0000)
    outward = (
        *("execve", "execveat", "clone", "clone3", "socket", "connect", "unlinkat", "renameat2", "mkdirat"),
        *("ptrace", "bpf", "mount", "setns", "fchmodat", "memfd_create", "recvmsg", "wait4", "seccomp"),
    )
    assert [name for name in outward if is_allowed(name)] == []


def test_filters_of_an_evaluation_leave_it_its_own_processes_and_files_only(
    verdict: Callable[..., int],
) -> None:
    from evovpo.sandbox.filters import build

    allow, refuse = build.ALLOW, build.REFUSE
    own = ("execve", "wait4", "setsid", "openat", "mkdirat", "unlinkat", "renameat2", "sendto", "fchmodat")
    assert {name: verdict("whole", name) for name in own} == dict.fromkeys(own, allow)
    outward = ("socket", "connect", "bind", "prctl", "setuid", "mknodat", "setxattr", "truncate", "tkill")
    assert {name: verdict("whole", name, 99) for name in outward} == dict.fromkeys(outward, refuse)
    hostile = ("ptrace", "process_vm_writev", "mount", "unshare", "bpf", "setns")
    assert {verdict("whole", name) for name in hostile} == {build.KILL}
    assert verdict("whole", "clone", 17) == allow
    assert verdict("whole", "clone", 0x10000000) == refuse
    assert [verdict("whole", "socketpair", 1, kind | 0o2000000) for kind in (1, 5, 2)] == [
        allow,
        allow,
        refuse,
    ]
    for process in (build.WATCHER_PLACEHOLDER, build.SUPERVISOR_PLACEHOLDER, 0xFFFFFFFF, 2**64 - 1):
        assert verdict("outside", "kill", process, 9) == refuse
    assert verdict("outside", "kill", 4711, 9) == allow
    assert verdict("outside", "openat", 0, 0, 0o1000) == refuse
    assert verdict("outside", "openat", 0, 0, 0o1001) == allow
    assert verdict("metadata", "fchmodat") == build.PRETEND
    assert verdict("metadata", "openat") == allow


def test_machine_readable_report_has_the_agreed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    from evovpo.sandbox import __main__ as command
    from evovpo.sandbox.selftest.attack_run import AttackOutcome

    outcomes = [AttackOutcome("a", True), AttackOutcome("b", False, Status.OK, [[1]])]
    costs = {"trivial": 1.23456, "numpy": None, "whole": None, "proxy": None}
    report = command.report(outcomes, costs, Level.LANDLOCK_SECCOMP)
    assert json.loads(json.dumps(report)) == {
        "passed": 1,
        "total": 2,
        "level": "landlock+seccomp",
        "uid": report["uid"],
        "cpu_ms_trivial": 1.235,
        "cpu_ms_numpy": None,
        "cpu_ms_whole": None,
        "cpu_ms_proxy": None,
        "failed": ["b"],
    }


def _change(monkeypatch: pytest.MonkeyPatch, **changes: str | int) -> None:
    """Have fork-servers started with some of their settings changed."""
    settings_of = worker._server_settings
    monkeypatch.setattr(worker, "_server_settings", lambda settings: settings_of(settings) | changes)


def _broken(settings: WorkerSettings, target: AttackTarget) -> list[str]:
    """Return the names of the attacks that are not held; those that only use up time are left out."""
    table = [attack for attack in attacks(target) if Status.TIMEOUT not in attack.expected]
    server = ForkServer(settings)
    try:
        return [outcome.name for outcome in run_attacks(server, target, table) if not outcome.is_held]
    finally:
        server.stop()


def _verdict(program: bytes, architecture: str, number: int, arguments: tuple[int, ...]) -> int:
    """Return what a classic BPF program answers to a system call: a slow, separate reading of it."""
    audit = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[architecture]
    data = struct.pack("<IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        if code == 0x20:  # load a word
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x06:  # return
            return int(value)
        elif code == 0x54:  # and
            accumulator &= value
        elif code == 0x05:  # jump
            at += value
        else:
            compare = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value}
            at += if_true if compare[code] else if_false
