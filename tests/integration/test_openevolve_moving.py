"""Somebody who moves from OpenEvolve finds their calls, prompts, rules and initial program again."""

import functools
import importlib
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import shell
from openevolve.config import DatabaseConfig
from openevolve.database import ProgramDatabase
from openevolve_problems import BETTER, LOAD, PROGRAM, SHAPES, answering, served, write_project
from scripted_proposer import ScriptedProposer

import evovpo
from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError
from evovpo.problem.openevolve.config_file import Effect, read_settings
from evovpo.problem.openevolve.loading import changed_files
from evovpo.problem.openevolve.opening import open_project
from evovpo.prompts.extract_programs import read_rewrite
from evovpo.prompts.request import Attempt, PromptFormat, PromptRequest, ShownProgram
from evovpo.runs.choices import choose_format
from evovpo.runs.replay import verify
from evovpo.runs.request import open_request
from evovpo.runs.start_resume import start
from evovpo.runs.stored import lineage
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    RunStatus,
    Sampling,
    Status,
)

pytestmark = pytest.mark.slow

ONE_SCORE = (
    LOAD
    + """
def evaluate(program_path):
    return {"combined_score": max(0.0, 1 - abs(4 - _load(program_path).guess()) / 4)}
"""
)
FILES = {"initial_program.py": PROGRAM, "evaluator.py": ONE_SCORE}


def opened(folder: Path, *overrides: str) -> Config:
    return open_project(
        folder, None, Config.read_changes(overrides), open_evaluator=answering(combined_score=0.25).open
    ).config


