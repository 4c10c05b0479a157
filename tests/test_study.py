"""Arms and studies on a domain of toy tasks: what is equal between arms, and that a study can go on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tiny_models import END_ID, write_tiny_folder

import trainer.study
from evovpo.errors import ConfigError
from trainer.arms import Arm, TaskMeasure, TrainingBudget, curves, load_start_model, measure, train
from trainer.domains import Answer, Split
from trainer.study import StudySettings, open_domain, run_study
from trainer.study_report import report_markdown, write_pictures

SEPARATOR_ID = 4


class ToyTask(NamedTuple):
    key: str
    wanted: int


class ToyDomain:
    """Answers are tokens up to a separator; the components: it holds the wanted token, and it is short."""

    name = "toy"

    def __init__(self, folder: Path) -> None:
        self.model_folder = folder

    def max_tokens(self, answers: int) -> int:
        return 6 * answers

    def tasks(self, split: Split, count: int, seed: int = 0) -> list[ToyTask]:
        return [ToyTask(f"{split}-{seed}-{i}", 5 + (i + len(split)) % 20) for i in range(count)]

    def prompt_ids(self, task: ToyTask, answers: int) -> tuple[int, ...]:
        return (30 + answers, task.wanted, 3)

    def judge(self, task: ToyTask, completion_ids: Sequence[int], answers: int) -> list[Answer]:
        found, start = [], 0
        ids = [*completion_ids, END_ID]
        for place, token in enumerate(ids):
            if token in (SEPARATOR_ID, END_ID) and len(found) < answers and start <= place:
                part = ids[start:place]
                rewards = (float(task.wanted in part), float(0 < len(part) < 3))
                found.append(Answer(repr(part) if part else None, rewards if part else (0.0, 0.0),
                                    min(rewards) == 1.0 and bool(part), (start, place)))  # fmt: skip
                start = place + 1
        return found + [Answer(None, (0.0, 0.0), False, None)] * (answers - len(found))


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> ToyDomain:
    return ToyDomain(write_tiny_folder(tmp_path_factory.mktemp("toy")))


VPO = Arm("vpo", "vpo", 2, 4, learning_rate=1e-3)
BUDGET = TrainingBudget(400, 3, 7)


def test_a_training_follows_from_arm_seed_and_domain(domain: ToyDomain) -> None:
    def weights(arm: Arm, seed: int) -> torch.Tensor:
        model, _ = train(arm, domain, BUDGET, seed)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    first = weights(VPO, 0)
    assert torch.equal(first, weights(VPO, 0))
    assert not torch.equal(first, weights(VPO, 1))
    assert not torch.equal(first, weights(Arm("to-go", "vpo-to-go", 2, 4, learning_rate=1e-3), 0))


def test_a_training_ends_with_the_step_that_reaches_the_budget(domain: ToyDomain) -> None:
    _, log = train(VPO, domain, BUDGET, 0)
    assert log[-2]["tokens"] < BUDGET.tokens <= log[-1]["tokens"]
    assert [row["step"] for row in log] == list(range(len(log)))


def test_training_raises_what_it_rewards(domain: ToyDomain) -> None:
    budget = TrainingBudget(6000, 4, 20)
    model, log = train(Arm("grpo", "grpo", 1, 8, learning_rate=3e-3), domain, budget, 0)
    assert np.mean([row["mean_reward"] for row in log[-3:]]) > log[0]["mean_reward"] + 0.1
    tasks = domain.tasks("test", 10)
    before = np.mean(curves(measure(load_start_model(domain), domain, tasks, 1, 8, 0), [1]).best_at_k)
    assert np.mean(curves(measure(model, domain, tasks, 1, 8, 0), [1]).best_at_k) > before + 0.1


def test_arms_may_mix_single_answers_reuse_samples_and_hold_on_to_the_start(domain: ToyDomain) -> None:
    arm = Arm("mixed", "vpo", 2, 4, learning_rate=1e-3, kl=0.1, entropy=0.01, single_share=0.5, passes=2)
    _, log = train(arm, domain, BUDGET, 0)
    assert log[-1]["kl"] > 0
    assert log[0]["ratio_max"] > 1.0


def test_chosen_tasks_are_permutations_one_after_the_other() -> None:
    from trainer.arms import _chosen_tasks

    order = [task for step in range(7) for task in _chosen_tasks(7, step, 3, seed=5)]
    assert [sorted(order[i : i + 7]) for i in (0, 7, 14)] == [list(range(7))] * 3
    assert order[:7] != order[7:14]


def test_measuring_uses_whole_chains_and_the_same_seeds_for_every_model(domain: ToyDomain) -> None:
    tasks = domain.tasks("validation", 4)
    model = load_start_model(domain)
    first = measure(model, domain, tasks, 2, 7, seed=3)
    assert np.array(first[0].rewards).shape == (4, 2, 2)
    assert first == measure(model, domain, tasks, 2, 7, seed=3)
    assert first != measure(model, domain, tasks, 2, 7, seed=4)


def test_curves_of_a_task_by_hand() -> None:
    # Two single answers, each perfect on one of two components.
    task = TaskMeasure([[(1.0, 0.0)], [(0.0, 1.0)]], [[False], [True]], 2.0, 1.0, 10)
    found = curves([task], [1, 2])
    assert found.best_at_k == [[0.5, 0.5]]
    assert found.pass_at_k == [[0.5, 1.0]]
    # E max(w, 1 - w) for a uniform w is 3/4; one answer gets E w = 1/2 for the other's 1 - w.
    assert found.expected_at_k[0] == pytest.approx([0.5, 0.75], abs=0.04)


# ---------------------------------------------------------------- whole studies

ARMS = (Arm("grpo", "grpo", 1, 8), Arm("vpo", "vpo", 2, 4))
SETTINGS = StudySettings(TrainingBudget(150, 2, 5), (1e-3, 3e-3), (0.0,), 2, 3, 4, ks=(1, 2, 6))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, domain: ToyDomain) -> None:
    """Make studies run the toy domain in this process."""
    monkeypatch.setattr(trainer.study, "TUNING_KS", (1, 2))

    @contextmanager
    def toy(name: str, start: str) -> Iterator[ToyDomain]:
        yield domain

    class Here:
        def submit(self, work: Any, *arguments: Any) -> Any:
            from concurrent.futures import Future

            future: Future[None] = Future()
            work(*arguments)
            future.set_result(None)
            return future

    @contextmanager
    def here(processes: int) -> Iterator[Any]:
        yield Here()

    monkeypatch.setattr(trainer.study, "open_domain", toy)
    monkeypatch.setattr(trainer.study, "_pool", here)


@pytest.mark.usefixtures("in_process")
def test_a_study_tunes_on_validation_tasks_and_reports_other_trainings_on_test_tasks(tmp_path: Path) -> None:
    names: list[str] = []
    results = run_study("toy", tmp_path, SETTINGS, ARMS, on_job=lambda name, done, total: names.append(name))
    assert len(names) == 4 + 4 + 4
    for name, entry in results["arms"].items():
        points = results["grid"][name]
        best = max(points, key=lambda point: point["score"])
        assert [point["chosen"] for point in points] == [point is best for point in points]
        job = json.loads(
            (tmp_path / "jobs" / f"{name}-lr{best['learning_rate']:g}-kl0-test-seed1.json").read_text()
        )
        assert job["tokens"] >= SETTINGS.budget.tokens
        assert np.array(job["best_at_k"]).shape == (SETTINGS.test_tasks, 3)
        assert entry["best_at_k"]["1"]["mean"] <= entry["best_at_k"]["6"]["mean"]
    assert set(results["arms"]["vpo"]) > {"minus_grpo", "minus_start"}
    assert "minus_grpo" not in results["arms"]["grpo"]


@pytest.mark.usefixtures("in_process")
def test_a_study_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run_study("toy", tmp_path / "whole", SETTINGS, ARMS)
    real, calls = trainer.study.run_job, []

    def stops(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(trainer.study, "run_job", stops)
    with pytest.raises(KeyboardInterrupt):
        run_study("toy", tmp_path / "cut", SETTINGS, ARMS)
    found = run_study("toy", tmp_path / "cut", SETTINGS, ARMS)
    assert len(calls) == 13
    for results in (wanted, found):
        for entry in results["arms"].values():
            entry.pop("logs")  # they hold times
    assert found == wanted


@pytest.mark.usefixtures("in_process")
def test_a_folder_with_a_study_of_other_settings_is_refused(tmp_path: Path) -> None:
    run_study("toy", tmp_path, SETTINGS, ARMS[:1])
    with pytest.raises(ConfigError, match="holds a study with other settings"):
        run_study("toy", tmp_path, SETTINGS._replace(seeds=1), ARMS[:1])


@pytest.mark.usefixtures("in_process")
def test_a_training_that_diverges_is_a_result_and_is_not_chosen(tmp_path: Path) -> None:
    settings = SETTINGS._replace(learning_rates=(1e-3, 1e30))
    results = run_study("toy", tmp_path, settings, ARMS[:1])
    assert [point["chosen"] for point in results["grid"]["grpo"]] == [True, False]
    assert results["grid"]["grpo"][1]["score"] == 0.0


@pytest.mark.usefixtures("in_process")
def test_the_report_has_a_row_for_every_arm_and_pictures_are_written(tmp_path: Path) -> None:
    results = run_study("toy", tmp_path, SETTINGS, ARMS)
    text = report_markdown(results)
    mean = results["arms"]["vpo"]["best_at_k"]["6"]["mean"]
    row = next(line for line in text.splitlines() if line.startswith("| vpo |"))
    assert row.endswith(f"| {mean:.3f} |")
    assert "start model, m = 2" in text
    files = write_pictures(tmp_path, results, "toy")
    assert len(files) == 3
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected strings or maze"), open_domain("chess"):
        pass
