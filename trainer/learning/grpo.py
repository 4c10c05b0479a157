"""On-policy training with TRL, and the only file that imports it.

`VPOTrainer` is TRL's `GRPOTrainer` with two differences: a reward function returns the reward vectors of all
answers of a completion instead of one number, and the advantages come from `trainer.objectives`. Generation,
loss, optimiser, logging, checkpoints, PEFT, vLLM and several processes are TRL's own. Training from logs is
in `trainer/learning/offline.py`; both share the objectives, and a test holds their gradients together.

How it is built on TRL: one reward function keeps the vectors, and one hook after
`_generate_and_score_completions` replaces the advantages. What that relies on is checked on every batch and a
`TrainingError` says so if TRL changed. TRL itself reports anonymous use to Hugging Face when a trainer is
made, unless HF_HUB_DISABLE_TELEMETRY=1 is set.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import trl
from accelerate.utils import gather_object
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

from evovpo.errors import ConfigError, TrainingError
from trainer.config import ObjectiveConfig
from trainer.learning.offline import spread_advantages
from trainer.learning.step_figures import group_figures, mean_figures
from trainer.objectives import advantages, batch_advantages, draw_weights, find_objective, set_scores

Floats: TypeAlias = npt.NDArray[np.float64]
Span: TypeAlias = tuple[int, int]
_DEFAULT = ObjectiveConfig()
_HOOK = "_generate_and_score_completions"
_TRAIN, _EVALUATE, _FIGURES = range(3)
"""Streams of random weightings, all from the seed of the configuration."""


class Answers(NamedTuple):
    """What a reward function says about one completion when it knows where each answer stands."""

    rewards_M_D: npt.ArrayLike  # noqa: N815
    """Reward vector of each answer in [0, 1], in the order written."""
    spans: Sequence[Span | None]
    """Half-open range of `completion_ids` that wrote each answer, ascending; none if it is unknown."""


RewardVectorFunc: TypeAlias = Callable[..., "Sequence[npt.ArrayLike | Answers | None]"]
"""Called as TRL calls a reward function: with `prompts`, `completions`, `completion_ids`, every other column
of the dataset, `trainer_state`, `log_metric` and `log_extra`, all by name. Returns for each completion

- an array `[m, D]` with m at most `answers_per_chain`, values in [0, 1]. A completion without answers is an
  empty array; a repeated answer is a row of zeros. D may differ between prompts;
