"""What comes from elsewhere is asked for, not obeyed: stores, projects, checkpoints of a hostile hand."""

import os
import pwd
import signal
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hostile_hand import KEY, hostile_checkpoint, hostile_project, spoil_store
from http_servers import listening
from openevolve_problems import PROGRAM, write_project
from running import serving
from scripted_proposer import ScriptedProposer
from shell import Answer, Shell
from sqlite_files import change_settings, sql
from toy_runs import PROBLEM

from evovpo.config import Config, SandboxConfig, SearchConfig
from evovpo.errors import NotAllowedError, StoreError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import new_problem
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import only_searcher, resume, start
from evovpo.store import Store
from evovpo.types import Problem, Prompt, RunStatus

pytestmark = pytest.mark.slow

SETTINGS = Config(
    search=SearchConfig(evaluations=4, rollouts=2, answers=1, in_flight=1),
    proposer=Config().proposer.changed(name="scripted"),
    sandbox=SandboxConfig(workers=1),
)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Another user's machine: runs that were made here before are not known as made by this user."""
    state = tmp_path / "elsewhere"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    return state


def made(store_file: Path, problem: Problem, config: Config = SETTINGS, is_whole: bool = False) -> None:
    """Make a store with the run `one`, cut off before its first answer, or whole."""

    def interrupt(prompt: Prompt, index: int) -> str:
        if is_whole:
            return problem.seeds[0].source
        raise KeyboardInterrupt

    with Store.open(str(store_file)) as store:
        try:
            start(RunRequest(problem, config, run_id="one"), store, ScriptedProposer(interrupt))
        except KeyboardInterrupt:
            assert not is_whole


@pytest.mark.parametrize("is_whole", [False, True])
def test_the_scorer_of_a_store_never_runs(is_whole: bool, tmp_path: Path) -> None:
    store_file, folder, ran = tmp_path / "run.db", new_problem(tmp_path / "roots", "score"), tmp_path / "ran"
    made(store_file, load_problem(folder), is_whole=is_whole)
    hostile = tmp_path / "hostile.py"
    hostile.write_text(f"open({str(ran)!r}, 'w').close()\n" + (folder / "score.py").read_text())
    statement = "UPDATE problems SET body = json_set(body, '$.scorer_path', ?)"
    sql(store_file, statement, values=(str(hostile),))
    with Store.open(str(store_file)) as store:
        source = load_problem(folder).seeds[0].source
        assert resume("one", store, ScriptedProposer(lambda prompt, index: source)).evaluations == 4
    assert not ran.exists()


def test_code_that_the_store_of_somebody_else_names_is_asked_for(tmp_path: Path, elsewhere: Path) -> None:
    folder, ran = new_problem(tmp_path / "roots", "score"), tmp_path / "ran"
    scorer = folder / "score.py"
    scorer.write_text(f"open({str(ran)!r}, 'w').close()\n" + scorer.read_text())
    problem = load_problem(folder)
    made(tmp_path / "run.db", problem)
    ran.unlink()
    (elsewhere / "evovpo" / "runs").rename(tmp_path / "gone")
    proposer = ScriptedProposer(lambda prompt, index: problem.seeds[0].source)
    with Store.open(str(tmp_path / "run.db")) as store:
        with pytest.raises(NotAllowedError, match=f"asks for code={folder}") as refused:
            resume("one", store, proposer)
        assert not ran.exists()
        assert resume("one", store, proposer, allow=refused.value.words).evaluations == 4
        assert ran.exists()
        assert resume("one", store, proposer).evaluations == 4  # granted once, known from now on


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[dict[str, str]]]]:
    heard: list[dict[str, str]] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(dict(self.headers))
            self.send_error(404)

        def do_POST(self) -> None:
            self.do_GET()

    with listening(Server) as address:
        yield f"{address}/v1", heard


