"""Arms and studies on a domain of toy tasks: what is equal between arms, and that a study can go on."""

import ast
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tiny_models import END_ID, write_tiny_folder

import trainer.experiments.study_file
import trainer.experiments.study_trainings
from evovpo.errors import ConfigError
from evovpo.experiments.pool import FailedTask, Message, PoolTask, TaskDone
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.arm_training import (
    TrainingArm,
    TrainingBudget,
    _choose_parent,
    load_start_model,
    measure,
    train,
)
from trainer.domains.domain import Split
from trainer.domains.maze import MAZE_MODEL
from trainer.experiments.study_export import Export
from trainer.experiments.study_file import bundled_studies, read_bundled, read_study
from trainer.experiments.study_results import StudyResults
from trainer.experiments.study_run import run_study
from trainer.experiments.study_trainings import TrainingJob
from trainer.reports.study_report import report_json, write_report

pytestmark = pytest.mark.slow

SEPARATOR_ID = 4


class ToyTask(NamedTuple):
    key: str
    wanted: int


class ToyFamily:
    """Answers are tokens up to a separator; the components: it holds the wanted token, and it is short."""

    name = "toy"
    components = ("wanted", "short")
    shows_parents = True

    def __init__(self, folder: Path) -> None:
        self.model_folder = folder

    def max_tokens(self, answers: int) -> int:
        return 6 * answers

    def tasks(self, split: Split, count: int, seed: int = 0) -> list[ToyTask]:
        return [ToyTask(f"{split}-{seed}-{i}", 5 + (i + len(split)) % 20) for i in range(count)]

    def prompt_ids(self, task: ToyTask, answers: int, parent: str | None = None) -> tuple[int, ...]:
        return (30 + answers, task.wanted, *(() if parent is None else ast.literal_eval(parent)), 3)

    def judge(self, task: ToyTask, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        found, start = [], 0
        ids = [*completion_ids, END_ID]
        for place, token in enumerate(ids):
            if token in (SEPARATOR_ID, END_ID) and len(found) < answers and start <= place:
                part = ids[start:place]
                rewards = (float(task.wanted in part), float(0 < len(part) < 3))
                found.append(
                    JudgedAnswer(repr(part), rewards, (start, place))
                    if part
                    else JudgedAnswer(None, (0.0, 0.0), (start, place))
                )
                start = place + 1
        return found + [JudgedAnswer(None, (0.0, 0.0))] * (answers - len(found))


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> ToyFamily:
    return ToyFamily(write_tiny_folder(tmp_path_factory.mktemp("toy")))


VPO = TrainingArm("vpo", 2, 4, learning_rate=1e-3)
BUDGET = TrainingBudget(tokens=400, prompts=3, tasks=7)


def test_a_training_follows_from_arm_seed_and_domain(domain: ToyFamily) -> None:
    def weights(arm: TrainingArm, seed: int) -> torch.Tensor:
        model, _ = train(arm, domain, BUDGET, seed)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    first = weights(VPO, 0)
    assert torch.equal(first, weights(VPO, 0))
    assert not torch.equal(first, weights(VPO, 1))
    assert not torch.equal(first, weights(TrainingArm("multi-rlvr", 2, 4, learning_rate=1e-3), 0))
    _, log = train(VPO, domain, BUDGET, 0)
    assert log[-2]["tokens"] < BUDGET.tokens <= log[-1]["tokens"]
    assert [row["step"] for row in log] == list(range(len(log)))


def test_training_raises_what_it_rewards(domain: ToyFamily) -> None:
    budget = TrainingBudget(tokens=6000, prompts=4, tasks=20)
    model, log = train(TrainingArm("grpo", 1, 8, learning_rate=3e-3), domain, budget, 0)
    assert np.mean([row["mean_reward"] for row in log[-3:]]) > log[0]["mean_reward"] + 0.1
    tasks = domain.tasks("test", 10)
    before, after = (
        np.mean([task.measure.best_at_k([1]) for task in measure(asked, domain, tasks, 1, 8, 0)])
        for asked in (load_start_model(domain), model)
    )
    assert after > before + 0.1


def test_arms_may_mix_single_answers_and_hold_on_to_the_start(domain: ToyFamily) -> None:
    arm = TrainingArm("vpo", 2, 4, learning_rate=1e-3, kl=0.1, single_share=0.5)
    _, log = train(arm, domain, BUDGET, 0)
    assert log[-1]["kl"] > 0


class Recorded(ToyFamily):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[tuple[ToyTask, int, str | None]] = []
        self.judged: dict[ToyTask, list[list[JudgedAnswer]]] = {}

    def prompt_ids(self, task: ToyTask, answers: int, parent: str | None = None) -> tuple[int, ...]:
        if parent is not None:
            first = [answer for chain in self.judged[task] for answer in chain]
            assert parent in {answer.key for answer in first}
            assert not any(answer.is_right for answer in first)
        self.asked.append((task, answers, parent))
        return super().prompt_ids(task, answers, parent)

    def judge(self, task: ToyTask, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        found = super().judge(task, completion_ids, answers)
        self.judged.setdefault(task, []).append(found)
        return found


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_tasks_are_asked_about_again_with_a_parent_or_others_take_their_place(
    domain: ToyFamily, share: float
) -> None:
    recorded = Recorded(domain.model_folder)
    arm = TrainingArm("vpo", 2, 4, learning_rate=1e-3, parent_share=share)
    _, log = train(arm, recorded, TrainingBudget(tokens=1, prompts=8, tasks=60), 0)
    again = round(8 * share)
    first, second = recorded.asked[: 8 - again], recorded.asked[-again:]
    assert all(parent is None for _, _, parent in first)
    unsolved = [
        task
        for task, _, _ in first
        if not any(answer.is_right for chain in recorded.judged[task][:4] for answer in chain)
    ]
    shown = [task for task, _, parent in second if parent is not None]
    assert shown == unsolved[:again]
    others = [task for task, _, parent in second if parent is None]
    assert not set(others) & {task for task, _, _ in first}
    assert log[0]["parent_share"] == len(shown) / 8


def test_a_parent_that_does_not_fit_into_the_context_is_not_shown(domain: ToyFamily) -> None:
    class Long(ToyFamily):
        def prompt_ids(self, task: ToyTask, answers: int, parent: str | None = None) -> tuple[int, ...]:
            return (5,) * (4 if parent is None else context)

        def judge(self, task: ToyTask, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
            return [JudgedAnswer("[5]", (0.0, 1.0), (0, 1))] * answers

    arm = TrainingArm("grpo", 1, 4, parent_share=0.5)
    context = load_start_model(domain).config.max_position_embeddings
    _, log = train(arm, Long(domain.model_folder), TrainingBudget(tokens=1, prompts=4, tasks=9), 0)
    assert log[0]["parent_share"] == 0.0


def test_a_parent_is_chosen_by_lexicase_among_the_different_readable_answers() -> None:
    def answer(key: str | None, *rewards: float) -> JudgedAnswer:
        return JudgedAnswer(key, rewards)

    rng = np.random.default_rng(0)
    nothing = answer(None, 0.0, 0.0)
    # `a` and `b` are best on one component each, `c` is on none; `a` is there three times.
    chains = [[answer("a", 1.0, 0.0), answer("a", 1.0, 0.0)], [answer("a", 1.0, 0.0), nothing],
              [answer("b", 0.0, 0.5), answer("c", 0.9, 0.4)]]  # fmt: skip
    drawn = [_choose_parent(chains, rng) for _ in range(400)]
    assert set(drawn) == {"a", "b"}
    assert 150 < drawn.count("a") < 250
    assert _choose_parent([[nothing, nothing]], rng) is None
    assert _choose_parent([*chains, [answer("d", 1.0, 1.0)]], rng) is None


def test_chosen_tasks_are_permutations_one_after_the_other() -> None:
    from trainer.domains.arm_training import _chosen_tasks

    order = [task for step in range(7) for task in _chosen_tasks(7, step, 3, seed=5)]
    assert [sorted(order[i : i + 7]) for i in (0, 7, 14)] == [list(range(7))] * 3
    assert order[:7] != order[7:14]


def test_measuring_uses_whole_chains_and_the_same_seeds_for_every_model(domain: ToyFamily) -> None:
    tasks = domain.tasks("validation", 4)
    model = load_start_model(domain)

    def answered(seed: int) -> list[tuple[tuple[str | None, ...], ...]]:
        return [task.measure.keys_C_m for task in measure(model, domain, tasks, 2, 7, seed)]

    assert measure(model, domain, tasks, 2, 7, seed=3)[0].measure.rewards_C_m_D.shape == (4, 2, 2)
    assert answered(3) == answered(3)
    assert answered(3) != answered(4)


CHANGES = {
    "training.tokens": 150, "training.prompts": 2, "training.tasks": 5, "tuning.learning_rates": [1e-3, 3e-3],
    "tuning.kls": [0], "tuning.tasks": 3, "tuning.ks": [1, 2], "test.tasks": 4, "seeds": 2, "ks": [1, 2, 6],
}  # fmt: skip
ARMS = ("grpo", "vpo")


MAZES = """
name = "mazes"
primary = "E_w best of 8 routes, grpo minus start"
domain = "maze"
start = "start"
seeds = 1
ks = [4, 8]
references = ["start"]
training = { tokens = 200, prompts = 2, tasks = 4 }
tuning = { learning_rates = [1e-3], kls = [0], tasks = 2, ks = [8] }
test = { tasks = 2, evaluations = 8, answers_per_ask = 4 }
arms = [{ name = "start", model = "start" }, { name = "grpo", objective = "grpo", rollouts = 4 }]
"""


def run_here(
    tasks: Sequence[PoolTask],
    jobs: int | None,
    on_message: Callable[[Message], None],
    begun: list[str] | None = None,
) -> list[FailedTask]:
    for task in tasks:
        if begun is not None:
            begun.append(task.name)
        on_message(TaskDone(task.name, task.run(lambda value: None)))
    return []


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, domain: ToyFamily) -> list[str]:
    """Make studies run the toy domain in this process; returns the names of the tasks that begin."""
    begun: list[str] = []

    @contextmanager
    def toy(name: str, model: Path) -> Iterator[ToyFamily]:
        yield ToyFamily(model)

    monkeypatch.setattr(trainer.experiments.study_trainings, "open_family", toy)
    monkeypatch.setattr(trainer.experiments.study_trainings, "run_all", partial(run_here, begun=begun))
    monkeypatch.setattr(
        trainer.experiments.study_file,
        "START_FOLDERS",
        dict.fromkeys(("strings", "maze"), domain.model_folder),
    )
    return begun


def study_in(folder: Path, arms: Sequence[str] = ARMS, **changes: Any) -> StudyResults:
    """Run what is missing of the study of strings, small and on toy tasks, and return its results."""
    study = read_bundled("strings", folder, CHANGES | changes, arms)
    export = Export(folder / "export")
    assert run_study(study, export, folder / "work", 1, lambda *stage: None) == []
    return StudyResults(study, export)


def test_a_study_tunes_on_validation_tasks_and_reports_other_trainings_on_test_tasks(
    tmp_path: Path, in_process: list[str]
) -> None:
    results = study_in(tmp_path)
    assert len(in_process) == 4 + 4 + 2 + 4  # tuned, trained, and answered by the start model and by these
    found: Any = report_json(results)
    for name, points in found["grid"].items():
        entry = found["arms"][name]
        best = max(points, key=lambda point: point["score"])
        assert [point["chosen"] for point in points] == [point is best for point in points]
        trained = results.trainings(name)
        assert all(row["tokens"] >= 150 for row in trained)
        assert {row["arm"]["learning_rate"] for row in trained} == {best["learning_rate"]}
        assert entry["best_at_k"]["1"]["value"] <= entry["best_at_k"]["6"]["value"]
        assert set(entry["expected_best_at_k"]) == set(entry["pair_at_k"]) == {"1", "2", "6"}
        # Of rewards that are 0 or 1, only an answer that is right everywhere fills the cube.
        assert entry["hypervolume"] == pytest.approx(entry["pass_at_k"]["6"]["value"], abs=1e-4)
    assert list(found["grid"]) == ["grpo", "vpo"]
    compared = {(one["arm"], one["reference"]) for one in found["comparisons"]}
    assert {("vpo", other) for other in ("grpo", "start, m = 1", "start, m = 3")} <= compared
    rows = Export(tmp_path / "export").searches
    assert len(rows) == 4 * (2 + 4)
    assert {len(row["best_at_k"]) for row in rows.values()} == {3}
    text, files = write_report(results)
    assert f"| vpo | {found['arms']['vpo']['best_at_k']['1']['value']:.3f} [" in text
    assert "| start, m = 3 |" in text
    assert sum(file.suffix == ".png" for file in files) == 4


def test_every_arm_is_sampled_at_its_own_best_temperature(tmp_path: Path, in_process: list[str]) -> None:
    changes = {"tuning.temperatures": [0.5, 1.0], "tuning.figure": "expected_at_k"}
    results = study_in(tmp_path, ARMS[:1], **changes)
    export = Export(tmp_path / "export")
    for row in export.trainings.values():
        if row["kind"] == "tuning":
            assert set(row["scores"]) == {"0.5", "1"}
            assert row["score"] == max(row["scores"].values()) == row["scores"][f"{row['temperature']:g}"]
    used = next(one["temperature"] for one in results.tuning()["grpo"] if one["chosen"])
    tests = export.searches.values()
    assert {row["temperature"] for row in tests if row["arm"] == "grpo"} == {used}
    for row in tests:
        if "start" in row["arm"]:
            assert row["scores"][f"{row['temperature']:g}"] == max(row["scores"].values())
    with pytest.raises(ConfigError, match="tuning: temperatures was"):
        study_in(tmp_path, ARMS[:1], **changes | {"tuning.temperatures": [0.5, 0.7]})


def test_mazes_are_searched_where_a_study_says_how_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tmp_path / "start"
    shutil.copytree(MAZE_MODEL, start)
    (tmp_path / "study.toml").write_text(MAZES)
    monkeypatch.setattr(trainer.experiments.study_trainings, "run_all", run_here)
    study = read_study(tmp_path / "study.toml", runs=True)
    export = Export(tmp_path / "export")
    assert run_study(study, export, tmp_path / "work", 1, lambda *stage: None) == []
    rows = export.searches.values()
    assert len(rows) == 2 * 2
    assert all(row["evaluations"] == 8 and row["cpu_seconds"] > 0 for row in rows)
    assert all(row["expected_at_k"]["4"] <= row["expected_at_k"]["8"] for row in rows)
    found: Any = report_json(StudyResults(study, export))
    assert {(one["arm"], one["reference"], one["unit"]) for one in found["break_even"]} == {
        ("grpo", "start", unit) for unit in ("cpu_seconds", "tokens")
    }


def test_a_study_goes_on_where_it_was(
    tmp_path: Path, in_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: Any = report_json(study_in(tmp_path / "whole"))
    real = trainer.experiments.study_trainings.TrainingJob.run
    in_process.clear()

    def stops(self: TrainingJob, tell: Callable[[Any], None]) -> dict[str, Any]:
        if len(in_process) == 6:
            raise KeyboardInterrupt
        return real(self, tell)

    monkeypatch.setattr(trainer.experiments.study_trainings.TrainingJob, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        study_in(tmp_path / "cut")
    found: Any = report_json(study_in(tmp_path / "cut"))
    assert len(in_process) == 14 + 1
    assert found == wanted


def test_a_further_seed_trains_no_model_again_that_has_its_rows(
    tmp_path: Path, in_process: list[str]
) -> None:
    study_in(tmp_path, ARMS[:1], seeds=1)
    shutil.rmtree(tmp_path / "work")
    in_process.clear()
    study_in(tmp_path, ARMS[:1], seeds=2)
    assert len(in_process) == 1 + 1  # trained, and answered
    assert in_process[0].endswith("seed1")


def test_a_training_that_diverges_is_a_result_and_is_not_chosen(
    tmp_path: Path, in_process: list[str]
) -> None:
    changes = {"tuning.learning_rates": [1e-3, 1e30], "training.tokens": 600}
    results = study_in(tmp_path, ARMS[:1], **changes)
    assert [point["chosen"] for point in results.tuning()["grpo"]] == [True, False]
    assert results.tuning()["grpo"][1]["score"] == 0.0


@pytest.mark.parametrize("name", bundled_studies())
def test_studies_that_ship_with_the_package_can_be_read_and_changed(name: str, tmp_path: Path) -> None:
    study = read_bundled(name, tmp_path, {"training.tokens": 7, "ks": [1, 24, 30]})
    assert (study.domain, study.training.tokens, study.ks[-2:]) == (name, 7, (24, 30))
    trained = [arm.name for arm in study.arms if arm.arm is not None]
    assert {"grpo", "max-at-k", "multi-rlvr", "vpo", "vpo-at-k"} <= set(trained)
    one = read_bundled(name, tmp_path, {}, ["vpo"])
    assert [arm.name for arm in one.arms] == ["start, m = 1", "start, m = 3", "vpo"]
    assert one.references == ("start, m = 1",)
    with pytest.raises(ConfigError, match="--arms: unknown arm 'vpp'; did you mean"):
        read_bundled(name, tmp_path, {}, ["vpp"])