- or `Answers`, which objectives with credit per answer need;
- or None for a fault outside the candidate, such as a sandbox that broke: the rollout leaves its group.
"""


def _has_accelerator() -> bool:
    return torch.accelerator.is_available()


@dataclass
class VPOConfig(GRPOConfig):
    """TRL's `GRPOConfig` with the objective; arms of a comparison differ in `objective` alone.

    Settings that an objective does not read are ignored, so that arms can share them. Defaults that differ
    from TRL's: `beta` 1e-3 and `delta` 3 as in VPO's code (delta is its dual clip); no
    `use_bias_correction_kl`, so that the KL term is the plain k3 estimate of VPO's code and of
    `trainer/learning/offline.py` (TRL multiplies it by the importance ratio, another gradient even
    on-policy); mixed precision, gradient checkpointing and pinned memory only where there is an accelerator.
    One of TRL's needs a thought: `learning_rate` 1e-6, falling linearly, suits large models, not those made
    from scratch.

    `loss_type` "dapo", TRL's default, is the token mean over the batch: exact under gradient accumulation,
    because it divides by the tokens of the whole batch ("bnpo" averages means of unequal parts). When one
    batch serves several optimiser steps it divides by the mean of their tokens, so all tokens weigh alike.

    Raises `ConfigError` for an unknown objective, a setting out of range, more than one answer for an
    objective of single answers, or a setting of TRL that the objective replaces.
    """

    objective: str = _DEFAULT.name
    """A name of `trainer.objectives.OBJECTIVES`."""
    answers_per_chain: int = 3
    """M: answers that a completion may hold; 1 for objectives of single answers."""
    draws: int = _DEFAULT.draws
    """As the other settings down to `weight_sampler` (its `sampler`), see `ObjectiveConfig`."""
    alpha: float = _DEFAULT.alpha
    k: int = _DEFAULT.k
    c: int = _DEFAULT.c
    reading: str = _DEFAULT.reading
    weight_sampler: str = _DEFAULT.sampler
    beta: float = 1e-3
    delta: float | None = 3.0
    use_bias_correction_kl: bool = False
    gradient_checkpointing: bool = field(default_factory=_has_accelerator)
    dataloader_pin_memory: bool = field(default_factory=_has_accelerator)

    def __post_init__(self) -> None:
        if self.bf16 is None:
            self.bf16 = not (self.fp16 or self.use_cpu) and is_torch_bf16_gpu_available()
        super().__post_init__()  # type: ignore[no-untyped-call]
        objective = find_objective(self.objective)
        if self.answers_per_chain < 1 or (objective.answers == "one" and self.answers_per_chain > 1):
            expected = "1" if objective.answers == "one" else "1 or more"
            raise ConfigError(
                f"objective {self.objective} expects answers_per_chain to be {expected}, found "
                f"{self.answers_per_chain}; change it, and prompts and reward functions with it"
            )
        replaced = {"scale_rewards": "group", "reward_weights": None,
                    "multi_objective_aggregation": "sum_then_normalize"}  # fmt: skip
        for name, default in replaced.items():
            if getattr(self, name) != default:
                raise ConfigError(
                    f"{name} = {getattr(self, name)!r} has no effect: advantages are those of objective "
                    f"{self.objective}; leave it at {default!r}"
                )
        # A dry run finds whatever the objective refuses, before anything is generated.
        for rollouts in {self.num_generations, self.num_generations_eval or self.num_generations}:
            nothing = np.zeros((rollouts or 0, self.answers_per_chain, 1))
            advantages(self.objective, nothing, rng=np.random.default_rng(0), **self.objective_settings())

    def objective_settings(self) -> dict[str, Any]:
        """Return the settings as `trainer.objectives.advantages` takes them."""
        return {"draws": self.draws, "alpha": self.alpha, "k": self.k, "c": self.c,
                "reading": self.reading, "sampler": self.weight_sampler}  # fmt: skip


class VPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` on reward vectors, for any prompt dataset.

        trainer = VPOTrainer(
            model="path/to/model",
            reward_vector_funcs=score,            # see RewardVectorFunc
            args=VPOConfig(objective="vpo", answers_per_chain=3, output_dir="runs/vpo"),
            train_dataset=dataset,                # a column "prompt", any others reach `score`
        )
        trainer.train()

    Several functions are concatenated along D; they must agree on the number of answers. Every argument of
    `GRPOTrainer` but `reward_funcs` works as there.

    A rollout whose judgement is None counts in no mean and its tokens neither in the loss nor in its
    denominator. With credit per answer (`vpo-to-go`) the tokens of an answer and the one token behind it,
    its separator, get the answer's advantage, whatever follows the last answer gets that of the last, the
    end token too, and what comes before the first that of the first.

    `rollout_func` (TRL's hook for own generation) must return, beside `logprobs`, the `temperature` it
    sampled at, one number or one a completion. The log-probabilities then are the denominator of the
    importance ratio; TRL would ignore them and train as if the current policy had sampled.

    Weightings derive from `args.seed`, the optimiser step and the place of the group in its batch, so every
    process draws the same; evaluations draw the same ones each time. Figures beside TRL's, per log:
    `set_score`, `pool_score` (of all answers of a group), `mean_reward`, `pass_rate`, `diversity`,
    `zero_spread_share` (groups that taught nothing) and `faults` (rollouts that left their group). TRL's
    own `reward` is the set score under one set of weightings that never changes.

    Raises `ConfigError` for arguments that cannot be trained on, also while training if a reward or rollout
    function breaks its contract; `TrainingError` if TRL no longer works as this class expects.
    """

    _tag_names = ["trl", "vpo"]  # noqa: RUF012
    _name = "VPO"
    _paper = {}  # noqa: RUF012

    def __init__(
        self,
        model: Any,
        reward_vector_funcs: RewardVectorFunc | Sequence[RewardVectorFunc],
        args: VPOConfig | None = None,
        train_dataset: Any = None,
        *,
        rollout_func: Callable[..., Mapping[str, Any]] | None = None,
        **others: Any,
    ) -> None:
        args = VPOConfig() if args is None else args
        if not isinstance(args, VPOConfig):
            raise ConfigError(f"args: expected a VPOConfig, found {type(args).__name__}; build one")
        if "reward_funcs" in others:
            raise ConfigError("reward_funcs would not be used; give functions in reward_vector_funcs")
        if not hasattr(GRPOTrainer, _HOOK):
            raise _changed(f"GRPOTrainer has no {_HOOK}")
        if rollout_func is not None and args.use_vllm and args.vllm_importance_sampling_correction:
            raise ConfigError(
                "a rollout_func brings its own log-probabilities, and TRL would correct for them once more; "
                "set vllm_importance_sampling_correction=False"
            )
        functions = [reward_vector_funcs] if callable(reward_vector_funcs) else [*reward_vector_funcs]
        self._judge = _Judge(
            functions,
            args.answers_per_chain,
            needs_spans=find_objective(args.objective).credit == "answer",
            weights=lambda components: _weights(args, components),
        )
        self._config = args
        self._generations = (-1, 0)
        super().__init__(
            model=model,
            reward_funcs=self._judge,
            args=args,
            train_dataset=train_dataset,
            rollout_func=None if rollout_func is None else _checked_rollouts(rollout_func, args.temperature),
            **others,
        )
        if len(self.reward_funcs) != 1:
            raise ConfigError("an environment with get_reward() would not be used; reward it by vectors")
        if self.ref_model is not None and not isinstance(model, str):
            self._check_reference()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._judge.expect()
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch = self._judge.take()
        if batch is None:
            raise _changed("the reward function was not called once for a batch")
        _check_output(out, batch, len(inputs))
        model: Any = self.model
        mode = "train" if model.training else "eval"
        size: Any = self.num_generations if mode == "train" else self.num_generations_eval
        chains = gather_object(batch.chains)
        groups = _groups(chains, gather_object(batch.prompts), size, self._config.answers_per_chain)
        found = batch_advantages(
            self._config.objective,
            [group.rewards_G_M_D for group in groups],
            rng=np.random.default_rng(self._stream(mode)),
            valid=[group.valid_G for group in groups],
            **self._config.objective_settings(),
        )
        everyone = np.concatenate(found)
        here = slice(
            self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs)
        )
        out["advantages"] = _advantage_tensor(everyone[here], batch, out)
        is_valid = np.concatenate([group.valid_G for group in groups])
        if not is_valid.all():
            self._leave_out(out, is_valid[here])
        if self.rollout_func is not None:
            out["old_per_token_logps"] = _behaviour(out)
        self._log_figures(mode, groups, found)
        return out

    def _stream(self, mode: str) -> list[int]:
        """Return the seed of this batch's weightings; batches of one optimiser step are counted."""
        if mode == "eval":
            return [self._config.seed, _EVALUATE]
        step, count = self._generations
        self._generations = (self.state.global_step, count + 1 if step == self.state.global_step else 0)
        return [self._config.seed, _TRAIN, *self._generations]

    def _leave_out(self, out: dict[str, Any], is_valid: npt.NDArray[np.bool_]) -> None:
        """Mask the tokens of rollouts that left their group, and take them from the loss's denominator."""
        mask = out["completion_mask"]
        kept = torch.as_tensor(is_valid, device=mask.device, dtype=mask.dtype)[:, None]
        out["tool_mask"] = out.get("tool_mask", torch.ones_like(mask)) * kept
        out["num_items_in_batch"] = self.accelerator.gather((mask * out["tool_mask"]).sum()).sum()

    def _log_figures(self, mode: str, groups: Sequence[_Group], found: Sequence[Floats]) -> None:
        for name, value in _figures(groups, found, lambda size: _weights(self._config, size)).items():
            self._metrics[mode][name].append(value)
        # The table of completions shows what was trained on: for credit per answer, the whole chain's.
        shown: Any = self._logs["advantages"]
        rows = [float(row if np.ndim(row) == 0 else row[0]) for group in found for row in group]
        for _ in range(min(len(rows), len(shown))):
            shown.pop()
        shown.extend(rows)

    def _check_reference(self) -> None:
        """Refuse a model whose weights are not those of the folder that TRL read the KL reference from."""
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            return
        model, reference = (self.accelerator.unwrap_model(each) for each in (self.model, self.ref_model))
        start = reference.state_dict()
        for name, value in model.state_dict().items():
            if name not in start or not torch.equal(value, start[name].to(value.device)):
                raise ConfigError(
                    "the KL term needs the start model, which TRL reads from "
                    f"{model.config._name_or_path!r}, and {name} differs there from the model given; "
                    "save the model and give its folder, or set beta=0"
                )


