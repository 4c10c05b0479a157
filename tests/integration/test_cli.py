"""The command line as a user meets it: what it prints, what it refuses, and its exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from running import LONG, running
from shell import Shell
from sqlite_files import sql

from evovpo.cli import app, main, mount_commands
from evovpo.errors import StoreError
from evovpo.runs.stored import Outcome
from evovpo.store import Store
from evovpo.types import Tell

FIELDS = (
    *(name for name in Outcome._fields if name not in ("score", "score_name", "best_metrics")),
    *("solved_train", "solved_heldout"),
)
"""Of an outcome's JSON where no evaluator of its own returns metrics."""
EASY = ("strings/file-extension", "--proposer", "random", "--seed", "1", "--set", "search.in_flight=1")
"""Random programs solve it after 144 evaluations; one ask at a time, so the run is the same every time."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one solved run; tests that change it take a copy."""
    path = tmp_path_factory.mktemp("stored") / "runs.db"
    with pytest.raises(SystemExit) as ended:
        main(["evolve", *EASY, "--store", f"sqlite:///{path}", "--json"])
    assert ended.value.code == 0
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def copied(stored: Path, tmp_path: Path) -> str:
    copy = tmp_path / "copy.db"
    copy.write_bytes(stored.read_bytes())
    return f"sqlite:///{copy}"


def rows_of(url: str) -> int:
    with Store.open(url, create=False) as store:
        return int(store.query("SELECT count(*) AS n FROM candidates")[0]["n"])


def test_evolve_json_ends_with_one_object_of_the_fields_of_an_outcome(evovpo: Shell) -> None:
    answer = evovpo("evolve", *EASY, "--json")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 1
    assert tuple(answer.json) == (*FIELDS, "new_forms", "calls")
    assert answer.json["solved"]
    assert answer.json["train_passed"] == answer.json["train_total"] == 6
    assert answer.json["executed"] <= answer.json["evaluations"] + 1 <= 1001


def test_evolve_shows_the_function_the_examples_the_heldout_result_and_the_way_on(evovpo: Shell) -> None:
    answer = evovpo("evolve", *EASY)
    run = evovpo("runs", "--json").json[0]["run"]
    for text in ("def solve(file):", "'写真.jpeg'", "✓ right", "held-out examples", f"evovpo show {run}"):
        assert text in answer.out
    assert answer.code == 0
    steering = {one for one in answer.out + answer.err if not one.isprintable()} - {"\n", "\t"}
    assert steering == set()
    assert "of 1000 evaluations" in answer.err


def test_options_win_over_set_and_set_over_the_file(evovpo: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[search]\nevaluations = 500\nislands = 2\n[proposer]\nname = "random"\n[run]\nseed = 3\n'
    )
    overrides = ("--config", "mine.toml", "--set", "search.evaluations=400", "-n", "8")
    answer = evovpo("evolve", "strings/user-name", *overrides)
    assert answer.code == 0
    assert "8 evaluations, seed 3" in answer.err
    with Store.open(create=False) as store:
        config = store.run(evovpo("replay", "latest", "--json").json["run"]).config_json
    assert '"islands": 2' in config