def test_a_store_that_names_a_server_and_a_key_gets_neither(
    tmp_path: Path,
    stranger: tuple[str, list[dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
    evovpo: Shell,
) -> None:
    (url, heard), file, run = stranger, tmp_path / "run.db", evovpo
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    made(file, PROBLEM)
    model = {"name": "m", "base_url": url, "key_variable": "AWS_SECRET_ACCESS_KEY"}
    change_settings(file, proposer={"name": "openai", "attempts": 1}, models=[model])
    answer = run("resume", "one", "--store", file)
    assert answer.code == 2
    assert f"server={url}" in answer.err
    assert "--allow key=AWS_SECRET_ACCESS_KEY" in answer.err
    assert heard == []
    run("resume", "one", "--store", file, "--allow", f"server={url}", "--allow", "key=AWS_SECRET_ACCESS_KEY")
    assert "Bearer the-secret" in heard[0].values()  # what the user grants is done


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ({"evaluator": {"allow": "sandbox=off"}}, "sandbox=off"),
        ({"sandbox": {"minimum_level": "none"}}, "level=none"),
        ({"sandbox": {"executor": "ray://far:10001"}}, "executor=ray://far:10001"),
        (
            {"evaluator": {"judges": '{"models": [{"name": "m", "base_url": "http://far"}]}'}},
            "server=http://far",
        ),
    ],
)
def test_a_store_that_lifts_the_sandbox_is_not_obeyed(
    section: dict[str, Any], word: str, tmp_path: Path
) -> None:
    made(tmp_path / "run.db", PROBLEM)
    change_settings(tmp_path / "run.db", **section)
    with (
        Store.open(str(tmp_path / "run.db")) as store,
        pytest.raises(NotAllowedError, match=f"asks for {word}"),
    ):
        resume("one", store, ScriptedProposer(lambda prompt, index: ""))


def test_an_own_run_resumes_without_a_question_and_so_do_own_changes(tmp_path: Path) -> None:
    made(tmp_path / "run.db", PROBLEM, SETTINGS.changed(sandbox={"minimum_level": "seccomp"}))
    proposer = ScriptedProposer(lambda prompt, index: "")
    with Store.open(str(tmp_path / "run.db")) as store:
        changes = ["proposer.base_url=http://127.0.0.1:9/v1", "search.evaluations=3"]
        assert resume("one", store, proposer, changes=Config.read_changes(changes)).evaluations == 3
        assert resume("one", store, proposer, changes={"search.evaluations": 4}).evaluations == 4
        assert store.run("one").status is RunStatus.EXHAUSTED


def test_a_project_names_no_server_and_no_key_by_itself(
    tmp_path: Path,
    stranger: tuple[str, list[dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
    evovpo: Shell,
) -> None:
    (url, heard), run = stranger, evovpo
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    yaml = (
        f"llm:\n  api_base: {url}\n  api_key: ${{AWS_SECRET_ACCESS_KEY}}\n"
        "  models: [{name: m, weight: 1.0}]\n"
    )
    evaluator = "def evaluate(path):\n    return {'combined_score': 1.0}\n"
    files = {"initial_program.py": PROGRAM, "evaluator.py": evaluator, "config.yaml": yaml}
    folder = write_project(tmp_path / "p", files)
    assert run("check", folder).code == 0  # which asks no server
    store = ["--store", tmp_path / "run.db", "--set", "proposer.attempts=1"]
    answer = run("evolve", folder, *store)
    assert answer.code == 2
    assert f"server={url}" in answer.err
    assert "key=AWS_SECRET_ACCESS_KEY" in answer.err
    assert "key=AWS" in run("evolve", folder, *store, "--allow", f"server={url}").err
    assert heard == []
    own = run("evolve", folder, *store, "--base-url", url)
    assert "asks for key=AWS_SECRET_ACCESS_KEY," in own.err  # the address is the user's, the key is not
    granted = ["--allow", f"server={url}", "--allow", "key=AWS_SECRET_ACCESS_KEY"]
    run("evolve", folder, *store, *granted)
    assert "Bearer the-secret" in heard[0].values()


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", ".hidden", "\x1b]52;c;aGk=\x07"])
def test_an_id_that_is_a_path_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evovpo: Shell
) -> None:
    file, folder = tmp_path / "run.db", tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    made(file, PROBLEM, is_whole=True)
    tables = ("run_events", "prompts", "tells", "candidates")
    moved = (f"UPDATE {table} SET run_id = ?" for table in tables)
    sql(file, "UPDATE runs SET id = ?", *moved, values=(name,))
    before = set(tmp_path.rglob("*"))
    for command in ("show", "export", "replay", "resume", "doctor"):
        answer = evovpo(command, "latest", "--store", file)
        assert answer.code == 2
        assert "\x1b" not in answer.err
        assert "expected ids of runs" in answer.err
    new = set(tmp_path.rglob("*")) - before
    assert [path for path in new if not path.name.startswith("run.db")] == []


