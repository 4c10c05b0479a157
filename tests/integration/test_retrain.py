"""Retraining from logs: what comes out, that a kill changes nothing of it, and what is refused."""

import dataclasses
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import logged_runs
import numpy as np
import pytest
import torch
from logged_runs import without_logprobs, write_run
from safetensors.torch import load_file
from tiny_models import write_tiny_folder

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import ProposerConfig
from evovpo.errors import ConfigError, DivergedError, EvovpoError, PolicyError, TrainingError
from evovpo.store import Store
from evovpo.types import PolicyEventKind, PolicyVersion, Rewards, Rollout, Sampling, TrainingStep
from trainer.config import TrainConfig
from trainer.learning.packing import TrainingRow
from trainer.learning.policy_models import load_trainable
from trainer.learning.policy_update import token_logprobs
from trainer.loop import retrain as module
from trainer.loop import steps as steps_module
from trainer.loop.guard import uncompared
from trainer.loop.probe import generated_problems
from trainer.loop.retrain import RetrainResult, default_policies, only_trainer, retrain
from trainer.loop.steps import latest_checkpoint, save_checkpoint
from trainer.loop.training_plan import TrainingCallbacks, make_plan

pytestmark = pytest.mark.slow

CONFIG = TrainConfig.load(
    None,
    {"update.groups_per_step": 2, "update.passes": 2, "update.learning_rate": 0.001},
)
RUN = "toy-run"


@pytest.fixture(autouse=True)
def many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "CHECKPOINT_STEPS", 2)


class Place(NamedTuple):
    root: Path

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def policies(self) -> Path:
        return self.root / "policies"

    def store(self) -> Store:
        return Store.open(str(self.root / "runs.db"))

    def served(self) -> int | None:
        with self.store() as store:
            version = store.served()
        return version and version.number

    def retrain(
        self, config: TrainConfig = CONFIG, runs: Sequence[str] = (RUN,), **more: Any
    ) -> RetrainResult:
        with self.store() as store:
            return retrain(store, runs, config, self.policies, **more)

    def weights(self, number: int) -> dict[str, torch.Tensor]:
        return load_file(self.policies / f"v{number:04d}" / "model.safetensors")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Results are compared to the last bit, and processes forked."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def place(tmp_path: Path, tiny_folder: Path) -> Place:
    """A place whose store holds a run of six groups."""
    return made(tmp_path, tiny_folder)


def made(root: Path, tiny_folder: Path, **options: Any) -> Place:
    here = Place(root)
    here.model.symlink_to(tiny_folder)
    with here.store() as store:
        write_run(store, here.model, RUN, **options)
    return here


class Trained(NamedTuple):
    """An uninterrupted training, for comparisons; tests do not change it."""

    place: Place
    result: RetrainResult


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Trained:
    torch.set_num_threads(1)
    here = made(tmp_path_factory.mktemp("trained"), tiny_folder)
    return Trained(here, here.retrain())


def steps_of(here: Place) -> list[TrainingStep]:
    with here.store() as store:
        (training,) = store.trainings()
        return [dataclasses.replace(step, seconds=0.0) for step in store.training_steps(training.id)]


def assert_same(here: Place, trained: Trained) -> None:
    expected = trained.place.weights(1)
    found = here.weights(1)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert steps_of(here) == steps_of(trained.place)
    with here.store() as store, trained.place.store() as other:
        ours, theirs = store.policy_versions()[1], other.policy_versions()[1]
        assert _told(ours) == _told(theirs)
        assert [e.kind for e in store.policy_events()] == [e.kind for e in other.policy_events()]


def _told(version: PolicyVersion) -> PolicyVersion:
    measured = tuple(pair for pair in version.metrics if not pair[0].endswith("cpu_seconds"))
    assert len(measured) == len(version.metrics) - 2
    return dataclasses.replace(version, path="", metrics=measured)


