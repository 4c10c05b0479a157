"""Trains a model on a domain with `VPOTrainer`, and writes a folder that servers can load.

The folder holds the trained model, `training.json` with the request and the result, and the last checkpoints.
A training that is started again continues from the last checkpoint.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_type_hints

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from pydantic import TypeAdapter, ValidationError
from transformers import PrinterCallback, TrainerCallback

from evovpo.errors import ConfigError, TrainingError, nearest_hint
from evovpo.experiments.intervals import difference
from evovpo.files import file_digests, write_errors, write_json
from evovpo.proposers.local import LoadedModel, check_model_folder, end_ids, no_progress_bar
from evovpo.proposers.policy_folders import is_adapter
from evovpo.types import PolicyVersion
from trainer.domains.catalogue import GENERATED, open_domain
from trainer.domains.domain import Domain, load_tokenizer
from trainer.domains.goals import by_goal, with_goals
from trainer.domains.policy_figures import by_prompt, ends, figures, means
from trainer.domains.sampling import Ask, as_text, complete, model_folder
from trainer.domains.text.rows import check_digest, files_of
from trainer.learning.vpo_trainer import VPOConfig, VPOTrainer
from trainer.objectives import find_objective

TRAINING_FILE = "training.json"
ADAPTER = "adapter"
"""Name of the LoRA adapter's folder, next to the merged weights."""
_BUNDLED_TASKS = 1000
_LEARNING_RATES = {"bundled": 1e-3, "lora": 2e-5, "full": 1e-6}