def problem_folder(folder: Path, **files: str) -> Path:
    texts = {
        "problem_toml": '[problem]\nstatement = "Copy."\ninputs = ["text"]\n',
        "seed_py": "def solve(text):\n    return text\n",
        "examples_json": '{"train": [{"inputs": ["a"], "output": "a"}]}',
    } | files
    folder.mkdir()
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize("command", ["check", "evolve"])
def test_a_malformed_problem_is_refused_by_name(evovpo: Shell, tmp_path: Path, command: str) -> None:
    problem = problem_folder(tmp_path / "mine", examples_json='{"train": [{"inputs": ["a"], "output": NaN}]}')
    answer = evovpo(command, problem)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert "NaN is not a JSON value" in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "evovpo.db").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evolve", "strings/file-extensions"), "did you mean 'strings/file-extension'"),
        (("evolve", "nonsense"), "`evovpo problems` lists those, `evovpo new` makes one"),
        (("evolve", "nonsense"), "a table (.csv, .tsv, .xlsx, .jsonl)"),
        (("evolve", "strings/base-name", "--model", "."), "is not a model folder"),
        (("evolve", "strings/base-name", "--set", "search.island=2"), "did you mean 'islands'"),
        (("evolve", "strings/base-name", "--config", "none.toml"), "none.toml"),
        (("evolve", "strings/base-name", "--evaluations", "0"), "--evaluations"),
        (("show", "latest"), "no such store"),
        (("resume", "latest", "--store", "nothing://here"), "nothing://here"),
        (("store", "upgrade", "none.db"), "no such store"),
        (("check", "nowhere"), "expected a problem folder"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_bad_input_is_one_message_on_standard_error_and_code_2(
    evovpo: Shell, arguments: tuple[str, ...], words: str
) -> None:
    answer = evovpo(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_a_scorer_problem_is_refused_before_a_run_is_stored(evovpo: Shell, tmp_path: Path) -> None:
    evovpo("new", "mine", "--kind", "score")
    assert "evovpo evolve mine --base-url URL --model NAME\n" in evovpo("check", "mine").out
    server = ("--base-url", "http://h/v1", "--model", "m")
    assert "evovpo evolve mine --base-url http://h/v1 --model m\n" in evovpo("check", "mine", *server).out
    assert "First say in one or two sentences" in evovpo("check", "mine", "--prompts", *server).out
    answer = evovpo("evolve", "mine", "--proposer", "random")
    assert answer.code == 2
    assert "it has a scorer instead of examples" in answer.err
    assert "give an instruction model behind a server: --base-url URL --model NAME" in answer.err
    assert not (tmp_path / "evovpo.db").exists()


def test_a_machine_on_which_nothing_can_be_run_is_code_3(
    evovpo: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    answer = evovpo("evolve", *EASY, "--json")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines()[-1].startswith(
        "error: programs are run by the Python at '/nowhere/python'"
    )
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("heldout", "code", "status", "solved_heldout", "listed"),
    [
        ([{"inputs": ["b"], "output": "b!"}], 5, "memorised", False, "memorised"),
        ([{"inputs": ["b"], "output": "b"}], 0, "solved", True, "solved"),
        ([], 0, "solved", None, "(unchecked)"),
    ],
)
def test_a_run_that_is_right_on_training_rows_alone_is_memorised_not_solved(
    evovpo: Shell,
    tmp_path: Path,
    heldout: list[dict[str, object]],
    code: int,
    status: str,
    solved_heldout: bool | None,
    listed: str,
) -> None:
    train = [{"inputs": ["a"], "output": "a"}, {"inputs": ["aa"], "output": "aa"}]
    problem_folder(tmp_path / "mine", examples_json=json.dumps({"train": train, "heldout": heldout}))
    answer = evovpo("evolve", "mine", "--proposer", "random")
    assert (answer.code, status in answer.out) == (code, True)
    run = evovpo("runs", "--json").json[0]
    assert (run["status"], run["solved_train"], run["solved_heldout"]) == (status, True, solved_heldout)
    assert listed in evovpo("runs").out
    shown = evovpo("show", "latest", "--no-png")
    assert (shown.code, f", {status}, seed 0" in shown.out) == (0, True)
    found = evovpo("show", "latest", "--no-png", "--json").json
    assert (found["status"], found["solved_heldout"]) == (status, solved_heldout)
    resumed = evovpo("resume", "latest", "--json")
    assert (resumed.code, resumed.json["status"]) == (code, status)


def test_a_run_that_ended_before_held_out_rows_were_kept_is_not_called_checked(
    evovpo: Shell, copied: str
) -> None:
    changed = "UPDATE run_events SET heldout_passed = NULL, heldout_total = NULL"
    sql(copied.removeprefix("sqlite:///"), changed)
    row = evovpo("runs", "--store", copied, "--json").json[0]
    assert (row["status"], row["heldout"], row["solved_heldout"]) == ("solved", None, None)
    assert "(unchecked)" in evovpo("runs", "--store", copied).out


def test_show_writes_a_picture_and_says_where(evovpo: Shell, stored: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{stored}"
    run = evovpo("runs", "--store", url, "--json").json[0]["run"]
    answer = evovpo("show", run[:6], "--store", url)
    picture = Path("evovpo-out") / f"{run}.png"
    assert answer.code == 0
    assert f"Curve written to {picture}" in answer.out
    assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for text in ("def solve(file):", "Lineage of the best program", "1.0 ┤", "evaluations"):
        assert text in answer.out


def test_show_json_holds_what_the_screen_shows(evovpo: Shell, stored: Path, tmp_path: Path) -> None:
    assert evovpo("show", "latest", "--store", stored, "--no-png", "--json").json["png"] is None
    assert list(tmp_path.rglob("*.png")) == []
    found = evovpo("show", "latest", "--store", stored, "--png", "here.png", "--json").json
    assert (found["png"], found["solved"], found["status"]) == ("here.png", True, "solved")
    assert [example["passed"] for example in found["examples"]] == [True] * 6
    assert found["lineage"][0]["program"] == found["program"]
    assert found["curve"][-1] == {
        "evaluations": found["evaluations"],
        "best_mean_reward": 1.0,
        "examples_passed": 6,
    }
    assert (tmp_path / "here.png").is_file()


def test_a_run_that_was_killed_is_listed_and_shown_with_how_to_go_on(
    evovpo: Shell, copied: str, tmp_path: Path
) -> None:
    run = evovpo("runs", "--store", copied, "--json").json[0]["run"]
    assert "killed" not in evovpo("runs", "--store", copied).out
    sql(tmp_path / "copy.db", "DELETE FROM run_events WHERE status != 'running'")
    for command in (("runs",), ("show", run, "--no-png")):
        answer = evovpo(*command, "--store", copied)
        assert "running" in answer.out
        assert "killed" in answer.out
        assert f"evovpo resume {run} --store {copied}" in answer.out


def test_a_store_that_fails_in_the_middle_has_an_exit_code_of_its_own(
    evovpo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: Store, run_id: str, tells: Sequence[Tell], order: int) -> list[bool]:
        if order < 50:
            return add_tells(store, run_id, tells, order)
        raise StoreError("the disk is full")

    add_tells = Store.add_tells
    monkeypatch.setattr(Store, "add_tells", full)
    answer = evovpo("evolve", *EASY)
    assert answer.code == 4
    assert "evovpo resume " in answer.err
    assert answer.err.endswith("error: the disk is full\n")


def test_replay_rebuilds_the_population_and_verify_notices_a_changed_row(
    evovpo: Shell, copied: str, tmp_path: Path
) -> None:
    shown = evovpo("replay", "latest", "--store", copied)
    assert (shown.code, "rebuilt: " in shown.out) == (0, True)
    found = evovpo("replay", "latest", "--verify", "--store", copied, "--json").json
    assert (found["identical"], found["solved"]) == (True, True)
    sql(tmp_path / "copy.db", "UPDATE rollouts SET text = 'x0' || text")
    answer = evovpo("replay", "latest", "--verify", "--store", copied, "--json")
    assert (answer.code, answer.json["identical"]) == (2, False)
    assert "rows were changed" in answer.err


def interrupt(arguments: Sequence[str], url: str, after_rows: int) -> str:
    """The budgets of these runs are far larger than what is waited for, so that none can end by itself."""
    with running(*arguments, start_new_session=True) as process:
        assert process.stderr is not None
        while " evaluations" not in process.stderr.readline():
            assert process.poll() is None
        while rows_of(url) < after_rows:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # the whole group, as a terminal does
        out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    return err


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_judged_and_resume_goes_on_from_there(evovpo: Shell, tmp_path: Path) -> None:
    budget, url = 500_000, f"sqlite:///{tmp_path / 'evovpo.db'}"
    options = ["--proposer", "random", "-n", str(budget), "--set", "search.stop_when_solved=false", "--json"]
    err = interrupt(["evolve", "strings/user-name", *options], url, after_rows=100)
    listed = evovpo("runs", "--json").json[0]
    assert f"{listed['evaluations']} of {budget} evaluations are stored" in err
    assert f"evovpo resume {listed['run']}\n" in err
    assert listed["status"] == "interrupted"
    assert 0 < listed["evaluations"] < budget

    interrupt(["resume", "latest", "--json"], url, after_rows=rows_of(url) + 100)
    again = evovpo("runs", "--json").json[0]
    assert (again["run"], again["status"]) == (listed["run"], "interrupted")
    assert again["evaluations"] > listed["evaluations"]
    assert evovpo("replay", "latest", "--verify", "--json").json["identical"] is True


@pytest.mark.parametrize("kind", ["examples", "score"])
def test_a_new_problem_passes_its_check(evovpo: Shell, kind: str) -> None:
    made = evovpo("new", "mine", "--kind", kind)
    checked = evovpo("check", "mine")
    assert (made.code, checked.code) == (0, 0)
    assert "evovpo check mine" in made.out
    assert "mine can be used" in checked.out
    with_server = "evovpo evolve mine --base-url URL --model NAME\n"
    assert "Next:  evovpo evolve mine" in checked.out
    assert (with_server in made.out) == (with_server in checked.out) == (kind == "score")


def test_new_never_writes_into_a_folder_with_files(evovpo: Shell, tmp_path: Path) -> None:
    evovpo("new", "mine")
    (tmp_path / "mine" / "seed.py").write_text("my work")
    assert evovpo("new", "mine").code == 2
    assert (tmp_path / "mine" / "seed.py").read_text() == "my work"


@pytest.mark.slow
def test_problems_are_a_page_of_suites_and_each_suite_a_list(
    evovpo: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    overview = evovpo("problems")
    assert "Columns of text: string functions from examples." in overview.out
    assert len(overview.out.splitlines()) < 24
    assert re.search(r"\nstrings +76 ", overview.out)
    table = evovpo("problems", "strings").out.split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 80
    (line,) = (line for line in table.splitlines() if line.startswith("strings/file-extension "))
    assert " 6+11  Give the extension of a file" in line
    assert len(re.findall("^strings/", table, re.M)) == 76
    assert evovpo("problems", "nothing").code == 2


def test_config_prints_a_file_that_config_takes(evovpo: Shell, tmp_path: Path) -> None:
    printed = evovpo("config", "--set", "search.islands=7").out
    (tmp_path / "mine.toml").write_text(printed)
    assert "islands = 7" in evovpo("config", "--config", "mine.toml").out


def test_the_help_of_every_command_has_an_example() -> None:
    mount_commands()
    for command in app.registered_commands:
        assert command.callback is not None
        text = command.callback.__doc__ or ""
        assert "Example" in text, command.name
        assert f"evovpo {command.name}" in text, command.name


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = ["torch", "transformers", "matplotlib", "sqlalchemy", "numpy", "alembic", "rich.console"]
    code = f"import sys, evovpo.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_command_that_the_readme_names_exists() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:\.venv/bin/|`|^|&& )evovpo ([a-z-]+)", readme, flags=re.MULTILINE))
    assert named >= {"evolve", "show", "runs", "resume", "replay", "new", "check", "retrain", "loop"}
    mount_commands()
    assert named <= {command.name for command in app.registered_commands}


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["evolve", "p", "--log-level=INFO"], "leave it out"),
        (["evolve", "p", "--evaluator-args", "{}"], "--set evaluator.arguments="),
    ],
)
def test_an_option_of_another_name_is_hinted_at(evovpo: Shell, line: list[str], hint: str) -> None:
    done = evovpo(*line)
    assert done.code == 2
    assert re.search(rf"does not exist; .*{re.escape(hint)}", done.err)