# ---------------------------------------------------------------- judging


class _Chain(NamedTuple):
    rewards_M_D: Floats  # noqa: N815
    """`[m, D]`, or `[0, 0]` for no answers."""
    spans: tuple[Span | None, ...] | None


class _Batch(NamedTuple):
    """The rows that the reward function saw, in order."""

    prompts: list[Any]
    completion_ids: list[list[int]]
    chains: list[_Chain | None]


class _Judge:
    """TRL's reward function: returns set scores for its figures and keeps the vectors for the hook."""

    __name__ = "set_score"

    def __init__(
        self,
        functions: Sequence[RewardVectorFunc],
        answers: int,
        *,
        needs_spans: bool,
        weights: Callable[[int], Floats],
    ) -> None:
        if not functions:
            raise ConfigError("reward_vector_funcs: expected at least one function, found none; give one")
        for function in functions:
            if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
                getattr(function, "__call__", None)  # noqa: B004
            ):
                raise ConfigError(f"{_name(function)} is asynchronous; wrap it in a plain function")
        self._functions, self._answers, self._needs_spans = functions, answers, needs_spans
        self._weights = weights
        self._is_expected = False
        self._batch: _Batch | None = None

    def expect(self) -> None:
        self._is_expected, self._batch = True, None

    def take(self) -> _Batch | None:
        self._is_expected = False
        return self._batch

    def __call__(
        self, prompts: list[Any], completions: list[Any], completion_ids: list[list[int]], **columns: Any
    ) -> list[float | None]:
        if not self._is_expected or self._batch is not None:
            raise _changed(f"rewards are not computed once in each {_HOOK}")
        chains: list[_Chain | None] | None = None
        for function in self._functions:
            name = _name(function)
            found = list(
                function(prompts=prompts, completions=completions, completion_ids=completion_ids, **columns)
            )
            if len(found) != len(prompts):
                raise ConfigError(
                    f"{name} judged {len(found)} completions; expected {len(prompts)}, one entry each"
                )
            parsed = [
                None if entry is None else _parsed(entry, name, self._answers, len(ids))
                for entry, ids in zip(found, completion_ids, strict=True)
            ]
            chains = parsed if chains is None else list(map(_joined, chains, parsed))
        assert chains is not None
        if self._needs_spans:
            for chain in chains:
                if chain is not None and chain.spans is None and len(chain.rewards_M_D):
                    raise ConfigError(
                        "the objective credits each answer, and no reward function said which tokens wrote "
                        "it; return Answers(rewards, spans), or choose an objective with one credit a chain"
                    )
        self._batch = _Batch(list(prompts), list(completion_ids), chains)
        return [None if chain is None else self._score(chain) for chain in chains]

    def _score(self, chain: _Chain) -> float:
        answers, components = chain.rewards_M_D.shape
        return float(set_scores([chain.rewards_M_D], self._weights(components))[0]) if answers else 0.0


