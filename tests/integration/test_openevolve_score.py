"""What an OpenEvolve project is searched for: its one number, with every other number shown as it is."""

import io
import os
from pathlib import Path

import pytest
import shell
from openevolve.utils.metrics_utils import get_fitness_score
from openevolve_examples import EXAMPLES, measured, scripted, searched
from openevolve_problems import BETTER, LOAD, PROGRAM, numbered, write_project

from evovpo.config import Config
from evovpo.judging.evaluator import open_evaluator
from evovpo.problem.openevolve.loading import load_openevolve
from evovpo.prompts.program_text import shown_rewards
from evovpo.types import Program, Status

pytestmark = pytest.mark.slow
SETTINGS = (
    *("--set", "search.rollouts=8", "--set", "search.answers=1", "--set", "search.in_flight=1"),
    *("--set", "prompt.style=rewrite", "--set", "sandbox.workers=2", "--set", "evaluator.timeout_seconds=30"),
)


@pytest.mark.parametrize("shape", list(EXAMPLES))
def test_the_best_program_is_that_with_the_best_score_and_metrics_are_openevolves_own(
    shape: str, tmp_path: Path, command: shell.Shell
) -> None:
    folder = write_project(tmp_path / shape, EXAMPLES[shape])
    patient = ("--set", "evaluator.timeout_seconds=30")
    found, _, view, sources, prompts = searched(folder, scripted(shape), command, *patient)
    name = "mean of 2 metrics" if shape == "mean" else "combined_score"
    assert [objective.name for objective in view.problem.objectives] == [name]
    assert len(sources) > 20
    theirs = measured(folder, sources.values())
    dimensions = ["radius_variance", "complexity"] if shape == "features" else ["complexity", "diversity"]
    fitness = {}
    for item in view.scores:
        if item.status is not Status.OK:
            assert "ValueError" in sources[item.program_id] or "raise" in sources[item.program_id]
            continue
        source = sources[item.program_id]
        assert item.metrics == theirs[source]
        fitness[source] = get_fitness_score(theirs[source], dimensions)
        assert item.combined == fitness[source]
    assert fitness[found["program"]] == max(fitness.values()) == found["score"]
    assert (found["score_name"], "combined_score" in found) == (name, shape != "mean")
    assert found["best_metrics"] == theirs[found["program"]]
    assert found["program"] != PROGRAM
    assert not found["solved"]
    texts = [message.content for prompt in prompts for message in prompt.messages]
    assert any(f"Programs are ranked by one number alone. {name}: higher is" in one for one in texts)
    assert not any("reward" in text for text in texts)


def test_a_program_stopped_at_a_stage_is_told_so_in_one_sentence(tmp_path: Path) -> None:
    config = Config.load(None, {"sandbox.workers": 1, "evaluator.timeout_seconds": 20.0})
    plain = write_project(tmp_path / "one", EXAMPLES["cascade"])
    toml = {"metrics.toml": "[metrics.eval_time]\nlow = 0\nhigh = 9\n[metrics.runs]\nlow = 0\nhigh = 1\n"}
    for folder, rewards in ((plain, 1), (write_project(tmp_path / "two", EXAMPLES["cascade"] | toml), 2)):
        problem = load_openevolve(folder, config).problem
        with open_evaluator(problem, config) as evaluator:
            stopped, whole = (
                evaluator.evaluate(Program(PROGRAM.replace("1.0", text))) for text in ("1.2", "2.0")
            )
        assert stopped.feedback == "stopped at stage 1: its score 0.3 is below the threshold 0.5"
        assert stopped.metrics == (("runs", 1.0), ("combined_score", 0.3))
        assert len(stopped.rewards) == rewards
        assert (stopped.status, whole.status, whole.feedback) == (Status.OK, Status.OK, "")
    shown = shown_rewards(load_openevolve(plain, config).problem, stopped)
    assert shown == "combined_score = 0.3.\nAs measured: runs = 1."


ERRORS = {
    "raises": "raise RuntimeError('no compiler')",
    "lone": "return {'error': 0.0}",
    "text": "return {'error': 'no compiler'}",
    "zero": "return {'combined_score': 0.0, 'error': 'no compiler'}",
    "artifacts": (
        "from openevolve.evaluation_result import EvaluationResult\n"
        "    return EvaluationResult({'error': 0.0}, {'stderr': 'no compiler'})"
    ),
}


@pytest.mark.parametrize("kind", list(ERRORS))
def test_check_fails_where_the_initial_program_does(kind: str, tmp_path: Path, command: shell.Shell) -> None:
    files = {"initial_program.py": PROGRAM, "evaluator.py": f"def evaluate(path):\n    {ERRORS[kind]}\n"}
    folder = write_project(tmp_path / "p", files)
    answer = command("check", folder, "--json", "--set", "sandbox.workers=1")
    assert (answer.code, answer.json["usable"]) == (3, False)
    assert answer.json["problem"]["id"] == "p"
    metrics = {"lone": {"error": 0.0}, "artifacts": {"error": 0.0}, "text": {"error": "no compiler"}}
    zero = {"combined_score": 0.0, "error": "no compiler"}
    assert answer.json["initial"] == (zero if kind == "zero" else metrics.get(kind, {}))
    told = command("check", folder, "--set", "sandbox.workers=1")
    assert told.code == 3
    assert "can be used" not in told.out
    assert kind == "lone" or "no compiler" in " ".join((told.out + told.err).split())


