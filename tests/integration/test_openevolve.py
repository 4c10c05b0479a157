"""OpenEvolve projects as problems: what is in a directory, how it is judged, whole runs of each shape."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import shell
from openevolve_problems import (
    BETTER,
    PLAIN,
    PROGRAM,
    SHAPES,
    Answering,
    answering,
    problem_of,
    served,
    write_project,
)
from scripted_proposer import ScriptedProposer

from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError, SandboxError
from evovpo.judging.evaluator import open_evaluator
from evovpo.problem.openevolve.evaluator import OpenEvolveEvaluator, job_of
from evovpo.problem.openevolve.folder import (
    content_digest,
    input_files,
    is_project,
    own_settings,
    read_project,
)
from evovpo.problem.openevolve.loading import changed_files, load_openevolve
from evovpo.problem.openevolve.metrics import describe
from evovpo.problem.openevolve.opening import open_project
from evovpo.problem.suites import resolve_problem
from evovpo.prompts.bundles import pack, unpack
from evovpo.reports.run_report import run_json
from evovpo.reports.runs_table import bounds_text
from evovpo.runs.choices import check_proposer
from evovpo.runs.replay import verify
from evovpo.runs.request import RunRequest, open_request
from evovpo.runs.start_resume import resume, start
from evovpo.runs.stored import read_run
from evovpo.sandbox import WholeResult
from evovpo.store import Store
from evovpo.types import Feature, Metric, Objective, Program, Status, Trust, content_id

pytestmark = pytest.mark.slow


def test_a_directory_and_its_evaluator_file_are_the_same_project(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"config.yml": "max_iterations: 3\n"})
    project = read_project(folder)
    assert project == read_project(folder / "evaluator.py")
    assert (project.evaluator, project.suffix, project.initial_name) == (
        "evaluator.py",
        ".py",
        "initial_program.py",
    )
    assert project.initial == Program(PROGRAM)
    assert (project.stages, project.has_evaluate, project.metrics) == ((), True, None)
    assert own_settings(folder) == own_settings(folder / "evaluator.py") == folder / "config.yml"
    assert resolve_problem(folder) == folder
    assert resolve_problem(folder / "evaluator.py") == folder / "evaluator.py"
    write_project(folder, {"problem.toml": ""})
    assert not is_project(folder)


def test_an_evaluator_of_another_name_and_programs_of_other_kinds_are_found(tmp_path: Path) -> None:
    folder = write_project(
        tmp_path / "p",
        {
            "judge.py": "from helper import evaluate\n",
            "helper.py": "value = 1\n",
            "initial_sort.rs": "fn main() {}\r\n",
            "initial_sort_dataset.yaml": "a: 1\n",
        },
    )
    project = read_project(folder)
    assert (project.evaluator, project.suffix) == ("judge.py", ".rs")
    assert project.initial.source == "fn main() {}\r\n"
    bundle = read_project(write_project(tmp_path / "b", SHAPES["folder"]))
    assert bundle.suffix == "/"
    assert unpack(bundle.initial.source).keys() == {"main.py", "parts/value.py"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"initial_program.py": PROGRAM, "config.yaml": "max_iterations: 3\n"},
            r"expected evaluator.py, or one Python file that defines evaluate.* found none \(it looks like "
            r"an OpenEvolve project without its evaluator: config.yaml, initial_program.py\); add one",
        ),
        (
            {"evaluator.py": "x = 1\n", "initial_program.py": PROGRAM},
            r"expected a function evaluate\(program_path\)",
        ),
        ({"evaluator.py": "def evaluate(:\n", "initial_program.py": PROGRAM}, "cannot be parsed"),
        ({"evaluator.py": PLAIN}, "expected an initial program"),
        (
            {"evaluator.py": PLAIN, "initial_program.py": PROGRAM, "initial_program.rs": ""},
            "initial_program.rs; name one with --set evaluator.initial_program=FILE, or move all",
        ),
        (
            {"a.py": PLAIN, "b.py": PLAIN, "initial_program.py": PROGRAM},
            r"found a.py, b.py; name it, .*/a.py",
        ),
    ],
)
def test_a_directory_that_cannot_be_used_is_one_clear_error(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(ProblemError, match=message):
        read_project(write_project(tmp_path / "p", files))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", {"evaluator.py": PLAIN})
    (folder / "initial_program.py").write_bytes(b"\xff\xfe")
    with pytest.raises(ProblemError, match=r"initial_program.py: expected UTF-8"):
        read_project(folder)


def digest(folder: Path) -> str:
    project = read_project(folder)
    return content_digest(project, input_files(project))


def test_what_runs_leave_behind_does_not_change_a_project(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["sibling"])
    before = digest(folder)
    write_project(
        folder,
        {
            "evovpo.db": "x",
            "evovpo-1.png": "x",
            "__pycache__/wanted.pyc": "x",
            "openevolve_output/best.py": "x",
            ".git/x": "",
            "config.yaml": "max_iterations: 3\n",
            "README.md": "x",
        },
    )
    assert digest(folder) == before
    for name, text in (("wanted.py", "x = 5\n"), ("data/more.txt", "x"), ("initial_program.py", BETTER)):
        write_project(folder, {name: text})
        after = digest(folder)
        assert after != before
        before = after


# ---------------------------------------------------------------- loading, with a sandbox that only answers


DECLARED = "[metrics.near]\nlow = 0\nhigh = 1\n[metrics.large]\n"


def test_an_unmodified_project_is_searched_for_one_number(tmp_path: Path) -> None:
    yaml = "database: {feature_dimensions: [eval_time, complexity, diversity], feature_bins: 5}\n"
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"config.yaml": yaml})
    sandbox = answering(near=0.25, eval_time=1.0, combined_score=0.5)
    opened = open_project(folder, open_evaluator=sandbox.open)
    problem, initial = opened.problem, opened.initial
    said = "higher is better; the initial program's is 0.5"
    assert problem.objectives == (Objective("combined_score", said),)
    assert problem.has_one_score
    assert problem.evaluator.metrics == (Metric("combined_score", 0.5, 1.0, is_soft=True),)
    assert problem.evaluator.left_out == ("eval_time", "complexity", "diversity")
    assert problem.features == (Feature("metric:eval_time", bins=5), Feature("length", bins=5))
    assert (initial.rewards, initial.metrics) == (
        (0.5,),
        (("near", 0.25), ("eval_time", 1.0), ("combined_score", 0.5)),
    )
    first = opened.remarks[0]
    assert first.startswith("searched for combined_score alone")
    assert "A metrics.toml makes objectives of them (`evovpo check --bounds RUN` writes one)" in first
    assert not any("HIGHER" in remark or "were learned" in remark for remark in opened.remarks)
    assert problem_of(folder, frozen=[problem], near=9.0).evaluator.metrics == problem.evaluator.metrics
    lacks = load_openevolve(
        folder, opened.config, opened.settings, open_evaluator=answering(combined_score=1.0).open
    )
    assert any(remark.startswith("feature dimension 'eval_time': the initial") for remark in lacks.remarks)


def test_a_stored_problem_of_the_same_files_with_other_objectives_is_not_taken_up(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"])
    now = problem_of(folder, near=0.25, large=1.0)
    # As versions before stored it: every number an objective, and nothing said of one that ranks alone.
    metrics = (Metric("near", 0.25, 0.5, is_soft=True), Metric("large", 1.0, 2.0, is_soft=True))
    evaluator = dataclasses.replace(now.evaluator, metrics=metrics, left_out=None)
    names = tuple(Objective(metric.name, describe(metric)) for metric in metrics)
    old = dataclasses.replace(now, evaluator=evaluator, objectives=names)
    values = dataclasses.asdict(old)
    del values["evaluator"]["left_out"]
    for outside in ("id", "version", "folder", "groups"):
        del values[outside]
    content = (digest(folder), "{}")
    old = dataclasses.replace(old, version=content_id(json.dumps(values, sort_keys=True), *content))
    assert changed_files(old, Config(), 0.0) is None  # so that its runs can be taken up
    assert problem_of(folder, frozen=[old], near=0.25, large=1.0) == now


def test_declared_metrics_are_objectives_and_all_others_stay_raw(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"metrics.toml": DECLARED})
    sandbox = answering(near=0.25, large=1.0, c1=3.0, combined_score=0.25)
    loaded = load_openevolve(folder, open_evaluator=sandbox.open)
    problem = loaded.problem
    assert problem.objectives == (
        Objective("near", "the higher its measured value, the higher the reward; 0 gives 0, 1 gives 1"),
        Objective(
            "large",
            "the higher its measured value, the higher the reward; 1, the initial program's, gives 0.5",
        ),
    )
    assert not problem.has_one_score
    assert problem.evaluator.metrics == (Metric("near", 0, 1), Metric("large", 1, 2, is_soft=True))
    assert (problem.id, problem.suffix, problem.trust, problem.entry) == ("p", ".py", Trust.LOW, "")
    assert problem.seeds == (Program(PROGRAM),)
    assert loaded.initial.rewards == (0.25, 0.5)
    assert loaded.initial.metrics == (("near", 0.25), ("large", 1.0), ("c1", 3.0), ("combined_score", 0.25))
    assert loaded.initial.problem_version == problem.version
    assert any("bounds of large were learned" in remark for remark in loaded.remarks)
    assert any("low trust" in remark for remark in loaded.remarks)


def test_a_direction_that_is_said_although_it_is_the_usual_one_keeps_the_version(tmp_path: Path) -> None:
    bounds = "[metrics.near]\nlow = 0\nhigh = 1\n"
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"metrics.toml": bounds})
    first = problem_of(folder, near=0.25)
    for text, is_same in (("false", True), ("true", False)):
        write_project(folder, {"metrics.toml": f"{bounds}lower_is_better = {text}\n"})
        assert (problem_of(folder, near=0.25).version == first.version) is is_same


def test_bounds_once_learned_stay_although_the_evaluator_is_noisy(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"])
    first = problem_of(folder, near=0.25)
    silent = answering(near=0.5)
    again = load_openevolve(folder, frozen=[first], open_evaluator=silent.open)
    assert again.problem == first
    assert again.initial is None
    assert silent.jobs == []
    # Another time limit is another version, on the same scale; other files are another scale.
    patient = Config.load(None, {"evaluator.timeout_seconds": 9.0})
    slower = problem_of(folder, patient, [first], near=0.5)
    assert slower.version != first.version
    assert slower.evaluator.metrics == first.evaluator.metrics
    write_project(folder, {"initial_program.py": BETTER})
    assert problem_of(folder, frozen=[first], near=0.5).evaluator.metrics[0].low == 0.5


def test_declared_bounds_make_another_version_and_folders_may_move(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"])
    first = problem_of(folder, near=0.25)
    moved = problem_of(write_project(tmp_path / "q" / "p", SHAPES["plain"]), frozen=[first], near=0.9)
    assert moved.version == first.version
    assert changed_files(first, Config(), 0.0) is None
    write_project(folder, {"metrics.toml": "[metrics.near]\nlow = 0\nhigh = 1\n"})
    assert changed_files(first, Config(), 0.0) is not None
    declared = problem_of(folder, frozen=[first], near=0.25)
    assert declared.version != first.version


def test_the_initial_program_is_judged_once_unless_a_threshold_stops_it(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["cascade"])
    sandbox = answering(near=0.25)
    opened = open_project(folder, open_evaluator=sandbox.open)
    assert [(job.functions, job.thresholds) for job in sandbox.jobs] == [
        (("evaluate_stage1", "evaluate_stage2"), (0.5,))
    ]
    assert opened.judged == (opened.initial,)
    # Bounds come from all stages, also where a threshold stops the initial program.
    stopped = Answering(
        lambda job: WholeResult(
            Status.OK,
            metrics=(("near", 0.25),) if job.thresholds == (0.5,) else (("near", 0.25), ("far", 2.0)),
            stopped=int(job.thresholds == (0.5,)),
        )
    )
    opened = open_project(folder, open_evaluator=stopped.open)
    assert [job.thresholds for job in stopped.jobs] == [(0.5,), (-1e308,)]
    assert dict(opened.initial.metrics) == {"near": 0.25, "far": 2.0}
    assert dict(opened.judged[0].metrics) == {"near": 0.25}
    assert opened.judged[0].problem_version == opened.problem.version
    off = load_openevolve(
        folder, Config.load(None, {"evaluator.thresholds": []}), open_evaluator=sandbox.open
    )
    assert sandbox.jobs[1].functions == ("evaluate",)
    assert off.problem.version != opened.problem.version


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"status": Status.ERROR, "detail": "no jax"}, ProblemError, "expected a judgement .* no jax"),
        ({"status": Status.TIMEOUT}, ProblemError, "found a failure: timeout"),
        ({"metrics": (("why", "broken"), ("ok", True))}, ProblemError, 'found why = "broken", ok = true'),
        ({}, ProblemError, "expected at least one finite number .* found nothing"),
        ({"status": Status.SANDBOX_ERROR, "detail": "no space"}, SandboxError, "not be run: .*no space"),
    ],
)
def test_an_evaluator_that_fails_its_own_program_is_one_clear_error(
    tmp_path: Path, answer: dict[str, Any], error: type[Exception], message: str
) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"])
    with pytest.raises(error, match=message):
        load_openevolve(
            folder, open_evaluator=Answering(lambda job: WholeResult(**{"status": Status.OK} | answer)).open
        )


def test_settings_of_the_yaml_give_way_to_files_and_overrides(tmp_path: Path) -> None:
    yaml = "max_iterations: 7\nrandom_seed: 3\n"
    yaml += "prompt: {system_message: Pack circles.}\nevaluator: {timeout: 11}\n"
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"config.yaml": yaml})
    mine = tmp_path / "mine.toml"
    mine.write_text("[run]\nseed = 4\n[search]\nevaluations = 8\n")
    opened = open_project(folder, mine, {"search.evaluations": 9}, open_evaluator=answering(a=1.0).open)
    assert (opened.config.search.evaluations, opened.config.run.seed) == (9, 4)
    assert opened.config.search.islands == 5
    assert opened.problem.limits.wall_seconds == 11.0
    assert opened.problem.statement == "Pack circles."
    without = open_project(folder, yaml=Path("none"), open_evaluator=answering(a=1.0).open)
    assert without.config.search.evaluations == Config().search.evaluations
    assert without.settings.keys == ()


def test_models_that_the_user_names_take_the_place_of_those_in_the_yaml(tmp_path: Path) -> None:
    yaml = "llm: {models: [{name: a, weight: 2, api_base: 'http://localhost:1/v1'}, {name: b}]}\n"
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"config.yaml": yaml})
    mine = tmp_path / "mine.toml"

    def models(file: Path | None, *overrides: str) -> list[tuple[str, str]]:
        config = open_project(
            folder, file, Config.read_changes(overrides), open_evaluator=answering(a=1.0).open
        ).config
        found = [(model.name, model.base_url or "") for model in config.models]
        return found or [(config.proposer.model or "", config.proposer.base_url or "")]

    assert models(None) == [("a", "http://localhost:1/v1"), ("b", "")]
    assert models(None, "proposer.base_url=http://localhost:2/v1") == [("a", ""), ("b", "")]
    assert models(None, "proposer.model=c") == [("c", "")]
    mine.write_text('[proposer]\nmodel = "d"\n')
    assert models(mine) == [("d", "")]
    mine.write_text('[[models]]\nname = "e"\n')
    assert models(mine) == [("e", "")]
    write_project(folder, {"config.yaml": "llm: {models: [{name: a}]}\n"})
    assert models(mine) == [("e", "")]
    assert models(None) == [("a", "")]


# ---------------------------------------------------------------- judging, with a sandbox that only answers


def test_feedback_has_errors_faults_artifacts_and_the_end_of_what_was_printed_all_capped(
    tmp_path: Path,
) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"metrics.toml": DECLARED})
    problem = problem_of(folder, near=0.25, large=1.0)
    answer = WholeResult(
        Status.OK,
        metrics=(("near", "nan"), ("note", "too slow")),
        artifacts=(("advice", "é" * 990), ("more", "x" * 2000)),
        log="a" * 1000 + "end",
        isolation="imagined",
    )
    evaluation = OpenEvolveEvaluator(problem, Answering(lambda job: answer)).evaluate(Program(BETTER))
    assert evaluation.rewards == (0.0, 0.0)
    assert (evaluation.status, evaluation.trust, evaluation.isolation) == (Status.OK, Trust.LOW, "imagined")
    lines = evaluation.feedback.split("\n")
    assert lines[:3] == [
        'metric near: expected a finite number, found "nan"; its reward is 0',
        "metric large: expected a finite number, found nothing; its reward is 0",
        "note: too slow",
    ]
    assert lines[3].startswith("advice: éé")
    assert lines[4] == "[... 1005 characters left out ...]"
    assert lines[5:7] == ["x" * 1334, "printed:"]
    assert (lines[7], lines[8]) == ("a" * 166, "[... 503 characters left out ...]")
    assert lines[9] == "a" * 331 + "end"


def test_a_failure_is_the_zero_vector_and_keeps_what_was_measured(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"] | {"metrics.toml": DECLARED})
    problem = problem_of(folder, near=0.25, large=1.0)
    failed = WholeResult(Status.CRASH, metrics=(("near", 1.0),), detail="signal 11")
    evaluation = OpenEvolveEvaluator(problem, Answering(lambda job: failed)).evaluate(Program(BETTER))
    assert (evaluation.status, evaluation.rewards) == (Status.CRASH, (0.0, 0.0))
    assert evaluation.feedback == "crash: signal 11"
    assert evaluation.metrics == (("near", 1.0),)
    broken = WholeResult(Status.SANDBOX_ERROR, detail="no memory")
    again = OpenEvolveEvaluator(problem, Answering(lambda job: broken)).evaluate(Program(BETTER))
    assert again.rewards is None


def test_a_program_is_given_under_a_name_of_its_own() -> None:
    program = Program("text")
    job = job_of(program, ".rs", "judge.py", ())
    assert (job.entry, job.files) == (f"program_{program.id}.rs", {f"program_{program.id}.rs": "text"})
    assert (job.evaluator, job.functions, job.thresholds) == ("judge.py", ("evaluate",), ())
    folder = job_of(Program(pack({"a/b.py": "x\n"})), "/", "e.py", (0.5, 0.75))
    assert (folder.entry, folder.files) == ("", {"a/b.py": "x\n"})
    assert folder.functions == ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")
    assert job_of(Program("no bundle"), "/", "e.py", ()) is None


# ---------------------------------------------------------------- whole runs in the real sandbox


def test_arguments_of_the_configuration_reach_evaluate_and_make_another_problem(tmp_path: Path) -> None:
    evaluator = (
        "def evaluate(path, size, *, options=None):\n    return {'combined_score': size + len(options)}\n"
    )
    folder = write_project(tmp_path / "p", {"initial_program.py": PROGRAM, "evaluator.py": evaluator})
    versions = set()
    for size in (3, 4):
        arguments = f"evaluator:\n  evaluator_args: {{size: {size}, options: {{deep: [1, null]}}}}\n"
        write_project(folder, {"config.yaml": arguments})
        opened = open_project(folder)
        assert opened.initial is not None
        assert dict(opened.initial.metrics or ()) == {"combined_score": size + 1}
        assert changed_files(opened.problem, opened.config, 0.0) is None
        assert changed_files(opened.problem, Config(), 0.0) is not None
        versions.add(opened.problem.version)
    assert len(versions) == 2
    write_project(folder, {"config.yaml": "evaluator: {evaluator_args: {sise: 3}}\n"})
    with pytest.raises(ProblemError, match="unexpected keyword argument 'sise'"):
        open_project(folder)


def requested(folder: Path, url: str, evaluations: int = 4) -> RunRequest:
    settings = ("proposer.name=scripted", "prompt.style=rewrite", f"search.evaluations={evaluations}")
    settings += ("search.rollouts=2", "search.islands=1", "search.in_flight=1", "sandbox.workers=2")
    changes = Config.read_changes([*settings, "evaluator.timeout_seconds=20", f"store.url={url}"])
    return open_request(str(folder), None, changes)


MAIN = SHAPES["folder"]["initial_program/main.py"]


def fenced(text: str) -> str:
    return f"```\n{text}```"


REPLIES = {
    "text": [fenced("please, few words\n"), fenced("Short.\n")],
    "folder": [
        fenced(pack({"main.py": MAIN, "parts/value.py": f"VALUE = {value}\n"})) for value in (2.0, 3.5)
    ],
}


def replies(shape: str) -> list[str]:
    good = REPLIES.get(shape, [f"```python\n{PROGRAM.replace('1.0', value)}```" for value in ("2.0", "3.5")])
    if shape in REPLIES:
        return good * 2
    exits = PROGRAM.replace("return 1.0", "import os; os._exit(0)")
    return [*good, f"```python\n{exits}```", "no program at all"]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_project_of_each_shape_runs_unmodified(tmp_path: Path, shape: str) -> None:
    folder = write_project(tmp_path / shape, SHAPES[shape])
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    url = f"sqlite:///{tmp_path}/evovpo.db"
    named = requested(folder, url)
    with Store.open(url, create=True) as store:
        outcome = start(named, store, ScriptedProposer(replies(shape)))
        view = read_run(store, outcome.run)
        verify(outcome.run, store)
    assert (outcome.evaluations, outcome.trust, outcome.solved) == (4, "low", False)
    assert view.summary.by_status[Status.OK] >= 2
    assert view.evaluation.trust is Trust.LOW
    assert outcome.best_mean_reward > 0.5  # the initial program has one half in every objective
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files
    if shape not in REPLIES:
        assert view.summary.by_status.keys() - {Status.OK} == {Status.BAD_OUTPUT}


def test_a_run_is_resumed_reported_and_refused_where_its_project_changed(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "plain", SHAPES["plain"])
    url = f"sqlite:///{tmp_path}/evovpo.db"
    named = requested(folder, url)
    with Store.open(url, create=True) as store:
        outcome = start(named, store, ScriptedProposer(replies("plain")))
        assert outcome.score == 0.875
        assert outcome.program == PROGRAM.replace("1.0", "3.5")
        assert outcome.executed == 3  # the initial program was judged when the project was opened
        view = read_run(store, outcome.run)
        assert view.outcome(0.0)._replace(seconds=0, stopped="") == outcome._replace(seconds=0, stopped="")
        assert outcome.program_id == outcome.best_mean_program_id == Program(outcome.program).id
        assert outcome.program_mean_reward == outcome.best_mean_reward
        shown = run_json(view, [])
        assert shown["best_metrics"] == {"near": 0.875, "large": 3.5, "combined_score": 0.875}
        assert shown["score_curve"] == [
            {"evaluations": 0, "score": 0.25},
            {"evaluations": 1, "score": 0.5},
            {"evaluations": 2, "score": 0.875},
        ]
        assert "[metrics.near]\nlow = 0.25\nhigh = 1.03125\n" in bounds_text(store, outcome.run)
        again = requested(folder, url)
        assert again.problem == named.problem
        assert again.judged == ()
        assert resume(outcome.run, store).score == 0.875
        write_project(folder, {"evaluator.py": PLAIN + "\n"})
        with pytest.raises(ProblemError, match="the problem changed since the run started"):
            resume(outcome.run, store)


APART = {
    "initial_program.py": PROGRAM,
    "evaluator.py": PLAIN.replace('"combined_score": near', '"combined_score": -value'),
    "metrics.toml": "[metrics.near]\n[metrics.large]\n",
}
"""Its `combined_score` falls where the reward vector rises."""


def test_the_best_by_score_and_the_best_by_mean_reward_are_told_apart(
    tmp_path: Path, command: shell.Shell
) -> None:
    folder = write_project(tmp_path / "apart", APART)
    url = f"sqlite:///{tmp_path}/evovpo.db"
    named = requested(folder, url, 2)
    with Store.open(url, create=True) as store:
        scripted = ScriptedProposer(replies("plain"))
        outcome = start(named, store, scripted)
        assert read_run(store, outcome.run).outcome(0.0)._replace(seconds=0) == outcome._replace(seconds=0)
    # The initial program has the highest combined_score, -1; 3.5 is the best for the search.
    best = Program(PROGRAM.replace("1.0", "3.5"))
    assert (outcome.program, outcome.program_id) == (PROGRAM, Program(PROGRAM).id)
    assert (outcome.score, outcome.program_mean_reward) == (-1.0, 0.5)
    assert outcome.best_mean_program_id == best.id
    assert outcome.best_mean_reward > 0.5
    found = command("show", "latest", "--store", url, "--json", "--no-png").json
    assert (found["program_mean_reward"], found["best_mean_reward"]) == (0.5, outcome.best_mean_reward)
    assert found["lineage"][0]["program_id"] == found["program_id"]
    shown = " ".join(command("show", "latest", "--store", url, "--no-png").out.split())
    assert "best combined_score -1 (the program above; its mean reward: 0.500)" in shown
    assert f"best mean reward {outcome.best_mean_reward:.3f} (program {best.id}, not the one above)" in shown
    assert f"Best mean reward of the run against evaluations (program {best.id}, not the one shown)" in shown
    assert "Lineage of the program shown, the best by combined_score" in shown


def test_in_proxy_mode_the_candidate_is_apart_and_its_judgement_trusted(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "plain", SHAPES["plain"])
    config = Config.load(
        None, {"evaluator.mode": "proxy", "sandbox.workers": 1, "evaluator.timeout_seconds": 10.0}
    )
    loaded = load_openevolve(folder, config)
    assert loaded.problem.trust is Trust.HIGH
    forger = PROGRAM.replace("return 1.0", "import sys; sys.modules['__main__'].__dict__.clear(); return 1e9")
    with open_evaluator(loaded.problem, config) as evaluator:
        better, forged = (evaluator.evaluate(Program(source)) for source in (BETTER, forger))
    assert better.metrics == (("near", 0.75), ("large", 3.0), ("combined_score", 0.75))
    assert (better.trust, better.status) == (Trust.HIGH, Status.OK)
    assert dict(forged.metrics or ()).get("near", 0.0) == 0.0


# ---------------------------------------------------------------- the command line


def test_evolving_a_project_with_a_model_behind_a_server(tmp_path: Path, command: shell.Shell) -> None:
    yaml = "llm: {api_base: 'http://localhost:9/v1', models: [{name: a, top_p: 0.5}, {name: b}]}\n"
    folder = write_project(tmp_path / "plain", SHAPES["plain"] | {"config.yaml": yaml + "unheard_of: 1\n"})
    url = f"sqlite:///{tmp_path}/evovpo.db"
    with served([f"```python\n{BETTER}```"] * 2) as (address, bodies):
        answer = command(
            *("evolve", folder, "--base-url", address, "--model", "m", "--store", url, "--json", "-n", "2"),
            *("--set", "search.rollouts=2", "--set", "prompt.style=rewrite", "--set", "sandbox.workers=1"),
        )
    assert answer.code == 0, answer.err
    assert {body["model"] for body in bodies} == {"m"}
    found = answer.json
    assert (found["trust"], found["combined_score"], found["program"]) == ("low", 0.75, BETTER)
    # Two like answers, and a known initial program.
    assert (found["evaluations"], found["executed"]) == (2, 1)
    assert answer.err.count("unheard_of") == 1
    # Only what does nothing is listed before a run, and where to read of the rest.
    assert "without effect, 1 unknown; all" in answer.err
    assert f"all of them:  evovpo check {folder}\n" in answer.err
    assert "llm.models[].top_p" not in answer.err
    shown = command("show", "latest", "--store", url, "--no-png")
    assert shown.code == 0
    for text in ("best combined_score", "0.75", "trust", "Best combined_score against evaluations"):
        assert text in shown.out


def test_check_shows_metrics_trust_and_what_each_key_does(tmp_path: Path, command: shell.Shell) -> None:
    yaml = "max_iterations: 7\ncheckpoint_interval: 5\nunheard_of: 1\n"
    folder = write_project(tmp_path / "plain", SHAPES["plain"] | {"config.yaml": yaml})
    answer = command("check", folder, "--store", f"sqlite:///{tmp_path}/none.db")
    assert answer.code == 0
    for text in (
        "search.evaluations = 7",
        "without effect",
        "unknown",
        "low trust",
        "combined_score",
        "0.25",
    ):
        assert text in answer.out
    assert not (tmp_path / "none.db").exists()


def test_evolving_needs_a_model_that_can_write_programs(tmp_path: Path, command: shell.Shell) -> None:
    folder = write_project(tmp_path / "plain", SHAPES["plain"])
    url = f"sqlite:///{tmp_path}/none.db"
    answer = command("evolve", folder, "--store", url)
    assert answer.code == 2
    assert "give --base-url URL --model NAME" in answer.err
    assert not (tmp_path / "none.db").exists()
    config = Config.load(None, {"proposer.name": "openai"})
    check_proposer(problem_of(folder, near=1.0), config)
    with pytest.raises(ConfigError, match="is for OpenEvolve projects"):
        open_request("strings/date-to-iso", folder / "config.yaml")
