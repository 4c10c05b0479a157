"""Projects that need more than their own process: a compiler, a key, the network."""

import os
import shutil
import socket
from functools import partial
from pathlib import Path

import pytest
import shell
from openevolve_examples import measured, scripted, searched
from openevolve_problems import LOAD, PROGRAM, write_project

from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError
from evovpo.problem.openevolve.loading import changed_files, load_openevolve
from evovpo.problem.openevolve.opening import open_project
from evovpo.sandbox import WholeSandbox
from evovpo.types import Status

pytestmark = pytest.mark.slow

CPP = "// EVOLVE-BLOCK-START\n#define GUESS 1.0\n// EVOLVE-BLOCK-END\n"
NEEDS: dict[str, dict[str, str]] = {
    "a compiler": {
        "initial_program.cpp": CPP,
        "evaluator.py": """
import os, subprocess, tempfile

MAIN = '#include "%s"\\n#include <cstdio>\\nint main() { std::printf("%%.3f", double(GUESS)); }'

def evaluate(program_path):
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "main.cpp"), os.path.join(folder, "main")
        with open(source, "w") as file:
            file.write(MAIN % program_path)
        subprocess.run(["g++", "-o", binary, source], check=True, capture_output=True)
        value = float(subprocess.run([binary], check=True, capture_output=True, text=True).stdout)
    return {"value": value, "combined_score": -abs(value - 2)}
""",
    },
    "a key": {
        "initial_program.py": PROGRAM,
        "evaluator.py": LOAD
        + """
import os

def evaluate(program_path):
    value = _load(program_path).guess()
    return {"key": len(os.environ["JUDGE_KEY"]), "combined_score": -abs(value - 5)}
""",
    },
}


def programs(need: str, number: int) -> str:
    text = scripted(need)(number)
    if need != "a compiler":
        return text
    value = text.partition("return ")[2].partition("\n")[0] or "no_such_name"
    return f"```cpp\n{CPP.replace('1.0', value)}```"