def test_check_says_what_is_searched_for(tmp_path: Path, command: shell.Shell) -> None:
    folder = write_project(tmp_path / "costs", EXAMPLES["costs"])
    found = command("check", folder, "--json").json
    assert (found["usable"], found["problem"]["objectives"]) == (True, ["combined_score"])
    assert found["initial"] == measured(folder, [PROGRAM])[PROGRAM]
    shown = command("check", folder)
    assert "A metrics.toml makes objectives of them" in " ".join(shown.out.split())
    rows = command("check", "strings/date-to-iso", "--json").json
    assert (rows["usable"], rows["problem"]["id"]) == (True, "strings/date-to-iso")
    assert rows["initial"].keys() == set(rows["problem"]["objectives"])


def evolve(command: shell.Shell, folder: Path, texts: list[str], *options: str | Path) -> shell.Answer:
    with numbered(lambda number: texts[number % len(texts)]) as address:
        return command(
            *("evolve", folder, "--base-url", address, "--model", "m", "-n", "4", *SETTINGS, *options),
            *("--store", f"sqlite:///{folder.parent}/evovpo.db"),
        )


@pytest.mark.parametrize(
    ("returned", "code"),
    [("{'combined_score': 0.0, 'error': 'x'}", 3), ("{'combined_score': 0}", 0)],
)
def test_a_run_of_failures_alone_says_so_and_ends_with_3_and_one_of_honest_zeros_with_0(
    returned: str,
    code: int,
    tmp_path: Path,
    command: shell.Shell,
) -> None:
    evaluator = LOAD + f"\ndef evaluate(path):\n    return {returned} if _load(path).guess() < 9 else 1 / 0\n"
    folder = write_project(tmp_path / "p", {"initial_program.py": PROGRAM, "evaluator.py": evaluator})
    texts = [f"```python\n{PROGRAM.replace('1.0', text)}```" for text in ("2.0", "3.0", "9.0")]
    answer = evolve(command, folder, texts, "--json")
    assert answer.code == code
    assert ("every program of this run failed" in answer.err) is (code == 3)
    assert answer.json["best_metrics"]["combined_score"] == 0.0


def test_bounds_of_a_run_make_a_vector_problem_whose_best_still_goes_by_the_score(
    tmp_path: Path, command: shell.Shell
) -> None:
    folder = write_project(tmp_path / "costs", EXAMPLES["costs"])
    texts = [f"```python\n{PROGRAM.replace('1.0', text)}```" for text in ("0.5", "2.5", "5.0")]
    url = f"sqlite:///{tmp_path}/evovpo.db"
    first = evolve(command, folder, texts)
    assert first.code == 0, first.err
    assert "budget used, best combined_score 0.571429" in first.out
    assert "reward" not in first.out
    assert "0.571429" in command("runs", "--store", url).out
    assert command("runs", "--store", url, "--json").json[0]["combined_score"] == 1 / 1.75
    shown = command("show", "latest", "--store", url, "--png", tmp_path / "curve.png")
    assert ("reward" in shown.out, (tmp_path / "curve.png").stat().st_size > 1000) == (False, True)
    assert "allow" not in command("check", "--bounds", "latest", "--store", url).out
    doctor = command("doctor", "latest", "--store", url)
    assert "`evovpo check --bounds RUN` writes a metrics.toml" in " ".join(doctor.out.split())
    bounds = command("check", "--bounds", "latest", "--store", url).out
    assert "[metrics.eval_time]\nlow = 0.0\nhigh = 0.5\nlower_is_better = true  # guessed from" in bounds
    assert "[metrics.c1]" in bounds
    assert "[metrics.combined_score]" in bounds
    (folder / "metrics.toml").write_text(bounds)
    found = command("check", folder, "--json", "--store", url).json
    assert found["problem"]["objectives"] == ["c1", "eval_time", "combined_score"]
    second = evolve(command, folder, texts, "--json", "--allow", f"read={tmp_path}", "--allow", "network")
    allowed = f'allow = ["read={tmp_path}", "network"]'
    assert command("check", "--bounds", "latest", "--store", url).out.startswith(allowed)
    assert second.json["best_metrics"]["combined_score"] == second.json["combined_score"] == 1 / 1.75
    assert second.json["program"] == PROGRAM.replace("1.0", "2.5")


SIGNALS = """
def evaluate(path):
    value = _load(path).guess()
    return {"correlation": value / 10, "slope_changes": 66 * value, "lag_error": 0.3, "note": "x"}
"""