def test_a_project_searches_and_shows_as_openevolve_does_unless_told_otherwise(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", FILES)
    bare = opened(folder)
    found = bare.search
    assert (found.rollouts, found.joins, found.islands, found.elites, found.migration_interval) == (
        1, False, 5, 20, 50,
    )  # fmt: skip
    assert (found.migration_rate, bare.sampling.temperature, bare.run.seed) == (0.1, 0.7, 42)
    assert (bare.prompt.enforce_blocks, Config().prompt.enforce_blocks) == (False, True)
    yaml = "enforce_evolve_blocks: true\nrandom_seed: 3\nllm: {temperature: 0.2}\n"
    yaml += "database: {num_islands: 2, archive_size: 30, exploration_ratio: 0.5, exploitation_ratio: 0.5}\n"
    write_project(folder, {"config.yaml": yaml})
    config = opened(folder, "search.rollouts=4")
    assert (config.search.rollouts, config.search.islands, config.search.elites) == (4, 2, 15)
    assert (config.sampling.temperature, config.run.seed) == (0.2, 3)
    assert {way for way, share in config.search.ways.items() if share} == {"climb", "explore"}
    assert config.prompt.enforce_blocks


def test_iterations_are_model_calls_and_prompts_show_the_best_program(
    tmp_path: Path, command: shell.Shell
) -> None:
    yaml = "max_iterations: 6\ndatabase: {num_islands: 1}\ndiff_based_evolution: false\n"
    yaml += "llm: {temperature: 1.0}\n"
    folder = write_project(tmp_path / "p", FILES | {"config.yaml": yaml})
    texts = [f"```python\ndef guess():\n    return 2.{digit}\n```" for digit in range(8)]
    url = f"sqlite:///{tmp_path}/runs.db"
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
        bodies.clear()
        four = command(*many, "-n", "4", "--seed", "2", "--set", "search.rollouts=4")
        assert four.code == 0, four.err
        assert [body["n"] for body in bodies] == [4]


def rewrite(config: Config, folder: Path, text: str) -> Program | None:
    problem = open_project(folder, open_evaluator=answering(combined_score=0.25).open).problem
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
    problem = open_project(free, open_evaluator=answering(combined_score=0.25).open).problem
    assert read_rewrite(problem, f"```python\n{bare}```", Program(bare), False) == Program(bare)


def test_of_several_initial_programs_one_is_named(tmp_path: Path, command: shell.Shell) -> None:
    folder = write_project(tmp_path / "p", FILES | {"initial_program.rs": "fn main() {}\n"})
    url = f"sqlite:///{tmp_path}/runs.db"
    refused = command("check", folder)
    assert (refused.code, "name one with --set evaluator.initial_program" in refused.err) == (2, True)
    start = tmp_path / "start.py"
    start.write_text(BETTER)
    named = ("--set", f"evaluator.initial_program={start}")
    checked = command("check", folder, *named, "--store", url)
    assert checked.code == 0, checked.err
    assert "0.75" in checked.out  # what BETTER scores
    prompts = command("check", folder, "--prompts", *named)
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
        found = open_project(
            folder, None, Config.read_changes(overrides), open_evaluator=answering(combined_score=0.25).open
        )
        assert changed_files(found.problem, found.config, 0.0) is None
        return found.problem.version, found.problem.suffix

    version, suffix = problem(f"evaluator.initial_program={start}")
    assert (version != problem()[0], suffix) == (True, ".rs")
    with pytest.raises(ProblemError, match=r"gone.py: cannot be read: No such file"):
        problem(f"evaluator.initial_program={tmp_path / 'gone.py'}")
    with pytest.raises(ConfigError, match=r"initial_program is for OpenEvolve projects, and strings/"):
        open_request("strings/date-to-iso", None, Config.read_changes([f"evaluator.initial_program={start}"]))


def test_prompts_takes_the_options_of_evolve(tmp_path: Path, command: shell.Shell) -> None:
    folder = write_project(tmp_path / "p", FILES)
    yaml, bounds = tmp_path / "other.yaml", tmp_path / "bounds.toml"
    yaml.write_text("prompt: {system_message: Guess four.}\n")
    bounds.write_text("[metrics.combined_score]\nlow = 0.0\nhigh = 0.5\n")
    options = ("--config", yaml, "--set", f"evaluator.metrics={bounds}")
    answer = command("check", folder, "--prompts", *options)
    assert answer.code == 0, answer.err
    assert "Guess four." in answer.out
    assert "combined_score 0.5" in answer.out  # 0.25 between 0 and 0.5


EVERY_PLACE = """Metrics:
{metrics}
Fitness {fitness_score}, at {feature_coords} of {feature_dimensions}; look at {improvement_areas}.
{artifacts}
History:
{evolution_history}
{greeting} Improve this {language} program by {{edits}}:
```{language}
{current_program}
```
"""
TEMPLATES = {
    "templates/diff_user.txt": EVERY_PLACE,
    "templates/system_message.txt": "You are a careful packer of circles.\n",
    "templates/top_program.txt": "TOP {program_number} {score} {language} {program_snippet} {key_features}\n",
    "templates/fragments.json": '{"artifact_title": "What it said"}',
}
TEMPLATED = """
prompt:
  template_dir: templates
  num_top_programs: 1
  suggest_simplification_after_chars: 5
  concise_implementation_max_lines: null
  template_variations: {greeting: [Hello., Good day., At last.]}
database: {feature_dimensions: [complexity, near], num_islands: 1}
"""


def their_prompt(
    folder: Path, greeting: str, parent: Evaluation, source: str, others: list[ShownProgram]
) -> tuple[str, str]:
    """Return what OpenEvolve's worker would send for the same programs, variations drawn already."""
    from openevolve.config import Config as Theirs
    from openevolve.database import Program as TheirProgram
    from openevolve.prompt.sampler import PromptSampler

    config = Theirs.from_yaml(folder / "config.yaml").prompt
    config.template_variations = {"greeting": [greeting]}
    records = [
        TheirProgram(
            id=one.program.id, code=one.program.source, metrics=dict(one.evaluation.metrics or ())
        ).to_dict()
        for one in others
    ]
    made = PromptSampler(config).build_prompt(
        current_program=source,
        parent_program=source,
        program_metrics=dict(parent.metrics or ()),
        previous_programs=records[:1],
        top_programs=records[:1],
        inspirations=records[1:],
        language="python",
        diff_based_evolution=True,
        program_artifacts={"feedback": parent.feedback},
        feature_dimensions=["complexity", "near"],
    )
    return made["system"], made["user"]


def templated(tmp_path: Path, yaml: str = TEMPLATED) -> tuple[Path, PromptFormat, Problem]:
    folder = write_project(tmp_path / "p", FILES | TEMPLATES | {"config.yaml": yaml})
    found = open_project(folder, open_evaluator=answering(near=0.5, far=2.0, combined_score=0.25).open)
    return folder, choose_format(found.problem, found.config), found.problem


def judged(problem: Problem, source: str, near: float, feedback: str = "") -> ShownProgram:
    metrics = (("near", near), ("far", 2), ("combined_score", near / 2), ("note", "text"))
    rewards = (0.5,) * len(problem.objectives)
    evaluation = Evaluation(Program(source).id, "v", Status.OK, rewards, feedback, 0.1, "none", None, metrics)
    return ShownProgram(Program(source), evaluation)


def test_prompts_by_templates_of_openevolve_are_those_that_openevolve_makes(tmp_path: Path) -> None:
    folder, made, problem = templated(tmp_path)
    parent = judged(problem, PROGRAM, 0.5, "it said {this} and {{that}}")
    others = [judged(problem, BETTER, 0.9), judged(problem, "class A:\n    def __init__(self): ...\n", 0.1)]
    request = PromptRequest(1, PromptKind.MUTATE, parent, inspirations=tuple(others))
    greetings = set()
    for draw in range(20):
        system, user = (message.content for message in made.messages(problem, replace(request, draw=draw)))
        (greeting,) = (one for one in ("Hello.", "Good day.", "At last.") if one in user)
        greetings.add(greeting)
        assert (system, user) == their_prompt(folder, greeting, parent.evaluation, PROGRAM, others)
        assert [message.content for message in made.messages(problem, replace(request, draw=draw))][1] == user
    assert len(greetings) == 3
    assert system == "You are a careful packer of circles.\n"
    for part in (
        "TOP 1 0.4500 python",
        "What it said",
        "near=0.50",
        "it said {this} and {{that}}",
        "exceeds 5 char",
    ):
        assert part in user
    attempts = (Attempt("return 4 ```\n", "it changes nothing"),)
    _, told = made.messages(problem, replace(request, attempts=attempts))
    assert "### an earlier answer, it changes nothing\n```\nreturn 4 '''\n" in told.content
    # What OpenEvolve has no prompt for is asked in our own words.
    assert "careful packer" not in made.messages(problem, PromptRequest(1))[0].content


def test_what_an_empty_value_switches_off_in_openevolve_is_off(tmp_path: Path) -> None:
    off = TEMPLATED.replace("after_chars: 5", "after_chars:")
    folder, made, problem = templated(tmp_path, off)
    parent = judged(problem, PROGRAM + "#" * 600, 0.5, "said")
    _, user = (
        message.content for message in made.messages(problem, PromptRequest(1, PromptKind.MUTATE, parent))
    )
    (greeting,) = (one for one in ("Hello.", "Good day.", "At last.") if one in user)
    assert user == their_prompt(folder, greeting, parent.evaluation, parent.program.source, [])[1]
    assert "exceeds" not in user


def test_a_run_by_templates_varies_its_prompts_replays_and_knows_what_they_showed(tmp_path: Path) -> None:
    folder, _, _ = templated(tmp_path)
    url = f"sqlite:///{tmp_path}/runs.db"
    settings = ("proposer.name=scripted", "search.evaluations=24", "search.in_flight=1", f"store.url={url}")
    named = open_request(str(folder), None, Config.read_changes([*settings, "sandbox.workers=1"]))

    def write(prompt: Prompt, index: int) -> str:
        line = re.findall(r"^    return .*$", prompt.messages[-1].content, re.MULTILINE)[0]
        return f"<<<<<<< SEARCH\n{line}\n=======\n    return 1.{prompt.sequence}\n>>>>>>> REPLACE"

    with Store.open(url, create=True) as store:
        outcome = start(named, store, ScriptedProposer(write))
        prompts = [event for event in store.history(outcome.run) if isinstance(event, Prompt)]
        verify(outcome.run, store)
        program = store.program(outcome.program_id)
        origins = {one.origin for one in lineage(store, outcome.run, named.problem, program)}
    texts = [prompt.messages[-1].content for prompt in prompts if prompt.messages]
    assert len(texts) == 24
    assert len({one for one in ("Hello.", "Good day.", "At last.") for text in texts if one in text}) > 1
    assert "TOP 1" in texts[-1]
    assert "other run" not in origins  # programs that a prompt only showed are of this run


def test_templates_that_cannot_be_used_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"config.yaml: prompt.template_dir: expected a folder, found no .*/gone"
    ):
        templated(tmp_path, "prompt: {template_dir: gone}\n")
    _, made, problem = templated(tmp_path, "prompt: {template_dir: templates}\n")
    with pytest.raises(
        ConfigError, match=r"templates: a template .*KeyError\('greeting'\).* such as \{metrics\}"
    ):
        made.messages(problem, PromptRequest(1, PromptKind.MUTATE, judged(problem, PROGRAM, 0.5)))