def _parsed(entry: Any, name: str, most: int, tokens: int) -> _Chain:
    """Return one completion's judgement by one function. Raises `ConfigError` if it is none."""
    rewards, spans = (entry.rewards_M_D, entry.spans) if isinstance(entry, Answers) else (entry, None)
    if isinstance(rewards, torch.Tensor):
        rewards = rewards.detach().float().cpu().numpy()
    try:
        array = np.asarray(rewards, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name}: expected an array [m, D] of numbers for a completion, found {rewards!r}"
        ) from error
    if array.size == 0 and array.ndim < 3 and not len(array):
        array = array.reshape(0, 0)
    if array.ndim != 2 or (len(array) and not array.shape[1]) or len(array) > most:
        raise ConfigError(
            f"{name}: expected an array [m, D] for a completion, m at most {most} (answers_per_chain), "
            f"found shape {array.shape}"
        )
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise ConfigError(
            f"{name}: rewards lie in [0, 1], found {array.min()} to {array.max()}; rescale them: a missing "
            "answer counts as zeros, which must not be a good reward"
        )
    return _Chain(array, None if spans is None else _checked_spans(spans, name, len(array), tokens))


def _checked_spans(
    spans: Sequence[Span | None], name: str, answers: int, tokens: int
) -> tuple[Span | None, ...]:
    known = [span for span in spans if span is not None]
    ends = [0, *(position for span in known for position in span), tokens]
    if len(spans) != answers or any(len(span) != 2 for span in known) or ends != sorted(ends):
        raise ConfigError(
            f"{name}: expected {answers} ascending spans (start, end) within {tokens} completion tokens, one "
            f"an answer, found {list(spans)}"
        )
    return tuple(None if span is None else (int(span[0]), int(span[1])) for span in spans)