def test_a_store_deleted_during_a_run_ends_it_at_once_and_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    made(file, PROBLEM)

    def delete(prompt: Prompt, index: int) -> str:
        for path in tmp_path.glob("run.db*"):
            path.unlink()
        return ""

    with Store.open(str(file)) as store, pytest.raises(StoreError, match=r"run\.db\.rescued"):
        resume("one", store, ScriptedProposer(delete))
    assert not file.exists()
    with Store.open(str(tmp_path / "run.db.rescued")) as rescued:
        assert resume("one", rescued, ScriptedProposer(lambda prompt, index: "")).evaluations == 4


def test_a_folder_of_another_user_in_the_way_does_not_stop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("only root can make a folder of another user")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"evovpo-{os.getuid()}"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    with only_searcher("a store", "one"):
        assert list(folder.iterdir()) == []


def test_a_page_has_a_token_where_others_are_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("evovpo.page.page_server")
    user = pwd.struct_passwd(("other", "x", 1234, 1234, "", "/home/other", "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [user])
    assert server.needs_token("127.0.0.1")
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    assert not server.needs_token("127.0.0.1")
    assert server.needs_token("0.0.0.0")


DEEP = "[" * 100_000 + "]" * 100_000


class Hand(NamedTuple):
    """Where a hostile hand's things lie, and how far it got."""

    work: Path
    ran: Path
    url: str
    heard: list[dict[str, str]]
    run: Shell

    def files(self) -> set[str]:
        own = (
            "work/evovpo-out",
            "work/page.html",
            "work/run.db",
            "home/.local",
            "home/.cache",
            "temporary/evovpo-",
        )
        found = {str(path.relative_to(self.work.parent)) for path in self.work.parent.rglob("*")}
        return {name for name in found if not name.startswith(own)}

    def goes_through(self, *command: str | Path) -> Answer:
        """Give a command, and see that it ends, and that nothing ran, was sent or was written elsewhere."""
        before = self.files()
        answer = self.run(*command)
        self.got_nowhere(before)
        assert "Traceback" not in answer.err
        assert "\x1b" not in answer.out + answer.err
        return answer

    def got_nowhere(self, before: set[str]) -> None:
        assert self.heard == []
        assert not self.ran.exists()
        assert self.files() == before


@pytest.fixture
def hand(
    tmp_path: Path,
    stranger: tuple[str, list[dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Hand]:
    """A current folder, a home and keys that are worth something; a command that hangs fails the test."""

    def hangs(*_: object) -> None:
        raise AssertionError("a command did not end")

    for name in ("work", "home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(KEY, "the-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(500)
    yield Hand(tmp_path / "work", tmp_path / "ran", *stranger, Shell(capsys))
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def hostile_store(hand: Hand) -> Path:
    made(hand.work / "run.db", PROBLEM, is_whole=True)
    spoil_store(hand.work / "run.db", hand.work / "theirs", hand.ran, hand.url)
    return hand.work / "run.db"


def test_a_hostile_store_goes_through_every_command(hand: Hand, hostile_store: Path) -> None:
    for command in (
        ["runs"],
        ["show", "latest", "--no-png"],
        ["show", "latest", "--out", "evovpo-out/best.py"],
        ["show", "one"],
        ["export", "latest", "-o", "page.html"],
        ["replay", "latest"],
        ["replay", "latest", "--verify"],
        ["resume", "latest"],
        ["resume", "latest", "-n", "8"],
        ["doctor", "latest"],
        ["policies"],
        ["evolve", "strings/phone-with-hyphens", "--proposer", "random", "-n", "8", "--from", "one"],
    ):
        answer = hand.goes_through(*command, "--store", hostile_store)
        if command[0] in ("resume", "replay"):
            assert answer.code == 2, command
    assert "<script>alert" not in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("change_row", "value"),
    [
        ("UPDATE prompts SET kind = ?", "nope"),
        ("UPDATE prompts SET way = ?", "nope"),
        ("UPDATE prompts SET messages = ?", DEEP),
        ("UPDATE prompts SET messages = ?", "{}"),
        ("UPDATE prompts SET island = ?", 10**12),
        ("UPDATE runs SET config = ?", DEEP),
        ("UPDATE runs SET config = json_set(config, '$.search.islands', ?)", 10**9),
        ("UPDATE runs SET seed = ?", "nope"),
        ("UPDATE runs SET created_at = ?", "nope"),
        ("UPDATE problems SET body = ?", DEEP),
        ("UPDATE problems SET body = ?", "[]"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_row_that_cannot_be_read_is_one_clear_error(change_row: str, value: object, hand: Hand) -> None:
    made(hand.work / "run.db", PROBLEM, is_whole=True)
    sql(hand.work / "run.db", change_row, values=(value,))
    for command in (["runs"], ["show", "latest", "--no-png"], ["replay", "latest"]):
        answer = hand.goes_through(*command, "--store", hand.work / "run.db")
        assert answer.err.count("error: ") == (answer.code == 2)
        assert answer.code in (0, 2)


def test_a_hostile_store_is_served(hand: Hand, hostile_store: Path) -> None:
    """By the command itself, from a folder with modules that Python must not take from there."""
    pytest.importorskip("uvicorn")
    project = hostile_project(hand.work / "project", hand.ran, hand.url)
    program = [Path(sys.executable).with_name("evovpo")]
    before = hand.files()
    with serving(hostile_store, program=program, cwd=project) as (_, page):
        best = sql(hostile_store, "SELECT id FROM programs")[0][0]
        for path, is_found in {
            "": True,
            "views.js": True,
            "healthz": True,
            "metrics": False,
            "api/page": True,
            "api/report": True,
            "api/runs": True,
            "api/runs/one": True,
            "api/runs/one/programs": True,
            "api/runs/one/answers": True,
            f"api/runs/one/lineage?program={best}": True,
            f"api/programs/{best}?run=one": True,
            "api/policies": True,
            "api/runs/..%2f..%2fescaped": False,
            "..%2f..%2f..%2fetc/passwd": False,
            "api/runs/one?a=b": False,
        }.items():
            status, headers, _ = page.ask(path)
            assert status in ((200,) if is_found else (400, 404)), path
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    hand.got_nowhere(before)


def test_a_hostile_project_goes_through_every_command(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    project = hostile_project(hand.work / "project", hand.ran, hand.url)
    monkeypatch.chdir(project)
    store = ["--store", hand.work / "run.db"]
    for options in ([], ["--allow", "network"], ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]):
        answer = hand.goes_through("evolve", ".", *store, *options)
        assert answer.code == 2
        assert "sandbox=off" in answer.err
    assert hand.goes_through("check", ".").code == 2
    (project / "metrics.toml").unlink()  # asking for nothing, it is run in the sandbox
    assert hand.goes_through("check", ".").code in (0, 2, 3)
    assert hand.goes_through("evolve", ".", *store).code == 2


def test_a_hostile_checkpoint_goes_through_every_command(hand: Hand) -> None:
    checkpoint = hostile_checkpoint(hand.work / "checkpoint_1", hand.ran)
    project = hostile_project(hand.work / "project", hand.ran, hand.url)
    (project / "metrics.toml").unlink()
    (project / "config.yaml").unlink()
    store = ["--store", hand.work / "run.db"]
    imported = hand.goes_through("import-openevolve", checkpoint, *store)
    assert imported.code == 0
    assert imported.err.count("left out: ") > 3
    hand.goes_through("import-openevolve", checkpoint, "--problem", project, *store)
    for command in (["runs"], ["show", "latest", "--no-png"], ["export", "latest", "-o", "page.html"]):
        assert hand.goes_through(*command, *store).code == 0
    for command in (["replay", "latest"], ["resume", "latest"]):
        assert hand.goes_through(*command, *store).code == 2
    options = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--set", "proposer.attempts=1"]
    hand.goes_through("evolve", project, "--from", checkpoint, *options, "-n", "2", *store)