def test_a_training_ends_in_a_new_version_that_is_served(trained: Trained) -> None:
    result = trained.result
    assert (result.policy_version, result.objective, result.probe) == (1, "vpo-at-k", None)
    assert (result.groups_used, result.groups_skipped, result.steps) == (6, 0, 6)
    with trained.place.store() as store:
        start, new = store.policy_versions()
        assert start == PolicyVersion(0, None, str(trained.place.model.resolve()))
        assert (new.parent, new.trained_through) == (0, f"{RUN}-5")
        assert store.served() == new
        kinds = [(event.number, event.kind) for event in store.policy_events()]
        assert kinds == [
            (0, PolicyEventKind.SERVED),
            (1, PolicyEventKind.PUBLISHED),
            (1, PolicyEventKind.SERVED),
        ]
        (training,) = store.trainings()
        assert new.config_hash == training.id
        assert TrainConfig.from_json(training.config_json) == CONFIG
        assert (training.runs, training.after, training.through) == ((RUN,), (None,), (f"{RUN}-5",))
        steps = store.training_steps(training.id)
    assert [step.step for step in steps] == list(range(6))
    assert result.tokens == sum(step.tokens for step in steps)
    assert dict(new.metrics)["tokens"] == result.tokens
    assert steps[0].kl == pytest.approx(0.0, abs=1e-6)
    assert steps[-1].kl > 1e-5
    before, after = load_file(trained.place.model / "model.safetensors"), trained.place.weights(1)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    (left,) = (trained.place.policies / "trainings").iterdir()
    assert list(left.iterdir()) == []


def test_training_makes_what_was_rewarded_likelier(tmp_path: Path, tiny_folder: Path) -> None:
    def likes_low_tokens(tokens: Sequence[int], rng: Random) -> Rewards:
        return (float(sum(token < 20 for token in tokens) / max(1, len(tokens))),) * 3

    here = made(tmp_path, tiny_folder, groups=8, rollouts=6, judge=likes_low_tokens)
    here.retrain(CONFIG.changed(objective={"name": "multi-rlvr"}, update={"passes": 4, "kl": 0}))
    with here.store() as store:
        groups = list(store.groups(RUN))
        versions = store.policy_versions()
    ends: list[TrainingRow] = []
    for group in groups:
        means = [max(sum(answer) for answer in chain) for chain in group.rewards_G_M_D]
        order = sorted(range(len(means)), key=means.__getitem__)
        for rollout in (group.rollouts[order[0]], group.rollouts[order[-1]]):
            tokens = rollout.token_ids or ()
            zeros = np.zeros(len(tokens))
            ends.append(TrainingRow(rollout.prompt_token_ids or (), tokens, rollout.logprobs or (), zeros))
    totals = []
    for version in versions:
        model = load_trainable(version, versions[0], CONFIG.changed(update={"kl": 0})).model
        totals.append(np.array([float(found.sum()) for found in token_logprobs(model, ends)]))
    worst, best = (totals[1] - totals[0]).reshape(-1, 2).T
    assert (best - worst).mean() > 0.1


def test_a_training_that_ended_is_not_made_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    first = place.retrain()
    with place.store() as store:
        store.serve(0, "back", is_roll_back=True)
        events = store.policy_events()
    monkeypatch.setattr(module, "load_trainable", lambda *_, **__: pytest.fail("it trains again"))
    assert place.retrain()._replace(seconds=0.0) == first._replace(seconds=0.0)
    with place.store() as store:
        assert store.policy_events() == events
        assert len(store.trainings()) == 1


