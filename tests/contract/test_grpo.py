"""The TRL route: its loss and gradient against a hand-written one, its checks, figures and errors."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from datasets import Dataset
from grpo_reference import Row, step, token_logprobs, z_scores
from tiny_models import END_ID, VOCABULARY, load_folder, tiny_model, write_tiny_folder
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

import trainer.learning.vpo_trainer
from evovpo.errors import ConfigError, TrainingError
from trainer.learning.packing import TrainingRow
from trainer.learning.policy_update import Updater, UpdateSettings
from trainer.learning.vpo_trainer import VPOConfig, VPOTrainer
from trainer.objectives import OBJECTIVES, batch_advantages

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_trl")]

PROMPTS = ("a", "bc(", "d e", "fghij")
SEPARATORS = frozenset(VOCABULARY[digit] for digit in "0123456789")
ANSWERS, ROLLOUTS, KL = 3, 4, 0.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("model"))


def config(tmp_path: Path, **changes: Any) -> VPOConfig:
    settings: dict[str, Any] = {
        "output_dir": str(tmp_path), "objective": "multi-rlvr", "answers_per_chain": ANSWERS, "beta": KL,
        "per_device_train_batch_size": 16, "num_generations": ROLLOUTS, "max_completion_length": 12,
        "max_steps": 1, "learning_rate": 0.01, "lr_scheduler_type": "constant", "max_grad_norm": 0.0,
        "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1, "use_cpu": True, "seed": 3,
    }  # fmt: skip
    return VPOConfig(**settings | changes)


def dataset(prompts: Sequence[str] = PROMPTS) -> Dataset:
    return Dataset.from_list([{"prompt": prompt} for prompt in prompts])


# ---------------------------------------------------------------- a toy task: answers between digits


def spans_of(ids: Sequence[int], most: int = ANSWERS) -> list[tuple[int, int]]:
    """Return where the answers of a completion are: what separators and the end token close."""
    spans, start = [], 0
    for position, token in enumerate([*ids, END_ID]):
        if token in SEPARATORS or token == END_ID:
            spans.append((start, position))
            start = position + 1
        if token == END_ID:
            break
    return spans[:most]


def vector(answer: Sequence[int]) -> list[float]:
    """Return two rewards: the share of tokens with even ids, and of multiples of 3."""
    length = max(1, len(answer))
    return [
        sum(token % 2 == 0 for token in answer) / length,
        sum(token % 3 == 0 for token in answer) / length,
    ]


def rewards_of(ids: Sequence[int], most: int = ANSWERS) -> list[list[float]]:
    return [vector(ids[start:end]) for start, end in spans_of(ids, most)]


def judge(completion_ids: list[list[int]], **_: Any) -> list[Any]:
    return [rewards_of(ids) for ids in completion_ids]


def judge_single(completion_ids: list[list[int]], **_: Any) -> list[Any]:
    return [np.array([vector(ids)]) for ids in completion_ids]


def is_faulty(ids: Sequence[int]) -> bool:
    return ids[0] % 3 == 0


def judge_with_faults(completion_ids: list[list[int]], **_: Any) -> list[Any]:
    return [None if is_faulty(ids) else rewards_of(ids) for ids in completion_ids]


def expected_advantages(batch: Sequence[tuple[Any, Sequence[int]]]) -> dict[Any, list[float]]:
    """Return, by hand, the advantage of every token of the rollouts of a batch."""
    found: dict[Any, list[float]] = {}
    for prompt in {prompt for prompt, _ in batch}:
        completions = [ids for other, ids in batch if other == prompt]
        scores = z_scores([max(sum(rewards) / 2 for rewards in rewards_of(ids)) for ids in completions])
        found |= {(prompt, ids): [score] * len(ids) for ids, score in zip(completions, scores, strict=True)}
    return found


# ---------------------------------------------------------------- what a training did


class Recorded(NamedTuple):
    """One optimiser step."""

    weights: dict[str, torch.Tensor]
    inputs: list[dict[str, Any]]
    """Of each part of the batch."""
    losses: list[float]
    gradients: dict[str, torch.Tensor]


class Recorder(TrainerCallback):
    def __init__(self) -> None:
        self.steps: list[Recorded] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.steps.append(Recorded(copy.deepcopy(named["model"].state_dict()), [], [], {}))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        parameters = named["model"].named_parameters()
        gradients = {name: p.grad.clone() for name, p in parameters if p.grad is not None}
        self.steps[-1].gradients.update(gradients)


class Recording:
    """Mixin that keeps what the loss was computed from."""

    recorder: Recorder

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **named)  # type: ignore[misc]
        self.recorder.steps[-1].inputs.append(inputs)
        self.recorder.steps[-1].losses.append(loss.item())
        return loss


class RecordedTrainer(Recording, VPOTrainer):
    pass


class RecordedStock(Recording, GRPOTrainer):
    pass


def watched(made: Any) -> Any:
    made.recorder = Recorder()
    made.add_callback(made.recorder)
    made.remove_callback(PrinterCallback)
    return made


def make(folder: Path, judge: Any, args: VPOConfig, **others: Any) -> Any:
    others.setdefault("train_dataset", dataset())
    return watched(RecordedTrainer(model=str(folder), reward_vector_funcs=judge, args=args, **others))


def train(folder: Path, judge: Any, args: VPOConfig, **others: Any) -> Any:
    made = make(folder, judge, args, **others)
    made.train()
    return made


def train_stock(folder: Path, tmp_path: Path, **others: Any) -> Any:
    """Make one step by TRL alone, on the mean of the vector of a single answer."""

    def mean(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
        return [sum(vector(ids)) / 2 for ids in completion_ids]

    args = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=16, num_generations=ROLLOUTS, max_steps=1,
        max_completion_length=12, use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
        dataloader_pin_memory=False, save_strategy="no", seed=3, max_grad_norm=0.0,
    )  # fmt: skip
    made = watched(
        RecordedStock(model=str(folder), reward_funcs=mean, args=args, train_dataset=dataset(), **others)
    )
    made.train()
    return made


def logged(done: Any, name: str) -> list[float]:
    return [entry[name] for entry in done.state.log_history if name in entry]


def rows_of(inputs: dict[str, Any]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return prompt and completion ids of a part of a batch, without padding."""
    return [
        (tuple(prompt[mask.bool()].tolist()), tuple(ids[kept.bool()].tolist()))
        for prompt, mask, ids, kept in zip(
            inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"], inputs["completion_mask"],
            strict=True,
        )
    ]  # fmt: skip