def test_without_templates_the_prompts_are_ours_and_the_keys_say_so(tmp_path: Path) -> None:
    write_project(tmp_path, {"config.yaml": "prompt: {use_template_stochasticity: true}\n"})
    (key,) = read_settings(tmp_path / "config.yaml").keys
    assert (key.effect, "unless there is prompt.template_dir" in key.remark) == (Effect.NONE, True)
    folder, made, _ = templated(
        tmp_path, "prompt: {template_variations: {greeting: [hi]}, use_template_stochasticity: false}\n"
    )
    assert type(made).__name__ == "DiffFormat"
    write_project(folder, {"config.yaml": TEMPLATED})
    keys = {key.name: key for key in read_settings(folder / "config.yaml").keys}
    assert keys["prompt.template_variations"].effect is Effect.MAPPED
    assert "without {changes}" in keys["prompt.template_dir"].remark


MANY = """
import os
from math import pi as PI

WANTED = 4
SCALE = {"near": 1.0}

def _near(value):
    return max(0.0, SCALE["near"] - abs(WANTED - value) / WANTED)
"""


def test_openevolves_words_are_understood_and_its_files_are_written(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    yaml = "diff_based_evolution: false\ndatabase: {num_islands: 1}\n"
    folder = write_project(tmp_path / "p", FILES | {"config_phase_1.yaml": yaml})
    out = folder / "results"
    assert "not read: config_phase_1.yaml;" in command("check", folder).out
    paths = command("check", "p/initial_program.py", "p/evaluator.py").out
    assert "Next:  evovpo evolve p/initial_program.py p/evaluator.py --base-url URL" in paths
    words = ("-c", folder / "config_phase_1.yaml", "-i", "4", "-t", "0.5", "-o", out, "--json")
    with served([f"```python\n{BETTER}```"]) as (address, _):
        server = ("--api-base", address, "--primary-model", "m")
        answer = command("evolve", folder / "initial_program.py", folder / "evaluator.py", *server, *words)
        two = command("evolve", folder, *server, "--secondary-model", "other", "-n", "12", "--json")
        twice = command("evolve", folder, *server, "-c", "a.yaml", "--config", "b.toml")
    assert answer.code == 0, answer.err
    assert "not read" not in answer.err
    assert answer.json["stopped"] == "the target of 0.5 is reached"
    assert (out / "best" / "best_program.py").read_text() == BETTER
    info = json.loads((out / "best" / "best_program_info.json").read_text())
    assert info.keys() == {
        *("id", "generation", "iteration", "timestamp", "parent_id", "metrics", "language", "saved_at")
    }
    assert (info["metrics"], info["generation"], info["language"]) == ({"combined_score": 0.75}, 1, "python")
    assert changed_files(open_project(folder / "evaluator.py").problem, Config(), 0.0) is None
    assert (twice.code, "--config: expected one file, found two" in twice.err) == (2, True)
    assert command("evolve", folder, "--secondary-model", "other").code == 2
    with Store.open(f"sqlite:///{tmp_path}/evovpo.db", create=False) as store:
        models = Config.from_json(store.run(two.json["run"]).config_json).models
    assert [(model.name, model.weight) for model in models] == [("m", 1.0), ("other", 0.2)]
    database = ProgramDatabase(DatabaseConfig(num_islands=1))
    [checkpoint] = (out / "checkpoints").iterdir()
    database.load(str(checkpoint))
    best = database.get_best_program()
    assert (best.code, best.metrics, best.parent_id) == (BETTER, {"combined_score": 0.75}, info["parent_id"])
    imported = command("import-openevolve", out, "--json", "--store", "sqlite:///other.db")
    assert imported.json["programs"] == len(database.programs)
    again = command("resume", answer.json["run"])
    assert again.code == 0
    assert f"evovpo-out/{answer.json['run']}/best/best_program.py" in again.err


def test_a_batch_of_a_noisy_project_has_one_version_of_it_and_goes_on(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    noisy = "import random\n\ndef evaluate(path):\n    return {'first': random.random(), 'second': 1.0}\n"
    write_project(tmp_path / "p", FILES | {"evaluator.py": noisy})
    with served([f"```python\n{BETTER}```"]) as (address, _):
        server = f'proposer.name = "openai"\nproposer.model = "m"\nproposer.base_url = "{address}"\n'
        arms = "".join(f'[[proposers]]\nname = "{name}"\n{server}' for name in ("one", "two"))
        Path("noisy.toml").write_text(
            f'name = "noisy"\nproblems = ["p"]\nevaluations = [2]\nseeds = [0]\n{arms}'
        )
        batch = ("batch", "noisy.toml", "--jobs", "1", "--store", "sqlite:///own.db")
        for _ in range(2):
            answer = command(*batch)
            assert answer.code == 0, answer.err
    with Store.open("sqlite:///own.db") as store:
        assert len(store.problem_versions("p")) == 1
        assert {run.status for run in store.runs_in_full()} == {RunStatus.EXHAUSTED}


def test_files_added_beside_a_project_do_not_stop_its_runs_and_changed_ones_are_named(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(tmp_path / "p", FILES)
    monkeypatch.chdir(folder)
    later = time.time() + 60
    with served([f"```python\n{PROGRAM}```", f"```python\n{BETTER}```"]) as (address, _):
        server = ("--base-url", address, "--model", "m")
        assert command("evolve", ".", *server, "-i", "1").code == 0
        for name in ("notes.txt", "best.py", "phase2.yaml"):
            Path(name).write_text("x = 1\n")
            os.utime(name, (later, later))
        assert command("resume", "latest", "-n", "2").code == 0
        Path("evaluator.py").write_text(ONE_SCORE + "\n")
        os.utime("evaluator.py", (later, later))
        refused = command("resume", "latest", "-n", "3")
    assert refused.code == 2
    assert "(newer files: best.py, evaluator.py, phase2.yaml)" in refused.err


def test_checkpoints_of_several_runs_in_a_folder_count_on(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(tmp_path / "p", FILES)
    monkeypatch.chdir(tmp_path)
    with served([f"```python\n{PROGRAM}```", f"```python\n{BETTER}```"]) as (address, _):
        words = ("evolve", folder, "--base-url", address, "--model", "m", "-o", "out")
        assert command(*words, "-i", "3").code == 0
        assert command("resume", "latest", "-n", "4", "-o", "out").code == 0
        assert command(*words, "-i", "2", "--checkpoint", "out").code == 0
    found = sorted(path.name for path in Path("out/checkpoints").iterdir())
    assert found == ["checkpoint_3", "checkpoint_4", "checkpoint_6"]


def test_output_that_goes_through_tee_does_not_keep_a_run_from_being_resumed(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = ONE_SCORE.replace(
        "    return", "    open(os.path.join(os.path.dirname(__file__), 'data.txt')).read()\n    return"
    )
    folder = write_project(tmp_path / "p", {**FILES, "evaluator.py": "import os\n" + reads, "data.txt": "1"})
    monkeypatch.chdir(folder)
    Path("run.txt").write_text("judging")
    with served([f"```python\n{PROGRAM}```"]) as (address, _):
        begun = command("evolve", ".", "--base-url", address, "--model", "m", "-i", "1")
        assert begun.code == 0, begun.err
        Path("run.txt").write_text("judging, and the rest")
        assert command("resume", "latest", "-n", "2").code == 0
        Path("data.txt").write_text("2")
        refused = command("resume", "latest", "-n", "3")
    assert (refused.code, "the problem changed since" in refused.err) == (2, True)


def test_a_stored_failure_of_the_initial_program_is_judged_again(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = tmp_path / "cause"
    cause.write_text("")
    catching = ONE_SCORE.replace(
        "def evaluate(program_path):\n",
        "def evaluate(program_path):\n"
        f"    if os.path.exists({str(cause)!r}):\n"
        "        return {'combined_score': 0.0, 'error': \"No module named 'toolz'\"}\n",
    )
    folder = write_project(tmp_path / "p", {**FILES, "evaluator.py": "import os\n" + catching})
    monkeypatch.chdir(tmp_path)
    with served([f"```python\n{PROGRAM}```"]) as (address, _):
        words = ("--base-url", address, "--model", "m", "-i", "1", "--allow", f"path={tmp_path}")
        for _ in range(2):
            failed = command("evolve", folder, *words)
            assert "not usable: the initial program fails (No module named 'toolz'" in failed.err
        cause.unlink()
        mended = command("evolve", folder, *words, "--json")
    assert mended.code == 0, mended.err
    assert "not usable" not in mended.err
    assert mended.json["score"] == 0.25


def test_a_model_on_the_command_line_keeps_the_sampling_of_the_file(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", FILES)
    (folder / "config.yaml").write_text(
        "llm:\n  primary_model: theirs\n  top_p: 0.9\n  temperature: 0.4\n  reasoning_effort: low\n"
        "database:\n  exploitation_ratio: 0.6\n"
    )
    (model,) = opened(folder, "proposer.model=mine", "proposer.base_url=http://localhost:1/v1").models
    assert (model.name, model.extra) == ("mine", {"top_p": 0.9, "reasoning_effort": "low"})
    assert opened(folder, "search.strategy=iid").search.ways == {}


def test_a_resumed_run_can_get_other_models_from_a_file(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(tmp_path / "p", FILES)
    monkeypatch.chdir(tmp_path)
    with served([f"```python\n{PROGRAM}```", f"```python\n{BETTER}```"]) as (address, asked):
        for name in ("first", "second"):
            models = f'[[models]]\nname = "{name}"\nbase_url = "{address}"\n'
            Path(f"{name}.toml").write_text(models)
        assert command("evolve", folder, "--config", "first.toml", "-i", "1").code == 0
        resumed = command("resume", "latest", "-n", "2", "--config", "second.toml")
    assert resumed.code == 0, resumed.err
    assert list(dict.fromkeys(request["model"] for request in asked)) == ["first", "second"]


def test_a_folder_where_one_file_is_wanted_is_named(tmp_path: Path, command: shell.Shell) -> None:
    files = {
        "initial_program/tour.cpp": "int main() {}\n",
        "evaluator.py": "def evaluate(path):\n    open(path)\n",
    }
    refused = command("check", write_project(tmp_path / "tsp", files))
    assert refused.code == 3
    assert "judging the initial program" in refused.err
    assert "the evaluator takes one file: name that with --set evaluator.initial_program=FILE" in refused.err


def test_the_best_program_of_a_folder_is_a_folder(
    tmp_path: Path, command: shell.Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, out = write_project(tmp_path / "p", SHAPES["folder"]), tmp_path / "out"
    with served(["no program"]) as (address, _):
        server = ("--base-url", address, "--model", "m")
        answer = command("evolve", folder, *server, "-n", "1", "--output-dir", out)
    assert answer.code == 3, answer.err
    assert "1 of 1 answers held no program, such as 'no program'" in answer.out + answer.err
    for name, text in SHAPES["folder"].items():
        if name.startswith("initial_program/"):
            assert (out / "best" / "best_program" / name.removeprefix("initial_program/")).read_text() == text


def test_an_evaluator_may_be_a_function_and_its_metrics_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = "PI - PI + _near(_load(program_path).guess()) if os else max("
    write_project(tmp_path, {"own_evaluator.py": MANY + ONE_SCORE.replace("max(", own)})
    monkeypatch.syspath_prepend(str(tmp_path))
    function = importlib.import_module("own_evaluator").evaluate
    found = evovpo.evolve(
        evaluator=function,
        initial_program=PROGRAM,
        proposer=lambda messages, n: [f"```python\n{BETTER}```"] * n,
        evaluations=2,
        settings={"prompt.style": "rewrite", "sandbox.workers": 1},
    )
    assert (found.best.source, found.best.metrics) == (BETTER, {"combined_score": 0.75})
    assert evovpo.read_run(found).rows()[-1]["metric:combined_score"] == 0.75
    for fault in (lambda path: {"score": 1.0}, functools.partial(function)):
        with pytest.raises(ConfigError, match=r"give the path of a file"):
            evovpo.evolve(evaluator=fault, initial_program=PROGRAM)