def killed(work: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after(step: int) -> TrainingCallbacks:
    return TrainingCallbacks(stepped=lambda told: kill() if told.step == step else None)


def test_killed_at_any_point_it_goes_on_and_ends_as_if_uninterrupted(
    place: Place, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed_at: list[int] = []
    killed(lambda: place.retrain(watch=kill_after(0)))
    killed(lambda: place.retrain(watch=kill_after(2)))

    with monkeypatch.context() as patch:
        patch.setattr(steps_module, "save_checkpoint", lambda *_: kill())
        killed(place.retrain)
    with monkeypatch.context() as patch:
        patch.setattr(module, "publish_policy", lambda *_, **__: kill())
        killed(place.retrain)
    with place.store() as store:
        assert [version.number for version in store.policy_versions()] == [0]
    with monkeypatch.context() as patch:
        patch.setattr(module, "serve_policy", lambda *_, **__: kill())
        killed(place.retrain)
    assert place.served() == 0

    result = place.retrain(watch=TrainingCallbacks(planned=lambda plan, done: resumed_at.append(done)))
    assert resumed_at == [6]
    assert result._replace(seconds=0.0) == trained.result._replace(seconds=0.0)
    assert_same(place, trained)


def test_a_full_disk_is_one_clear_error_and_costs_only_time(place: Place, trained: Trained) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = (place.model / "model.safetensors").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * model, hard))
    try:
        with pytest.raises(
            TrainingError, match=r"step-00000002\.pt cannot be written .* the training continues"
        ):
            place.retrain()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with place.store() as store:
        assert len(store.training_steps(store.trainings()[0].id)) == 2
    assert place.served() == 0
    assert list(place.policies.glob("**/*.partial")) == []
    place.retrain()
    assert_same(place, trained)


def test_a_checkpoint_replaces_the_one_before_and_comes_back_equal(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    for steps in (9, 10):
        save_checkpoint(tmp_path, steps, {"model": {"w": torch.full((2,), float(steps))}})
    (tmp_path / "step-00000011.pt.partial").write_bytes(b"torn")
    found = latest_checkpoint(tmp_path)
    assert found is not None
    steps, state = found
    assert (steps, state["model"]["w"].tolist()) == (10, [10.0, 10.0])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000010.pt",
        "step-00000011.pt.partial",
    ]
    (tmp_path / "step-00000012.pt").write_bytes(b"torn")
    with pytest.raises(TrainingError, match=r"step-00000012\.pt cannot be read .*remove it"):
        latest_checkpoint(tmp_path)


def test_a_second_trainer_in_one_policies_folder_is_refused(place: Place) -> None:
    with (
        only_trainer(place.policies),
        pytest.raises(TrainingError, match=f"another trainer \\(process {os.getpid()}\\) works in"),
    ):
        place.retrain()
    assert place.retrain().policy_version == 1


def test_the_next_training_begins_with_the_served_version_and_holds_on_to_the_start_model(
    place: Place,
) -> None:
    place.retrain(CONFIG.changed(update={"learning_rate": 3e-3}))
    with place.store() as store:
        served = store.served()
        assert served is not None
        follows = ProposerConfig(model=str(place.model), policy="served")
        write_run(store, place.model, "newer", version=served, proposer=follows, seed=1)
    result = place.retrain(runs=["newer", RUN])
    assert (result.policy_version, result.groups_used) == (2, 12)
    with place.store() as store:
        assert store.policy_version(2).parent == 1
        steps = store.training_steps(store.policy_version(2).config_hash)
    assert steps[0].kl > 1e-3
    assert sum(step.staleness * step.groups for step in steps) == pytest.approx(0.5 * 2 * 12)
    assert max(step.clip_share for step in steps) > 0


def test_groups_of_versions_too_far_away_are_left_out(place: Place) -> None:
    place.retrain()
    with place.store() as store:
        plan = make_plan(store, [RUN], CONFIG.changed(data={"staleness_limit": 1}))
        assert (plan.groups_used, plan.start.number) == (6, 1)
        assert plan.tokens == 2 * sum(len(r.token_ids or ()) for g in store.groups(RUN) for r in g.rollouts)
        with pytest.raises(
            TrainingError, match=r"of 6 groups none is left \(6 stale\); raise data.staleness"
        ):
            make_plan(store, [RUN], CONFIG.changed(data={"staleness_limit": 0}))