def assert_same_gradients(found: dict[str, torch.Tensor], expected: Any, tolerance: float) -> None:
    largest = max(gradient.abs().max() for gradient in expected.values())
    assert largest > 0
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert (found[name] - gradient).abs().max() <= tolerance * largest, name


def gradients_of(model: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    parameters = dict(model.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


@pytest.mark.parametrize(
    ("rows", "accumulated", "parts", "iterations"), [(16, 1, 1, 2), (4, 4, 4, 1), (8, 1, 2, 2), (4, 2, 4, 2)]
)
def test_loss_and_gradient_equal_a_hand_written_step(
    folder: Path, tmp_path: Path, rows: int, accumulated: int, parts: int, iterations: int
) -> None:
    """Batches of 16 rollouts in `parts`, `accumulated` parts a step, each batch used `iterations` times."""
    args = config(
        tmp_path, per_device_train_batch_size=rows, learning_rate=0.03,
        gradient_accumulation_steps=accumulated, steps_per_generation=parts, num_iterations=iterations,
        max_steps=2 * parts * iterations // accumulated,
    )  # fmt: skip
    done = train(folder, judge, args)
    start, model = tiny_model(), tiny_model()
    steps_a_batch = parts * iterations // accumulated
    clipped = 0
    for first in range(0, len(done.recorder.steps), steps_a_batch):
        steps = done.recorder.steps[first : first + steps_a_batch]
        used_once = [inputs for recorded in steps for inputs in recorded.inputs][:parts]
        batch = [row for inputs in used_once for row in rows_of(inputs)]
        assert len(batch) == 16
        assert set(Counter(prompt for prompt, _ in batch).values()) == {ROLLOUTS}
        expected = expected_advantages(batch)
        model.load_state_dict(steps[0].weights)
        with torch.no_grad():
            old = {row: token_logprobs(model, *row).tolist() for row in batch}
        tokens = sum(len(ids) for _, ids in batch) * accumulated / parts
        for recorded in steps:
            model.load_state_dict(recorded.weights)
            by_hand = step(
                model, start,
                [Row(*row, expected[row], old[row]) for part in recorded.inputs for row in rows_of(part)],
                tokens, kl=KL,
            )  # fmt: skip
            clipped += by_hand.clipped
            assert sum(recorded.losses) == pytest.approx(by_hand.loss.item(), abs=2e-6)
            assert_same_gradients(recorded.gradients, gradients_of(model, by_hand.loss), 2e-5)
    assert clipped > 50 or iterations == 1


def test_rollouts_with_a_fault_leave_their_group_and_the_loss(folder: Path, tmp_path: Path) -> None:
    done = train(folder, judge_with_faults, config(tmp_path, max_steps=2, num_iterations=2))
    start, model = tiny_model(), tiny_model()
    batch = rows_of(done.recorder.steps[0].inputs[0])
    kept = [row for row in batch if not is_faulty(row[1])]
    assert 0 < len(kept) < len(batch)
    advantages = expected_advantages(kept)
    with torch.no_grad():
        rows = [Row(*row, advantages[row], token_logprobs(start, *row).tolist()) for row in kept]
    for recorded in done.recorder.steps:
        model.load_state_dict(recorded.weights)
        by_hand = step(model, start, rows, sum(len(row.completion_ids) for row in rows), kl=KL)
        assert sum(recorded.losses) == pytest.approx(by_hand.loss.item(), abs=2e-6)
        assert_same_gradients(recorded.gradients, gradients_of(model, by_hand.loss), 2e-5)
    assert logged(done, "faults") == [len(batch) - len(kept)]


def test_a_chain_of_one_answer_under_grpo_is_what_trl_does_but_for_the_standard_deviation(
    folder: Path, tmp_path: Path
) -> None:
    args = config(tmp_path, objective="grpo", answers_per_chain=1)
    ours = train(folder, judge_single, args).recorder.steps[0].inputs[0]
    theirs = train_stock(folder, tmp_path).recorder.steps[0].inputs[0]
    assert torch.equal(ours["completion_ids"], theirs["completion_ids"])
    # Sample to population standard deviation of 4; their 1e-4 beside a spread of about 0.1.
    assert torch.allclose(ours["advantages"], theirs["advantages"] * (4 / 3) ** 0.5, rtol=5e-3, atol=1e-5)


# ---------------------------------------------------------------- from logs


def test_updates_from_logs_have_the_gradient_of_the_trl_route(folder: Path, tmp_path: Path) -> None:
    """On one batch, with clipped tokens, dual clip and a KL term to a model that is not the start."""
    args = config(tmp_path, max_steps=3, num_iterations=3, learning_rate=0.03)
    done = train(folder, judge, args)
    sampled_by = tiny_model()
    for recorded in done.recorder.steps:
        model = tiny_model()
        model.load_state_dict(recorded.weights)
        updater = Updater(model, UpdateSettings(kl=KL, max_grad_norm=1e9), reference=tiny_model())
        (inputs,) = recorded.inputs
        rows = [
            TrainingRow(*row, tuple(token_logprobs(sampled_by, *row).tolist()), np.full(len(row[1]), value))
            for row, value in zip(rows_of(inputs), inputs["advantages"].tolist(), strict=True)
        ]
        groups = {row.prompt_ids: [one for one in rows if one.prompt_ids == row.prompt_ids] for row in rows}
        figures = updater.update(list(groups.values()))
        gradients = {name: p.grad for name, p in model.named_parameters()}
        assert figures["loss"] == pytest.approx(sum(recorded.losses), abs=2e-6)
        assert_same_gradients(recorded.gradients, gradients, 1e-5)
    assert figures["clip_share"] > 0.2
    assert figures["ratio_max"] > 3
    assert figures["kl"] > 0.05


# ---------------------------------------------------------------- arms, figures, seeds


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_trains_and_logs_the_same_figures(
    folder: Path, tmp_path: Path, objective: str
) -> None:
    is_single = OBJECTIVES[objective].answers == "one"
    args = config(tmp_path, objective=objective, answers_per_chain=1 if is_single else ANSWERS, max_steps=2)
    done = train(folder, judge_single if is_single else judge, args)
    for name in ("set_score", "pool_score", "mean_reward", "pass_rate", "diversity", "zero_spread_share"):
        values = logged(done, name)
        assert len(values) == 2
        assert all(value >= 0 for value in values)
    assert logged(done, "faults") == [0, 0]
    first, last = (done.recorder.steps[i].weights["lm_head.weight"] for i in (0, 1))
    assert not torch.equal(first, last)
    spread = done.recorder.steps[0].inputs[0]["advantages"]
    assert spread.dim() == 1
    assert spread.std() > 0.1


def test_figures_are_those_of_the_answers(folder: Path, tmp_path: Path) -> None:
    """By hand, for one component, where a set score is the best answer: three groups of two chains."""
    verdicts = [[[0.5], [1.0]], [[0.25]], [[0.5]], [[0.5]], None, [[1.0]]]
    args = config(
        tmp_path, objective="vpo", answers_per_chain=2, num_generations=2, per_device_train_batch_size=6
    )
    done = train(folder, lambda **_: verdicts, args, train_dataset=dataset(PROMPTS[:3]))
    expected = {
        "set_score": (0.625 + 0.5 + 1) / 3,
        "pool_score": (1 + 0.5 + 1) / 3,
        "mean_reward": (1.75 / 4 + 1 / 4 + 1 / 2) / 3,
        "pass_rate": (1 / 4 + 0 + 1 / 2) / 3,
        "diversity": (3.25 / 6 + 2 / 6 + 1) / 3,
        "zero_spread_share": 2 / 3,
        "faults": 1,
        "reward": (1 + 0.25 + 0.5 + 0.5 + 1) / 5,
    }
    assert {name: logged(done, name)[0] for name in expected} == pytest.approx(expected)


def test_the_table_of_completions_shows_the_advantages_that_were_used(folder: Path, tmp_path: Path) -> None:
    args = config(tmp_path, max_steps=2, per_device_eval_batch_size=ROLLOUTS)
    done = train(folder, judge, args, eval_dataset=dataset(PROMPTS[:1]))
    used = done.recorder.steps[-1].inputs[0]["advantages"]
    shown = list(done._logs["advantages"])
    assert sorted(shown) == pytest.approx(sorted(used.tolist()))
    done.evaluate()
    added = done.recorder.steps[-1].inputs[-1]["advantages"].tolist()
    assert list(done._logs["advantages"]) == pytest.approx(shown[ROLLOUTS:] + added)


def test_weightings_are_new_in_each_batch_and_the_same_in_each_evaluation(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[float] = []
    original = batch_advantages

    def spy(*args: Any, rng: np.random.Generator, **named: Any) -> Any:
        drawn.append(copy.deepcopy(rng).random())
        return original(*args, rng=rng, **named)

    monkeypatch.setattr(trainer.learning.vpo_trainer, "batch_advantages", spy)
    args = config(
        tmp_path, max_steps=2, per_device_train_batch_size=8, per_device_eval_batch_size=8,
        gradient_accumulation_steps=2, steps_per_generation=1,
    )  # fmt: skip
    done = train(folder, judge, args, eval_dataset=dataset())
    trained = list(drawn)
    assert len(trained) == len(set(trained)) == 4
    done.evaluate()
    done.evaluate()
    assert len(drawn) == 8
    assert len(set(drawn[4:])) == 1
    assert drawn[4] not in trained
    assert len(logged(done, "eval_set_score")) == 2
    drawn.clear()
    train(folder, judge, args)
    assert drawn == trained


def test_vpo_learns_chains_whose_answers_differ(folder: Path, tmp_path: Path) -> None:
    """Two rewards of which an answer can have one in full or halves of both.

    Equal answers score at most 1/2, the best chain 3/4 (H_2 / 2).
    """

    def halves(completion_ids: list[list[int]], **_: Any) -> list[Any]:
        found = []
        for ids in completion_ids:
            rows = []
            for start, end in spans_of(ids):
                answer, length = ids[start:end], max(1, end - start)
                rows.append([sum(low <= token < low + 13 for token in answer) / length for low in (3, 16)])
            found.append(rows)
        return found

    args = config(
        tmp_path, objective="vpo", max_steps=40, per_device_train_batch_size=32, num_generations=8, seed=0,
        beta=1e-3, max_grad_norm=1.0, max_completion_length=9,
    )  # fmt: skip
    scores = logged(train(folder, halves, args), "set_score")
    assert np.mean(scores[:3]) < 0.5
    assert np.mean(scores[-5:]) > 0.62


def test_an_adapter_trains_against_the_model_without_it(folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig

    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    done = train(folder, judge, config(tmp_path, max_steps=2), peft_config=adapter)
    assert all("lora" in name for name in done.recorder.steps[0].gradients)
    assert logged(done, "kl")[0] > 1e-4


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "vppo"}, "unknown objective 'vppo'; did you mean 'vpo'"),
        ({"objective": "grpo"}, "objective grpo expects answers_per_chain to be 1, found 3; change it"),
        ({"answers_per_chain": 0}, "expects answers_per_chain to be 1 or more, found 0"),
        ({"objective": "vpo", "answers_per_chain": 1}, "grpo under another name; train with vpo-at-k"),
        ({"objective": "vpo-at-k", "k": 13}, "needs at least 5 rollouts a prompt, found 4"),
        ({"objective": "vpo-at-k", "k": 10, "num_generations_eval": 2}, "needs at least 4 rollouts"),
        (
            {"scale_rewards": "none"},
            "scale_rewards = 'none' has no effect: advantages are those of objective",
        ),
        ({"reward_weights": [2.0]}, "reward_weights = .* has no effect"),
    ],
)
def test_a_configuration_that_cannot_be_trained_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **changes)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"args": GRPOConfig("unused", bf16=False, use_cpu=True)}, "expected a VPOConfig, found GRPOConfig"),
        ({"reward_funcs": judge}, "give a function in reward_vector_funcs"),
        ({"rollout_func": judge}, "rollout_func: TRL ignores its log-probabilities"),
    ],
)
def test_arguments_that_would_not_be_used_are_refused(
    folder: Path, tmp_path: Path, others: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"reward_vector_funcs": judge, "args": config(tmp_path)}
    with pytest.raises(ConfigError, match=message):
        VPOTrainer(model=str(folder), train_dataset=dataset(), **arguments | others)