@pytest.mark.parametrize("need", list(NEEDS))
def test_a_search_finds_the_best_score_and_the_metrics_of_a_plain_call(
    need: str, tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    if need == "a compiler" and shutil.which("g++", path="/usr/bin") is None:
        pytest.skip("no /usr/bin/g++ to compile with")
    monkeypatch.setenv("JUDGE_KEY", "four")
    folder = write_project(tmp_path / need, NEEDS[need])
    # Where nothing hides other users' files, only root's compilers may change modes unasked.
    allow = ["--allow", "path=/usr/bin"] if need == "a compiler" and os.geteuid() else []
    allow += ["--allow", "env=JUDGE_KEY"] if need == "a key" else []
    write = partial(programs, need)
    found, said, view, sources, _ = searched(folder, write, command, *allow)
    judged = [item for item in view.scores if item.status is Status.OK]
    assert len(judged) > 15
    suffix = ".cpp" if need == "a compiler" else ".py"
    theirs = measured(folder, (sources[item.program_id] for item in judged), suffix)
    for item in judged:
        assert item.metrics == theirs[sources[item.program_id]]
    best = theirs[found["program"]]["combined_score"]
    assert all(best >= one["combined_score"] for one in theirs.values())  # type: ignore[operator]
    assert best == found["combined_score"]
    if need == "a key":
        assert (
            "opened for the evaluator, and for every candidate, which shares its process: env=JUDGE_KEY"
            in (" ".join(said.split()))
        )


PLAINEST = {"initial_program.py": PROGRAM, "evaluator.py": "def evaluate(path): return {'x': 1.0}\n"}
CONNECTS = (
    LOAD
    + """
import socket

def evaluate(program_path):
    socket.create_connection(("127.0.0.1", PORT), 5).close()
    return {"combined_score": _load(program_path).guess()}
"""
)


def test_the_three_places_are_one_list_that_is_stored_and_told(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        evaluator = CONNECTS.replace("PORT", str(server.getsockname()[1]))
        files = {"initial_program.py": PROGRAM, "evaluator.py": evaluator}
        folder = write_project(tmp_path / "p", files)
        with pytest.raises(ProblemError, match="PermissionError"):
            open_project(folder, changes={"sandbox.workers": 1})
        (folder / "metrics.toml").write_text('allow = ["network"]\n')
        setting = f"evaluator.allow=read={tmp_path}/data, network"
        words = ("network", f"read={tmp_path}/data", "env=HOME")
        opened = open_project(
            folder, changes=Config.read_changes(["sandbox.workers=1", setting]), allow=["env=HOME"]
        )
        proxy = ["sandbox.workers=1", "evaluator.mode=proxy"]
        apart = open_project(folder, changes=Config.read_changes(proxy), allow=["network"])
    assert list(opened.config.evaluator.allow) == list(words)
    assert opened.initial.isolation.endswith(f"; opened: {', '.join(words)}")
    assert opened.remarks[0].endswith(f"which shares its process: {', '.join(words)}")
    assert apart.remarks[0] == "opened for the evaluator, candidates have none of it: network"
    assert apart.problem.version != opened.problem.version


def test_what_is_opened_is_part_of_the_version_and_nothing_else_is(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", PLAINEST)
    closed, opened = (
        load_openevolve(
            folder, Config.load(None, Config.read_changes(["sandbox.workers=1", f"evaluator.allow={words}"]))
        ).problem
        for words in ("", "network")
    )
    assert (
        closed.version == load_openevolve(folder, Config.load(None, {"sandbox.workers": 1})).problem.version
    )
    assert closed.version != opened.version


def test_what_an_evaluator_writes_where_it_may_makes_no_other_problem(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", PLAINEST | {"log/scores.jsonl": ""})
    for words, written in (
        ("write=.", "new.jsonl"),
        ("write=log", "log/more.csv"),
        ("write=log/scores.jsonl", "log/scores.jsonl"),
    ):
        config = Config.load(None, {"sandbox.workers": 1, "evaluator.allow": [words]})
        problem = load_openevolve(folder, config).problem
        (folder / written).write_text(words)
        assert changed_files(problem, config, 0.0) is None, words
    (folder / "log" / "code.py").write_text("import os\n")
    assert changed_files(problem, config, 0.0) is not None


def test_off_by_word_is_off_where_a_low_minimum_still_takes_the_strongest(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", PLAINEST)
    settings = ["sandbox.workers=1", "sandbox.minimum_level=none"]
    strongest = open_project(folder, changes=Config.read_changes(settings)).initial
    off = open_project(folder, changes=Config.read_changes(settings), allow=["sandbox=off"]).initial
    with WholeSandbox(folder) as sandbox:
        assert strongest.isolation == sandbox.level
    assert off.isolation == "none; opened: sandbox=off"


@pytest.mark.parametrize(
    ("toml", "setting", "option", "expected"),
    [
        ('allow = ["netwrok"]\n', "", [], r"metrics\.toml: .*found 'netwrok'; did you mean 'network'"),
        ('allow = "network"\n', "", [], r"metrics\.toml: allow: expected a list .*found 'network'"),
        ("", "read=nowhere", [], r"evaluator\.allow: read=nowhere: expected to find it"),
        ("", "", ["env=NOT_SET"], "--allow: env=NOT_SET: expected a value"),
        ("", "cwd=.", ["cwd=.."], r"evaluator\.allow: expected one cwd"),
    ],
)
def test_a_fault_names_the_place_where_it_was_written(
    toml: str, setting: str, option: list[str], expected: str, tmp_path: Path
) -> None:
    folder = write_project(tmp_path / "p", PLAINEST | {"metrics.toml": toml})
    with pytest.raises((ConfigError, ProblemError), match=expected):
        open_project(folder, changes=Config.read_changes([f"evaluator.allow={setting}"]), allow=option)


def test_what_importing_does_that_forking_cannot_carry_over_is_a_remark_of_check(
    tmp_path: Path, command: shell.Shell
) -> None:
    evaluator = LOAD + "\nLINES = open(__file__)\ndef evaluate(path): return {'x': float(len(list(LINES)))}\n"
    folder = write_project(tmp_path / "p", {"initial_program.py": PROGRAM, "evaluator.py": evaluator})
    answer = command("check", folder, "--set", "sandbox.workers=1")
    assert (answer.code, "imported anew for every evaluation" in " ".join(answer.out.split())) == (0, True)
