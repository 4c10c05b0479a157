"""Somebody who moves from OpenEvolve finds their calls, prompts, rules and initial program again."""

from __future__ import annotations

from pathlib import Path

import pytest
import shell
from openevolve_problems import BETTER, LOAD, PROGRAM, answering, served, write_project

from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError
from evovpo.problem.openevolve.loading import is_unchanged
from evovpo.problem.openevolve.opening import open_project
from evovpo.prompts.reading import read_rewrite
from evovpo.runs.choices import choose_format
from evovpo.types import Program, Rollout, Sampling

ONE_SCORE = (
    LOAD
    + """
def evaluate(program_path):
    return {"combined_score": max(0.0, 1 - abs(4 - _load(program_path).guess()) / 4)}
"""
)
FILES = {"initial_program.py": PROGRAM, "evaluator.py": ONE_SCORE}


def opened(folder: Path, *overrides: str) -> Config:
    return open_project(folder, None, overrides, open_evaluator=answering(combined_score=0.25).open).config


def test_a_project_searches_and_shows_as_openevolve_does_unless_told_otherwise(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", FILES)
    bare = opened(folder)
    assert (bare.search.rollouts, bare.search.top_programs, bare.search.diverse_programs) == (1, 3, 2)
    assert (bare.prompt.enforce_blocks, Config().prompt.enforce_blocks) == (False, True)
    yaml = "enforce_evolve_blocks: true\nprompt: {num_top_programs: 1, num_diverse_programs: 0}\n"
    write_project(folder, {"config.yaml": yaml})
    config = opened(folder, "search.rollouts=4")
    assert (config.search.rollouts, config.search.top_programs, config.search.diverse_programs) == (4, 1, 0)
    assert config.prompt.enforce_blocks


def test_iterations_are_model_calls_and_prompts_show_other_programs_with_one_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = "max_iterations: 6\ndatabase: {num_islands: 1}\ndiff_based_evolution: false\n"
    folder = write_project(tmp_path / "p", FILES | {"config.yaml": yaml})
    texts = [f"```python\ndef guess():\n    return 2.{digit}\n```" for digit in range(8)]
    command, url = shell.Shell(capsys), f"sqlite:///{tmp_path}/runs.db"
    with served(texts) as (address, bodies):
        many = ("evolve", folder, "--base-url", address, "--model", "m", "--store", url, "--json")
        answer = command(*many, "--set", "search.in_flight=1", "--set", "sandbox.workers=1")
        assert answer.code == 0, answer.err
        assert [body.get("n", 1) for body in bodies] == [1] * 6
        assert answer.json["evaluations"] == 6
        # Every call gives the first text: without markers, so it is all of a program.
        assert answer.json["program"] == "def guess():\n    return 2.0\n"
        last = bodies[-1]["messages"][-1]["content"]
        assert "return 2.0" in last
        assert PROGRAM in last  # worse in the one score, and shown beside its child
        bodies.clear()
        training = command(*many, "--for-training", "-n", "8", "--seed", "1", "--set", "sandbox.workers=1")
        assert training.code == 0, training.err
        assert [body["n"] for body in bodies] == [8]
        assert "for training, groups of 8 completions a prompt (search.rollouts)" in training.err
        bodies.clear()
        four = command(*many, "--for-training", "-n", "4", "--seed", "2", "--set", "search.rollouts=4")
        assert four.code == 0, four.err
        assert [body["n"] for body in bodies] == [4]


def rewrite(config: Config, folder: Path, text: str) -> Program | None:
    problem = open_project(folder, open_evaluator=answering(combined_score=0.25).open).loaded.problem
    made = choose_format(problem, config.changed(prompt={"style": "rewrite"}))
    rollout = Rollout("r", "p", 0, 0, text, None, None, None, Sampling(), "stop", 0.0)
    return made.answers(problem, rollout, 1, Program(PROGRAM))[0].program


def test_whole_programs_without_markers_are_taken_unless_the_file_says_that_blocks_are_enforced(
    tmp_path: Path,
) -> None:
    folder = write_project(tmp_path / "p", FILES)
    bare = "def guess():\n    return 3.0\n"
    assert rewrite(opened(folder), folder, f"```python\n{bare}```") == Program(bare)
    write_project(folder, {"config.yaml": "enforce_evolve_blocks: true\n"})
    assert rewrite(opened(folder), folder, f"```python\n{bare}```") is None
    assert rewrite(opened(folder), folder, f"```python\n{BETTER}```") == Program(BETTER)
    free = write_project(tmp_path / "free", {"initial_program.py": bare, "evaluator.py": ONE_SCORE})
    problem = open_project(free, open_evaluator=answering(combined_score=0.25).open).loaded.problem
    assert read_rewrite(problem, f"```python\n{bare}```", Program(bare), False) == Program(bare)


def test_of_several_initial_programs_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_project(tmp_path / "p", FILES | {"initial_program.rs": "fn main() {}\n"})
    command, url = shell.Shell(capsys), f"sqlite:///{tmp_path}/runs.db"
    refused = command("check", folder)
    assert (refused.code, "name one with --initial-program" in refused.err) == (2, True)
    start = tmp_path / "start.py"
    start.write_text(BETTER)
    named = ("--initial-program", start)
    checked = command("check", folder, *named, "--store", url)
    assert checked.code == 0, checked.err
    assert "0.75" in checked.out  # what BETTER scores
    prompts = command("prompts", folder, *named, "--set", "proposer.name=openai")
    assert BETTER in prompts.out
    with served([f"```python\n{PROGRAM}```"]) as (address, bodies):
        server = ("--base-url", address, "--model", "m", "--store", url, "--json", "-n", "1")
        style = ("--set", "prompt.style=rewrite", "--set", "sandbox.workers=1")
        answer = command("evolve", folder, *named, *server, *style)
    assert answer.code == 0, answer.err
    assert BETTER in bodies[0]["messages"][-1]["content"]
    assert (answer.json["program"], answer.json["combined_score"]) == (BETTER, 0.75)
    assert command("resume", "latest", "--store", url).code == 0  # the run knows which program it began with


def test_an_initial_program_of_ones_own_makes_a_problem_of_its_own_and_must_be_there(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", FILES)
    start = tmp_path / "start.rs"
    start.write_text("fn main() {}\n")

    def problem(*overrides: str) -> tuple[str, str]:
        found = open_project(folder, None, overrides, open_evaluator=answering(combined_score=0.25).open)
        assert is_unchanged(found.loaded.problem, found.config)
        return found.loaded.problem.version, found.loaded.problem.suffix

    version, suffix = problem(f"evaluator.initial_program={start}")
    assert (version != problem()[0], suffix) == (True, ".rs")
    with pytest.raises(ProblemError, match=r"gone.py: cannot be read: No such file"):
        problem(f"evaluator.initial_program={tmp_path / 'gone.py'}")
    from evovpo.runs.request import open_request

    with pytest.raises(ConfigError, match=r"initial_program .* is for OpenEvolve projects, and strings/"):
        open_request("strings/date-to-iso", None, [f"evaluator.initial_program={start}"])


def test_prompts_takes_the_options_of_evolve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_project(tmp_path / "p", FILES)
    yaml, bounds = tmp_path / "other.yaml", tmp_path / "bounds.toml"
    yaml.write_text("prompt: {system_message: Guess four.}\n")
    bounds.write_text("[metrics.combined_score]\nlow = 0.0\nhigh = 0.5\n")
    options = ("--openevolve-config", yaml, "--metrics", bounds, "--set", "proposer.name=openai")
    answer = shell.Shell(capsys)("prompts", folder, *options)
    assert answer.code == 0, answer.err
    assert "Guess four." in answer.out
    assert "combined_score 0.5" in answer.out  # 0.25 between 0 and 0.5