def test_a_reward_beside_the_vectors_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an environment brings with `get_reward`; TRL appends it to the reward functions."""
    original = GRPOTrainer.__init__

    def with_environment(self: Any, **arguments: Any) -> None:
        original(self, **arguments)
        self.reward_funcs.append(lambda **_: [1.0])

    monkeypatch.setattr(GRPOTrainer, "__init__", with_environment)
    with pytest.raises(ConfigError, match=r"an environment with get_reward\(\) would not be used"):
        make(folder, judge, config(tmp_path))


def test_a_kl_term_needs_a_folder_to_read_the_start_model_from(folder: Path, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"reward_vector_funcs": judge, "train_dataset": dataset()}
    VPOTrainer(model=load_folder(folder), args=config(tmp_path, beta=0.0), **arguments)
    with pytest.raises(ConfigError, match="give its folder or name as model, or set beta=0"):
        VPOTrainer(model=load_folder(folder), args=config(tmp_path), **arguments)


NONE_YET: list[Any] = [[]] * 16
"""A completion without answers each."""


@pytest.mark.parametrize(
    ("objective", "verdicts", "message"),
    [
        ("vpo", NONE_YET[:15], "judged 15 completions; expected 16, one entry each"),
        ("vpo", [[[0.5]] * 4] * 16, "m at most 3 .answers_per_chain., found shape .4, 1."),
        ("vpo", [[0.5, 0.5]] * 16, r"expected an array \[m, D\] for a completion, .* found shape .2,."),
        ("vpo", [[[]]] * 16, r"found shape .1, 0."),
        ("vpo", [[[0.5], [0.1, 0.2]]] * 16, "expected an array .* of numbers"),
        ("vpo", ["nothing"] * 16, "expected an array .* of numbers"),
        ("vpo", [[[1.5]], *NONE_YET[1:]], r"rewards lie in \[0, 1\], found 1.5 to 1.5; rescale them"),
        ("vpo", [[[float("nan")]], *NONE_YET[1:]], r"rewards lie in \[0, 1\]"),
        ("vpo", [[[0.5]], [[0.5, 0.5]], *NONE_YET[2:]], r"have \[1, 2\] components; return the same"),
    ],
)
def test_a_verdict_outside_the_contract_is_refused(
    folder: Path, tmp_path: Path, objective: str, verdicts: list[Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(folder, lambda **_: verdicts, config(tmp_path, objective=objective))


def test_a_batch_without_answers_or_with_faults_only_teaches_nothing(folder: Path, tmp_path: Path) -> None:
    for verdicts in (NONE_YET, [None] * 16):
        done = train(
            folder,
            lambda verdicts=verdicts, **_: verdicts,
            config(tmp_path, beta=0.0, check_first_batch=False),
        )
        assert not done.recorder.steps[0].inputs[0]["advantages"].any()
        assert all(not gradient.any() for gradient in done.recorder.steps[0].gradients.values())


# ---------------------------------------------------------------- when TRL changes


def changed_batch(change: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    original = GRPOTrainer._generate_and_score_completions

    def generate(self: Any, inputs: Any) -> Any:
        return change(original(self, inputs))

    return generate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: None, "a batch has no tensor 'advantages'"),
        (lambda out: {k: v for k, v in out.items() if k != "advantages"}, "no tensor 'advantages'"),
        (lambda out: {k: v for k, v in out.items() if k != "num_items_in_batch"}, "no tensor 'num_items"),
        (lambda out: out | {"advantages": out["advantages"][:4]}, "other completions than were judged"),
        (lambda out: out | {"completion_ids": out["completion_ids"].flip(0)}, "in another order"),
    ],
)
def test_a_batch_of_another_shape_stops_the_training(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", changed_batch(change))
    with pytest.raises(TrainingError, match=f"TRL .* does not work as .*{message}"):
        train(folder, judge, config(tmp_path))


@pytest.mark.parametrize(
    ("place", "name", "other", "message"),
    [
        (
            GRPOTrainer, "_get_train_sampler",
            lambda self, data=None: torch.utils.data.SequentialSampler(data),
            "the rollouts of one prompt are not consecutive rows",
        ),
        (
            VPOTrainer, "_generate_and_score_completions",
            GRPOTrainer._generate_and_score_completions,
            "rewards are not computed once in each",
        ),
        (
            GRPOTrainer, "_calculate_rewards",
            lambda self, inputs, prompts, *others: torch.zeros(len(prompts), 1),
            "the reward function was not called once for a batch",
        ),
    ],
)  # fmt: skip
def test_a_trainer_that_calls_otherwise_stops_the_training(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    place: type, name: str, other: Any, message: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(place, name, other)
    with pytest.raises(TrainingError, match=message):
        train(folder, judge, config(tmp_path), train_dataset=dataset(PROMPTS * 4))