def test_a_mean_of_metrics_is_never_called_combined_score(tmp_path: Path, command: shell.Shell) -> None:
    files = {"initial_program.py": PROGRAM, "evaluator.py": LOAD + SIGNALS}
    folder = write_project(tmp_path / "signals", files)
    checked = command("check", folder)
    said = " ".join(checked.out.split())
    assert "ranked by the mean of 3 metrics, as OpenEvolve does (correlation = 0.1, slope_changes" in said
    assert "HIGHER is taken as better for slope_changes, lag_error" in said
    answer = evolve(command, folder, [f"```python\n{BETTER}```"])
    assert "best mean of 3 metrics" in answer.out
    again = evolve(command, folder, [f"```python\n{BETTER}```"], "--seed", "1")  # on the stored problem
    for found in (answer, again):
        assert found.err.count("HIGHER is taken as better for slope_changes, lag_error") == 1
    shown = command("show", "latest", "--store", f"sqlite:///{tmp_path}/evovpo.db", "--no-png")
    assert "combined_score" not in answer.out + shown.out
    found = command("runs", "--store", f"sqlite:///{tmp_path}/evovpo.db", "--json").json[0]
    assert found["score_name"] == "mean of 3 metrics"
    assert "combined_score" not in found


def test_a_terminal_is_asked_once_whether_a_mean_is_meant(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"initial_program.py": PROGRAM, "evaluator.py": LOAD + SIGNALS}
    folder = write_project(tmp_path / "signals", files)
    monkeypatch.setattr("evovpo.cli.terminal.is_interactive", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = evolve(command, folder, [f"```python\n{BETTER}```"])
    assert refused.code == 2
    assert "[metrics.slope_changes]\nlower_is_better = true" in refused.out
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert evolve(command, folder, [f"```python\n{BETTER}```"]).code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert evolve(command, folder, [f"```python\n{BETTER}```"], "--seed", "1").code == 0


def test_a_relative_path_that_leads_out_of_the_project_is_named(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = "def evaluate(path):\n    return {'combined_score': float(open('../data/x.txt').read())}\n"
    folder = write_project(tmp_path / "p", {"initial_program.py": PROGRAM, "evaluator.py": reads})
    data = tmp_path / "data" / "x.txt"
    data.parent.mkdir()
    data.write_text("1")
    monkeypatch.chdir(folder)
    opened = ("--allow", f"cwd={folder}", "--allow", f"read={data}")
    assert f"open it with {' '.join(opened)}" in command("check", ".").err
    assert command("check", ".", *opened).code == 0


def test_an_initial_program_with_a_fault_of_its_own_is_refused_as_such(
    tmp_path: Path, command: shell.Shell
) -> None:
    files = {
        "initial_program.py": "def f(:\n",
        "evaluator.py": CAUGHT.replace(
            'subprocess.run(["turbo-tool"], check=True)', "exec(open(path).read())"
        ),
    }
    folder = write_project(tmp_path / "p", files)
    store = ("--store", f"sqlite:///{tmp_path}/evovpo.db")
    refused = command("evolve", folder, "--base-url", "http://localhost:9/v1", "--model", "m", *store)
    assert refused.code == 3
    assert "correct it, or its evaluator" in refused.err
    missing = command("evolve", folder, "--base-url", "http://localhost:9/v1", "--from", "no/where", *store)
    assert "expected a run or a checkpoint's folder, found nothing at no/where" in missing.err


CAUGHT = """
import subprocess, traceback
from openevolve.evaluation_result import EvaluationResult

def evaluate(path):
    try:
        subprocess.run(["turbo-tool"], check=True)
        return {"score": 1.0}
    except Exception as error:
        artifacts = {"error": str(error), "full_traceback": traceback.format_exc()}
        return EvaluationResult(metrics={"score": 0.0, "speed": 0.0}, artifacts=artifacts)
"""


def test_a_zero_for_want_of_a_tool_is_not_usable_and_ends_the_run(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(tmp_path / "p", {"initial_program.py": PROGRAM, "evaluator.py": CAUGHT})
    tool = tmp_path / "bin" / "turbo-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    answer = command("check", folder)
    assert answer.code == 3
    assert "error: not usable: the initial program fails" in answer.err
    assert f"{tool} is closed in the sandbox: open it with --allow path={tool.parent}" in answer.err
    assert "can be used" not in answer.out
    assert command("check", folder, "--allow", f"path={tool.parent}").code == 0
    store = ("--store", f"sqlite:///{tmp_path}/evovpo.db")
    unpaid = command("evolve", folder, "--base-url", "http://localhost:9/v1", "--model", "m", *store)
    assert unpaid.code == 3
    assert "error: not usable: the initial program fails" in unpaid.err
    evaluator = folder / "evaluator.py"
    evaluator.write_text(evaluator.read_text().replace("turbo-tool", "/turbo-tool"))
    with numbered(lambda number: f"```python\n{PROGRAM.replace('1.0', str(number))}```") as address:
        run = command(
            *("evolve", folder, "--base-url", address, "--model", "m", *SETTINGS, "-n", "64", "--json"),
            *store,
        )
    assert run.code == 3
    assert "not usable" in run.err
    assert run.json["stopped"].startswith("8 programs in a row failed alike (FileNotFoundError")
    assert run.json["evaluations"] < 64
