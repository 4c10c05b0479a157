"""What an owner opens for an evaluator that is trusted that far, and that nothing else opens with it."""

import os
import shutil
import socket
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from openevolve_problems import LOAD

from evovpo.errors import ConfigError
from evovpo.sandbox import Level, ProxySandbox, WholeJob, WholeResult, WholeSandbox
from evovpo.sandbox.openings import read_openings, split_words
from evovpo.types import Limits, Status

pytestmark = pytest.mark.slow

LIMITS = Limits(wall_seconds=60.0, cpu_seconds=30, memory_mb=4000, processes=32, open_files=128)


def evaluated(
    folder: Path, evaluator: str, level: Level, words: Sequence[str] = (), program: str = ""
) -> WholeResult:
    """Return what an evaluator of this text says with these words allowed."""
    (folder / "evaluator.py").write_text(textwrap.dedent(evaluator))
    job = WholeJob({"program.cpp": program}, "program.cpp", "evaluator.py")
    openings = read_openings(words, folder)
    with WholeSandbox(folder, workers=1, level=level, retries=0, openings=openings) as sandbox:
        return sandbox.run(job, LIMITS)


def test_the_working_folder_is_a_private_copy_of_the_project(level: Level, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "points.csv").write_text("1\n2\n")
    (tmp_path / "tool.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool.sh").chmod(0o755)
    (tmp_path / ".secret").write_text("hidden")
    (tmp_path / "data" / "link.csv").symlink_to("points.csv")
    evaluator = """
    import os, subprocess
    def evaluate(path):
        text = open("data/points.csv").read()
        open("data/points.csv", "a").write("3")
        ran = subprocess.run(["./tool.sh"], capture_output=True, text=True).stdout
        return {"text": text, "now": open("data/points.csv").read(), "link": open("data/link.csv").read(),
                "here": sorted(os.listdir(".")), "ran": ran}
    """
    result = evaluated(tmp_path, evaluator, level)
    assert dict(result.metrics) == {
        "text": "1\n2\n", "now": "1\n2\n3", "link": "1\n2\n", "ran": "ran\n",
        "here": ["data", "evaluator.py", "program.cpp", "tool.sh"],
    }, result  # fmt: skip
    assert (tmp_path / "data" / "points.csv").read_text() == "1\n2\n"


COMPILES = """
import subprocess
def evaluate(path):
    subprocess.run(["cc", "-O1", "-o", "made", path], check=True)
    return {"found": int(subprocess.run(["./made"], capture_output=True, text=True).stdout)}
"""


def words_for_compilers(level: Level) -> list[str]:
    """Return what lets modes of files be changed: without namespaces only root's evaluations may anyway."""
    return ["path=/usr/bin"] if level is Level.LANDLOCK_SECCOMP and os.geteuid() else []


def test_a_program_made_in_the_private_folder_can_be_started(level: Level, tmp_path: Path) -> None:
    evaluator = """
    import shutil, subprocess
    def evaluate(path):
        shutil.copy("/bin/true", "made")
        return {"code": subprocess.run(["./made"]).returncode}
    """
    result = evaluated(tmp_path, evaluator, level, words_for_compilers(level))
    assert dict(result.metrics) == {"code": 0}, result


def test_a_compiled_candidate_runs(level: Level, tmp_path: Path) -> None:
    if shutil.which("cc", path="/usr/bin") is None:
        pytest.skip("no /usr/bin/cc to compile with")
    program = '#include <stdio.h>\nint main() { printf("%d", 6 * 7); }\n'
    result = evaluated(tmp_path, COMPILES, level, words_for_compilers(level), program)
    assert dict(result.metrics) == {"found": 42}, result


def test_a_compiler_finds_its_linker_in_a_folder_that_only_its_owner_may_enter(
    level: Level, tmp_path: Path
) -> None:
    project, linkers = tmp_path / "project", tmp_path / "linkers"
    project.mkdir()
    linkers.mkdir(0o700)
    (linkers / "ld").write_text("#!/bin/sh\n")
    (linkers / "ld").chmod(0o755)
    evaluator = f"""
    import os
    def evaluate(path):
        return {{"found": os.access("{linkers}/ld", os.X_OK)}}
    """
    result = evaluated(project, evaluator, level, [f"path={linkers}"])
    assert dict(result.metrics) == {"found": True}, result