def _joined(one: _Chain | None, other: _Chain | None) -> _Chain | None:
    """Return the judgements of two functions side by side; none if either is."""
    if one is None or other is None:
        return None
    if len(one.rewards_M_D) != len(other.rewards_M_D):
        raise ConfigError(
            f"reward functions found {len(one.rewards_M_D)} and {len(other.rewards_M_D)} answers in one "
            "completion; they must split it alike"
        )
    if one.spans is not None and other.spans is not None and one.spans != other.spans:
        raise ConfigError(
            f"reward functions found answers at {one.spans} and {other.spans} in one completion; they must "
            "split it alike"
        )
    rewards = np.concatenate([one.rewards_M_D, other.rewards_M_D], axis=1)
    return _Chain(rewards, other.spans if one.spans is None else one.spans)


# ---------------------------------------------------------------- groups


class _Group(NamedTuple):
    rewards_G_M_D: Floats  # noqa: N815
    """Missing answers and rollouts that are not valid as zeros."""
    valid_G: npt.NDArray[np.bool_]  # noqa: N815


def _groups(chains: Sequence[_Chain | None], prompts: Sequence[Any], size: int, answers: int) -> list[_Group]:
    """Return the groups of a gathered batch: every `size` rows in a row."""
    if len(chains) % size or len(chains) != len(prompts):
        raise _changed(f"{len(chains)} rows are not groups of {size}")
    groups = []
    for start in range(0, len(chains), size):
        members = chains[start : start + size]
        if any(prompt != prompts[start] for prompt in prompts[start : start + size]):
            raise _changed("the rollouts of one prompt are not consecutive rows")
        sizes = {chain.rewards_M_D.shape[1] for chain in members if chain is not None} - {0}
        if len(sizes) > 1:
            raise ConfigError(
                f"rewards of one prompt have {sorted(sizes)} components; return the same number for all"
            )
        rewards = np.zeros((size, answers, next(iter(sizes), 1)))
        for row, chain in zip(rewards, members, strict=True):
            if chain is not None and chain.rewards_M_D.size:
                row[: len(chain.rewards_M_D)] = chain.rewards_M_D
        groups.append(_Group(rewards, np.array([chain is not None for chain in members])))
    return groups


def _advantage_tensor(rows: Floats, batch: _Batch, out: Mapping[str, Any]) -> torch.Tensor:
    """Return advantages (B), or (B, T) with credit per answer, as TRL's loss takes them."""
    like = out["advantages"]
    if rows.ndim == 1:
        return torch.as_tensor(rows, dtype=like.dtype, device=like.device)
    spans = [() if chain is None else chain.spans or () for chain in batch.chains]
    spread = spread_advantages(rows, spans, [len(ids) for ids in batch.completion_ids])
    table = torch.zeros(out["completion_ids"].shape, dtype=like.dtype)
    for target, values in zip(table, spread, strict=True):
        target[: len(values)] = torch.as_tensor(values)
    return table.to(like.device)