def test_an_adapter_is_trained_published_and_trained_on(place: Place) -> None:
    lora = CONFIG.changed(update={"lora_rank": 4, "learning_rate": 3e-3})
    place.retrain(lora)
    folder = place.policies / "v0001"
    assert (folder / "adapter_config.json").is_file()
    assert not (folder / "model.safetensors").exists()
    with place.store() as store:
        first = store.policy_version(1)
        steps = store.training_steps(first.config_hash)
    assert steps[0].kl == pytest.approx(0.0, abs=1e-6)
    assert steps[-1].kl > 1e-5
    place.retrain(lora)
    with place.store() as store:
        second = store.policy_version(2)
        again = store.training_steps(second.config_hash)
        assert (place.policies / "v0002" / "adapter_config.json").is_file()
        assert again[0].kl > 1e-4
        with pytest.raises(
            ConfigError, match=r"adapter of rank 4; set update.lora_rank=4, or leave it out to merge"
        ):
            retrain(store, [RUN], CONFIG.changed(update={"lora_rank": 8}), place.policies)
    place.retrain()
    assert (place.policies / "v0003" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("kind", "style", "why"),
    [("llama", "rewrite", "asked in the style rewrite"), ("qwen3", "auto", "not from Qwen3ForCausalLM")],
)
def test_what_a_probe_cannot_compare_is_said_before_and_served(
    kind: str, style: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Place(tmp_path)
    write_tiny_folder(here.model)
    problem = generated_problems(1)[0]
    monkeypatch.setattr(logged_runs, "PROBLEM", problem)
    with here.store() as store:
        server = ProposerConfig(name="openai", base_url="http://127.0.0.1:9/v1", model="base")
        write_run(store, here.model, RUN, proposer=server, style=style)
    if kind == "qwen3":
        config = json.loads((here.model / "config.json").read_text())
        config |= {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
        (here.model / "config.json").write_text(json.dumps(config))
    asked = CONFIG.changed(probe={"problems": 6}, run={"model": str(here.model)})
    with here.store() as store:
        assert why in uncompared(store, make_plan(store, [RUN], asked))
    if kind == "llama":  # of the other only the configuration was changed
        result = here.retrain(asked)
        assert (result.policy_version, result.probe) == (1, None)


def test_a_version_that_is_clearly_worse_is_stored_and_not_served_unless_asked(tmp_path: Path) -> None:
    here = Place(tmp_path)
    here.model.symlink_to(BUILT_IN_MODEL)
    with here.store() as store:
        write_run(store, here.model, RUN, groups=2, rollouts=2)
    ruined = CONFIG.changed(
        update={"learning_rate": 0.03, "groups_per_step": 1}, probe={"answers": 4, "evaluations": 8}
    )
    problems = generated_problems(6)
    told: list[tuple[int, int]] = []
    result = here.retrain(
        ruined, problems=problems, watch=TrainingCallbacks(probed=lambda *at: told.append(at))
    )
    assert told == [(done, 12) for done in range(1, 13)]
    assert isinstance(result.probe, dict)
    assert set(result.probe) == {"version", "parent", "verdict"}
    with here.store() as store:
        metrics = dict(store.policy_version(1).metrics)
        assert metrics["probe.best_at_1"] < metrics["probe.parent.best_at_1"]
        last = store.policy_events()[-1]
    assert here.served() == 0
    assert (last.number, last.kind) == (1, PolicyEventKind.REFUSED)
    assert "at best@1 than its parent" in last.detail
    asked = ruined.changed(probe={"serve_worse": True})
    assert here.retrain(asked, problems=problems).policy_version == here.served() == 2


def refused(here: Place, kind: type[EvovpoError], words: str, config: TrainConfig = CONFIG) -> None:
    with pytest.raises(kind, match=words):
        here.retrain(config)
    with here.store() as store:
        assert [version.number for version in store.policy_versions()] in ([], [0])
    assert here.served() in (None, 0)


def test_a_learning_rate_that_diverges_stops_and_keeps_the_last_good_version(place: Place) -> None:
    wild = CONFIG.changed(update={"learning_rate": 1e30})
    refused(place, DivergedError, r"diverged.* lower the learning rate.*version 0 is still served", wild)
    with place.store() as store:
        event = store.policy_events()[-1]
    assert (event.number, event.kind) == (None, PolicyEventKind.FAILED)
    assert "diverged" in event.detail
    assert place.retrain().policy_version == 1


def test_a_last_step_that_diverges_is_noticed(place: Place) -> None:
    one_step = CONFIG.changed(update={"learning_rate": 100, "groups_per_step": 6, "passes": 1})
    refused(place, DivergedError, "after its last step the loss is not finite any more", one_step)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edit": without_logprobs}, r"cannot be trained on: .*6 no log-probabilities"),
        (
            {"judge": lambda tokens, rng: (0.0, 1.0, 0.0)},
            r"nothing to train on in toy-run: of 6 groups none is left",
        ),
        ({"groups": 0}, "nothing to train on in toy-run: it has no complete group yet"),
    ],
)
def test_a_run_with_nothing_to_learn_from_is_refused(
    tmp_path: Path, tiny_folder: Path, options: dict[str, Any], words: str
) -> None:
    refused(made(tmp_path, tiny_folder, **options), TrainingError, words)