def test_environment_paths_and_programs_are_opened_by_name(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-1")
    monkeypatch.setenv("OTHER_KEY", "sk-2")
    project, outside = tmp_path / "project", tmp_path / "outside"
    for name in ("data", "scratch", "bin", "closed"):
        (outside / name).mkdir(parents=True)
        (outside / name / "file").write_text(name)
    project.mkdir()
    (outside / "bin" / "mytool").write_text("#!/bin/sh\necho tool\n")
    (outside / "bin" / "mytool").chmod(0o755)
    evaluator = f"""
    import os, subprocess
    def tried(action):
        try: return action()
        except OSError: return True
    OUT = {str(outside)!r}
    def evaluate(path):
        return {{"keys": [os.environ.get(name) for name in ("API_KEY", "OTHER_KEY")],
                "data": tried(lambda: open(OUT + "/data/file").read()),
                "closed": tried(lambda: open(OUT + "/closed/file").read()),
                "written": tried(lambda: open(OUT + "/scratch/new", "w").write("x")),
                "data written": tried(lambda: open(OUT + "/data/new", "w").write("x")),
                "tool": tried(lambda: subprocess.run(["mytool"], capture_output=True, text=True).stdout)}}
    """
    names = [f"read={outside}/data", f"write={outside}/scratch", f"path={outside}/bin"]
    opened = evaluated(project, evaluator, level, ["env=API_KEY", *names])
    assert dict(opened.metrics) == {
        "keys": ["sk-1", None], "data": "data", "closed": True, "written": 1, "data written": True,
        "tool": "tool\n",
    }, opened  # fmt: skip
    assert opened.isolation == f"{level}; opened: env=API_KEY, {', '.join(names)}"
    assert (outside / "scratch" / "new").read_text() == "x"
    (outside / "scratch" / "new").unlink()
    closed = evaluated(project, evaluator, level)
    assert dict(closed.metrics) == {
        "keys": [None, None], "data": True, "closed": True, "written": True, "data written": True,
        "tool": True,
    }  # fmt: skip
    assert closed.isolation == level
    assert not (outside / "scratch" / "new").exists()


def test_the_network_is_opened_and_closed(level: Level, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        evaluator = f"""
        import socket
        def evaluate(path):
            with socket.create_connection(("127.0.0.1", {port}), 5):
                pass
            try: socket.socket(socket.AF_UNIX)
            except PermissionError: return {{"connected": 1.0}}
        """
        opened = evaluated(tmp_path, evaluator, level, ["network"])
        assert dict(opened.metrics) == {"connected": 1.0}, opened
        assert evaluated(tmp_path, evaluator, level).status is Status.FORBIDDEN


def test_another_working_folder_is_read_where_it_lies(level: Level, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "points.csv").write_text("1")
    evaluator = """
    import os
    def evaluate(path):
        return {"here": os.getcwd(), "found": open("points.csv").read(), "program": os.path.exists(path)}
    """
    result = evaluated(tmp_path, evaluator, level, ["cwd=data"])
    expected = {"here": "data", "found": "1", "program": True}
    assert dict(result.metrics) == expected, result


def test_off_means_off_but_for_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_KEY", "sk-1")
    evaluator = f"""
    import os, socket
    def evaluate(path):
        socket.socket().close()
        open({str(tmp_path / "left")!r}, "w").close()
        return {{"key": os.environ["ANY_KEY"], "user": os.geteuid()}}
    """
    (tmp_path / "evaluator.py").write_text(textwrap.dedent(evaluator))
    openings = read_openings(["sandbox=off"], tmp_path)
    with WholeSandbox(tmp_path, workers=1, retries=0, openings=openings) as sandbox:
        result = sandbox.run(WholeJob({"p.py": ""}, "p.py", "evaluator.py"), LIMITS)
        endless = sandbox.run(WholeJob({"p.py": ""}, "p.py", "evaluator.py", ("missing",)), LIMITS)
    assert dict(result.metrics) == {"key": "sk-1", "user": os.geteuid()}, result
    assert result.isolation == "none; opened: sandbox=off"
    assert endless.status is Status.ERROR
    assert (tmp_path / "left").exists()


def test_what_is_opened_for_an_evaluator_is_not_for_a_candidate_behind_calls(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-1")
    (tmp_path / "evaluator.py").write_text(
        f"import os, socket\n{LOAD}"
        "def evaluate(path):\n"
        "    socket.socket().close()\n"
        "    return {'own': os.environ['API_KEY'], 'candidate': _load(path).f()}\n"
    )
    code = (
        "import os, socket\ndef f():\n    try: socket.socket()\n"
        "    except OSError: return os.environ.get('API_KEY', 'nothing')\n"
    )
    openings = read_openings(["env=API_KEY", "network"], tmp_path)
    with ProxySandbox(tmp_path, workers=1, level=level, retries=0, preload=(), openings=openings) as sandbox:
        result = sandbox.run(WholeJob({"p.py": code}, "p.py", "evaluator.py"), LIMITS)
    assert dict(result.metrics) == {"own": "sk-1", "candidate": "nothing"}, result
    assert result.isolation == f"{level}; opened: env=API_KEY, network"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("netwrok", "allow: expected env=NAME, .* found 'netwrok'; did you mean 'network'"),
        ("env=", "found 'env='"),
        ("env=NOT_THERE_AT_ALL", "expected a value of NOT_THERE_AT_ALL, found none; export it first"),
        ("env=EMPTY", "expected a value of EMPTY"),
        ("read=missing", "read=missing: expected to find it, found nothing at /.*/missing"),
        ("path=evaluator.py", "path=evaluator.py: expected"),
        ("sandbox=none", "found 'sandbox=none'; did you mean 'sandbox=off'"),
    ],
)
def test_what_cannot_be_opened_is_one_clear_error(
    word: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "evaluator.py").write_text("")
    with pytest.raises(ConfigError, match=expected):
        read_openings([word], tmp_path, "metrics.toml: allow")


def test_words_are_split_and_kept_once(tmp_path: Path) -> None:
    assert split_words(" network,, env=A , network") == ["network", "env=A", "network"]
    assert read_openings(["network", "read=.", "network"], tmp_path).words == ("network", "read=.")
    with pytest.raises(ConfigError, match="expected one cwd=FOLDER"):
        read_openings(["cwd=.", f"cwd={tmp_path.parent}"], tmp_path)