def _figures(
    groups: Sequence[_Group], found: Sequence[Floats], weights: Callable[[int], Floats]
) -> dict[str, float]:
    """Return the figures of one batch: means over its groups with a valid rollout; faults as a count."""
    judged = [(group, values) for group, values in zip(groups, found, strict=True) if group.valid_G.any()]
    figures = {"faults": float(sum((~group.valid_G).sum() for group in groups))}
    if not judged:
        return figures
    means = mean_figures(
        [group_figures([*group.rewards_G_M_D[group.valid_G]], (), weights(group.rewards_G_M_D.shape[2]))
         for group, _ in judged]
    )._asdict()  # fmt: skip
    del means["distinct"]
    return figures | means | {"zero_spread_share": float(np.mean([not values.any() for _, values in judged]))}


def _weights(args: VPOConfig, components: int) -> Floats:
    """Return the weightings under which figures are comparable over a whole training."""
    rng = np.random.default_rng([args.seed, _FIGURES])
    return draw_weights(components, args.draws, rng, alpha=args.alpha, sampler=args.weight_sampler)


# ---------------------------------------------------------------- what TRL does, checked


def _check_output(out: Any, batch: _Batch, rows: int) -> None:
    """Raise `TrainingError` unless TRL's batch holds the rows that were judged, in their order."""
    for key in ("advantages", "completion_ids", "completion_mask", "num_items_in_batch"):
        if not isinstance(out, dict) or not isinstance(out.get(key), torch.Tensor):
            raise _changed(f"a batch has no tensor {key!r}")
    for key in ("advantages", "completion_ids", "completion_mask"):
        if len(out[key]) != rows or len(batch.prompts) != rows:
            raise _changed(f"{len(out[key])} rows of {key!r} for {rows} prompts")
    for row, ids in zip(out["completion_ids"].tolist(), batch.completion_ids, strict=True):
        if row[: len(ids)] != list(ids):
            raise _changed("a batch holds other completions than were judged, or in another order")


def _behaviour(out: Mapping[str, Any]) -> torch.Tensor:
    logprobs = out.get("sampling_per_token_logps")
    if logprobs is None or logprobs.shape != out["completion_ids"].shape:
        raise _changed("the log-probabilities of rollout_func do not reach the batch")
    assert isinstance(logprobs, torch.Tensor)
    return logprobs


def _checked_rollouts(
    rollout_func: Callable[..., Mapping[str, Any]], temperature: float
) -> Callable[..., dict[str, Any]]:
    """Return `rollout_func` with its output checked.

    TRL neither uses its log-probabilities nor notices another temperature, and would train on a wrong ratio
    without a word.
    """

    def rollouts(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        output = dict(rollout_func(prompts, trainer))
        missing = [key for key in ("logprobs", "temperature", "completion_ids") if output.get(key) is None]
        if missing:
            raise ConfigError(
                f"rollout_func returned no {' and no '.join(missing)}; return the behaviour policy's "
                "log-probability of every completion token and the temperature it sampled at"
            )
        sampled_at = output.pop("temperature")
        for value in [sampled_at] if isinstance(sampled_at, Real) else sampled_at:
            if not math.isclose(value, temperature, rel_tol=1e-6):
                raise ConfigError(
                    f"rollout_func sampled at temperature {value}, and training computes probabilities at "
                    f"{temperature}; set temperature={value} in VPOConfig or sample at {temperature}"
                )
        lengths = [len(ids) for ids in output["completion_ids"]]
        if [len(row) for row in output["logprobs"]] != lengths or not all(
            isinstance(value, Real) and math.isfinite(value) and value <= 1e-6
            for row in output["logprobs"]
            for value in row
        ):
            raise ConfigError(
                "rollout_func: expected one finite natural log-probability, at most 0, for every completion "
                "token; found another number of them, or other values"
            )
        return output

    return rollouts


def _changed(what: str) -> TrainingError:
    return TrainingError(
        f"TRL {trl.__version__} does not work as trainer/learning/grpo.py expects: {what}; "
        "install a version that pyproject.toml allows"
    )


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