def test_log_probabilities_of_another_temperature_than_they_say_are_refused(
    tmp_path: Path, tiny_folder: Path
) -> None:
    def says_one(rollout: Rollout) -> Rollout:
        return dataclasses.replace(rollout, sampling=Sampling(temperature=1.0))

    here = made(tmp_path, tiny_folder, sampling=Sampling(temperature=0.5, max_tokens=12), edit=says_one)
    refused(
        here, TrainingError, r"not those of policy version 0 at temperature 1: they differ by 0\.\d+ nats"
    )


def test_runs_of_different_temperatures_are_refused(place: Place) -> None:
    with place.store() as store:
        write_run(store, place.model, "cold", groups=2, sampling=Sampling(temperature=0.5, max_tokens=12))
        with pytest.raises(
            TrainingError, match=r"different temperatures: 1 \(run toy-run\), 0\.5 \(run cold\)"
        ):
            make_plan(store, [RUN, "cold"], CONFIG)


def test_the_folder_of_a_version_that_is_gone_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.store() as store:
        write_run(store, place.model, RUN)
    place.retrain()
    (place.policies / "v0001").rename(place.policies / "elsewhere")
    with pytest.raises(PolicyError, match=r"policy version 1 is gone: .*v0001"):
        place.retrain()
    place.model.rename(tmp_path / "elsewhere")
    with place.store() as store:
        store.serve(0)
    with pytest.raises(PolicyError, match="policy version 0 is gone"):
        place.retrain()


def test_a_run_of_another_start_model_is_refused(place: Place, tmp_path: Path) -> None:
    place.retrain()
    with place.store() as store:
        write_run(store, tmp_path / "other-model", "other")
    with pytest.raises(
        TrainingError, match=r"run other was sampled from the model in .*other-model, and version 0"
    ):
        place.retrain(runs=["other"])


def test_a_run_sampled_from_a_server_needs_to_be_told_the_folder_of_its_model_once(
    tmp_path: Path, tiny_folder: Path
) -> None:
    server = ProposerConfig(name="openai", model="strings", base_url="http://127.0.0.1:1/v1")
    here = made(tmp_path, tiny_folder, proposer=server)
    refused(here, ConfigError, "sampled from a server, by the name 'strings'; say in which folder")
    assert here.retrain(CONFIG.changed(run={"model": str(here.model)})).policy_version == 1
    assert here.retrain().policy_version == 2
    with pytest.raises(ConfigError, match=f"run.model is {tmp_path}, and version 0 of this store is"):
        here.retrain(CONFIG.changed(run={"model": str(tmp_path)}))


def test_runs_that_are_named_twice_are_refused(place: Place) -> None:
    with place.store() as store, pytest.raises(ConfigError, match="name each once"):
        make_plan(store, [RUN, RUN], CONFIG)


def test_policies_lie_beside_the_database(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "runs.db")) as store:
        assert default_policies(store) == tmp_path / "policies"
    with Store.open("sqlite://") as store:
        assert default_policies(store) == Path("evovpo-policies")