@dataclass(frozen=True)
class TrainingRequest:
    """The request for a training; the fields are the options of `evovpo train`."""

    domain: str
    output: str
    data: str | None = None
    test_data: str | None = None
    model: str | None = None
    objective: str = "vpo-at-k"
    answers: int | None = None
    steps: int = 100
    prompts: int = 8
    rollouts: int = 8
    lora: int = 0
    seed: int = 0
    test: int = 32
    ks: tuple[int, ...] = (1, 3, 6, 12, 24)
    settings: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, float] = field(default_factory=dict)
    """Sampling settings for measuring that differ from those of the training."""
    dates: str = ""
    test_dates: str = ""
    """Date range FROM..TO of the test rows. `dates` is the date range of the training rows."""
    data_sha256: str = ""
    test_data_sha256: str = ""
    """Expected SHA-256 of the concatenated test files (`cat ONE OTHER | sha256sum`); empty: not checked."""
    goals: bool = False
    """Whether the training is goal-conditioned; see `trainer.domains.goals`."""

    @property
    def answers_per_chain(self) -> int:
        return self.answers or find_objective(self.objective).usual_answers

    def open(self, *, for_test: bool) -> Domain:
        kept_back = self.test > 0 and not (self.test_data or self.test_dates)
        is_other, is_generated = for_test and bool(self.test_data), self.domain in GENERATED
        data = self.test_data if is_other else self.data
        check_digest(data, self.test_data_sha256 if is_other else self.data_sha256)
        split: Any = "test" if for_test else "train"
        most = _BUNDLED_TASKS if is_generated else None
        domain = open_domain(
            self.domain, data, self.answers_per_chain, split=split if kept_back or is_generated else None,
            tasks=self.test if for_test else most, dates=self.test_dates if for_test else self.dates,
        )  # fmt: skip
        if not self.goals:
            return domain
        if self.objective != "grpo":
            raise ConfigError(f"--goals: the reward is a single number: use grpo, not {self.objective}")
        return with_goals(domain, None if for_test else self.seed)

    def start(self, domain: Domain) -> Path:
        """Return the folder of the start model. Raises `ConfigError` or `PolicyError` if it is unusable."""
        if self.model is None and domain.start_model is None:
            raise ConfigError(
                f"the domain {domain.name} has no start model of its own; give one with --model"
            )
        folder = domain.start_model if self.model is None else model_folder(self.model)
        assert folder is not None
        if is_adapter(PolicyVersion(0, None, str(folder))):
            raise ConfigError(f"{folder} holds an adapter; merge it into its base and train on the result")
        check_model_folder(folder)
        return folder

    def ask(self, args: Any) -> Ask:
        """Return the settings for measuring: those of the training, with the changes in `sampling`."""
        more = dict(args.generation_kwargs or {}) | ({} if args.min_p is None else {"min_p": args.min_p})
        ask = Ask(
            -(-max(self.ks) // self.answers_per_chain), args.temperature, self.seed, args.top_p, args.top_k,
            args.repetition_penalty, more, args.chat_template_kwargs or {},
        )  # fmt: skip
        return replace(ask, **checked_sampling(self.sampling))

    def config(self, domain: Domain) -> VPOConfig:
        """Return the settings of the trainer. Raises `ConfigError` for an unknown or invalid setting."""
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        batch = self.prompts * self.rollouts
        if batch % processes:
            raise ConfigError(
                f"{self.prompts} prompts of {self.rollouts} rollouts cannot be shared by {processes} "
                "processes; change --prompts or --rollouts"
            )
        mine = batch // processes
        most = min(mine, 8) if torch.accelerator.is_available() else mine
        at_once = max(size for size in range(1, most + 1) if mine % size == 0)
        is_bundled = self.model is None
        values: dict[str, Any] = {
            "output_dir": self.output, "seed": self.seed, "max_steps": self.steps,
            "objective": self.objective, "answers_per_chain": self.answers_per_chain,
            "num_generations": self.rollouts,
            "per_device_train_batch_size": at_once, "max_completion_length": domain.max_tokens,
            "learning_rate": _LEARNING_RATES["bundled" if is_bundled else "lora" if self.lora else "full"],
            "lr_scheduler_type": "constant" if is_bundled else "linear",
            "scalar": () if self.goals else domain.scalar,
            "use_cpu": not torch.accelerator.is_available(), "report_to": "none", "logging_steps": 1,
            "save_steps": max(1, min(50, self.steps // 4)), "save_total_limit": 2, "disable_tqdm": True,
        } | checked_settings(self.settings)  # fmt: skip
        values.setdefault("gradient_accumulation_steps", mine // values["per_device_train_batch_size"] or 1)
        check_vllm(values)
        try:
            return VPOConfig(**values)
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise ConfigError(f"settings of the trainer: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """Return, as JSON, everything that identifies this training, including digests of its files."""
        files = [*files_of(self.data), *files_of(self.test_data), Path(self.domain)]
        files += sorted(Path(self.model).glob("*.safetensors")) if self.model is not None else []
        own = {"report_to", "logging_steps", "save_steps", "save_total_limit"}
        changes = dict.fromkeys(("output", "data_sha256", "test_data_sha256"), "") | {
            "files": [file_digests(file.parent, [file]) for file in files],
            "settings": {name: value for name, value in self.settings.items() if name not in own},
        }
        return dict(json.loads(json.dumps(asdict(self) | changes, default=str)))


_OPTIONS = {
    "output_dir": "--output", "max_steps": "--steps", "seed": "--seed", "objective": "--objective",
    "answers_per_chain": "--answers", "num_generations": "--rollouts",
}  # fmt: skip


def checked_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of `VPOConfig` converted to their types. Raises `ConfigError` if one is invalid."""
    names = [one.name for one in fields(VPOConfig) if one.init]
    hints = get_type_hints(VPOConfig)
    found = {}
    for name, value in given.items():
        if name in _OPTIONS:
            raise ConfigError(f"--set {name}: this is the option {_OPTIONS[name]}; give that one")
        if name not in names:
            raise ConfigError(f"--set {name}: VPOConfig has no such setting; {nearest_hint(name, names)}")
        try:
            found[name] = TypeAdapter(hints[name]).validate_python(value)
        except ValidationError as error:
            raise ConfigError(
                f"--set {name}: expected {hints[name]}, found {value!r}; {error.errors()[0]['msg']}"
            ) from error
    return found


def check_vllm(settings: Mapping[str, Any]) -> None:
    if settings.get("use_vllm") and find_spec("vllm") is None:
        raise ConfigError(
            "use_vllm: expected vLLM, found none installed; pip install 'evovpo[vllm]', or sample with "
            "transformers: --set use_vllm=false (of a recipe settings.use_vllm=false)"
        )


def checked_sampling(given: Mapping[str, float]) -> dict[str, Any]:
    """Return the sampling settings as a dictionary. Raises `ConfigError` for an unknown setting."""
    names = list(Ask(1).settings)
    for name in given:
        if name not in names:
            raise ConfigError(f"sampling: unknown setting {name!r}; {nearest_hint(name, names)}")
    return dict(given)


class TrainingResult(NamedTuple):
    """The result of a training; its fields are the keys of the JSON that `evovpo train` prints."""

    steps: int
    before: dict[str, float] | None
    """best@k of the start model, by k; None if nothing was measured."""
    after: dict[str, float] | None
    output: str
    expected_before: dict[str, float] | None = None
    """Expected best@k of the start model under random weightings (E_w best@k), by k."""
    expected_after: dict[str, float] | None = None
    gain: dict[str, float] | None = None
    """E_w best@k of the trained model minus the start model's, at the largest k: mean and 95 % interval."""
    tokens: int = 0
    """Completion and prompt tokens of the training."""


Watch: TypeAlias = Callable[[str, int, int, str], None]
"""A progress callback. It gets an activity (or a note, if the total is 0), amount done, total and a text."""


class _Callback(TrainerCallback):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.begin: Callable[[], None] = lambda: None
        """Called once the model is on its training device."""

    def on_train_begin(self, *given: Any, **named: Any) -> None:
        self.begin()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if "set_score" in (logs or {}):
            said = f"set score {logs['set_score']:.3f}  mean reward {logs['mean_reward']:.3f}"
            self._watch("training", state.global_step, state.max_steps, said)


def train(asked: TrainingRequest, watch: Watch = lambda *said: None) -> TrainingResult:
    """Train a model, measure it on held-out prompts before and after, and write the output folder.

    Every process of `accelerate launch` calls this function and gets the same result. A finished training is
    not repeated, and an interrupted training continues. Raises `ConfigError` if the request is invalid or the
    folder belongs to another training, `PolicyError` if the model is unreadable, and `TrainingError` if the
    training diverges.
    """
    output, record = Path(asked.output), {"asked": asked.as_json()}
    stored = _stored(output, record["asked"])
    if result := stored.get("result"):
        watch(f"This training was made before; {output} holds it.", 0, 0, "")
        return TrainingResult(**result)
    test_prompts = asked.open(for_test=True) if asked.test else contextlib.nullcontext()
    with asked.open(for_test=False) as domain, test_prompts as test:
        trainer, callback = make_trainer(asked, domain, watch)
        accelerator, before = trainer.accelerator, stored.get("before")
        accelerator.wait_for_everyone()  # until all processes have read the folder

        def write(**more: Any) -> None:
            if accelerator.is_main_process:
                with write_errors(f"{output}:"):
                    output.mkdir(parents=True, exist_ok=True)
                    write_json(output / TRAINING_FILE, record | more, indent=1)

        def measure_before() -> None:
            nonlocal before
            before = _measured(asked, trainer, test, "before", watch)
            write(before=before)

        write(before=before)
        last = _last_checkpoint(output)
        if last is not None:
            watch(f"Going on from {last}.", 0, 0, "")
        elif test is not None:  # measured once on the training devices, possibly sharded
            callback.begin = measure_before
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
        model: Any = trainer.model
        if not all(bool(torch.isfinite(weights).all()) for weights in model.parameters()):
            raise TrainingError(
                f"the training in {output} diverged: weights are not finite; lower learning_rate"
            )
        after = _measured(asked, trainer, test, "after", watch)
        _write_model(trainer, output)
        found = TrainingResult(
            asked.steps, None, None, str(output), tokens=int(trainer.state.num_input_tokens_seen)
        )
        if before and after:
            most = str(max(asked.ks))
            ours, theirs = (by_prompt(rows, "expected_best_at_k", most) for rows in (after, before))
            found = found._replace(
                before=means(before, "best_at_k"), after=means(after, "best_at_k"),
                expected_before=means(before, "expected_best_at_k"),
                expected_after=means(after, "expected_best_at_k"),
                gain=ends(difference(ours, theirs).interval),
            )  # fmt: skip
        write(result=found._asdict(), before=before, after=after)
        accelerator.wait_for_everyone()
        return found


def make_trainer(
    asked: TrainingRequest, domain: Domain, watch: Watch = lambda *said: None
) -> tuple[VPOTrainer, _Callback]:
    """Return the trainer and its callback. Raises `ConfigError` or `PolicyError` for an invalid request."""
    config, folder = asked.config(domain), asked.start(domain)
    tokenizer = load_tokenizer(folder)
    domain.check_tokens(tokenizer)
    prompts = [as_text(row["prompt"], tokenizer) for row in domain.prompts]

    def reward_vectors(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], row: Sequence[int], **_: Any
    ) -> list[Any]:
        # The dataset holds row numbers only: its tables would pad columns of differing shapes. Texts are
        # decoded again: TRL may have removed thoughts and calls from them.
        texts = tokenizer.batch_decode(completion_ids, skip_special_tokens=True)
        rows = [domain.prompts[number] for number in row]
        found = domain.score_rows(texts, completion_ids, rows)
        return by_goal(found, rows) if asked.goals else found

    adapter = None
    if asked.lora:
        from peft import LoraConfig, TaskType

        rank, task = asked.lora, TaskType.CAUSAL_LM
        adapter = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type=task)
    callback = _Callback(watch)
    with no_progress_bar():
        trainer = VPOTrainer(
            model=str(folder),
            reward_vector_funcs=reward_vectors,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": one, "row": row} for row, one in enumerate(prompts)]),
            processing_class=tokenizer,
            peft_config=adapter,
            callbacks=[callback],
        )
    trainer.remove_callback(PrinterCallback)
    return trainer, callback


def _stored(output: Path, asked_for: Mapping[str, Any]) -> dict[str, Any]:
    file = output / TRAINING_FILE
    if not file.exists():
        if output.exists() and any(output.iterdir()):
            raise ConfigError(f"{output} holds other files; choose an empty or new folder with --output")
        return {}
    try:
        stored = dict(json.loads(file.read_text(encoding="utf-8")))
        before = dict(stored["asked"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: expected the record of a training ({error}); remove it") from error
    others = sorted(
        name for name in {*before, *asked_for} if (before.get(name) or None) != (asked_for.get(name) or None)
    )
    if others:
        changes = ", ".join(f"{name} {before.get(name)!r}" for name in others)[:300]
        raise ConfigError(
            f"{output} holds a training with {changes}; ask for the same to go on, or choose another --output"
        )
    return stored


def _last_checkpoint(output: Path) -> Path | None:
    whole = [file.parent for file in output.glob("checkpoint-*/trainer_state.json")]
    return max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def _measured(
    asked: TrainingRequest, trainer: VPOTrainer, test: Domain | None, name: str, watch: Watch
) -> list[dict[str, Any]] | None:
    if test is None:
        return None
    accelerator, total = trainer.accelerator, len(test.prompts)
    count, first = accelerator.num_processes, accelerator.process_index
    # Each process samples equally many prompts (some twice): sharded models need all processes for this.
    mine = [(place + first) % total for place in range(0, total, count)]
    args: Any = trainer.args
    test = replace(test, max_tokens=min(test.max_tokens, args.max_completion_length))
    tokenizer: Any = trainer.processing_class
    ask = asked.ask(args)
    with trainer.model_for_generation() as model:
        policy = LoadedModel(model, tokenizer, end_ids(model, tokenizer))
        found = complete(
            policy, test, [test.prompts[row] for row in mine], ask,
            lambda done: watch(f"measuring {name}", min(done * count, total), total, ""),
        )  # fmt: skip
    everyone = dict(gather_object(list(zip(mine, found, strict=True))))
    return figures(name, [everyone[row] for row in range(total)], asked.ks, ask, test).rows()


def _write_model(trainer: VPOTrainer, output: Path) -> None:
    trained: Any = trainer.accelerator.unwrap_model(trainer.model)
    if not hasattr(trained, "merge_and_unload"):
        trainer.save_model(str(output))
        return
    trainer.save_model(str(output / ADAPTER))
    if trainer.accelerator.is_main_process:
        with no_progress_bar(), write_errors(f"{output}:"):
            trained.merge_and_unload().save_pretrained(output)
            trainer.processing_class.save_pretrained(output)  # type: ignore[union-attr]
