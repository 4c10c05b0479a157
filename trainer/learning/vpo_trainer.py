"""On-policy training with TRL.

`VPOTrainer` is TRL's `GRPOTrainer` with two differences: its reward function returns one reward vector per
answer of a completion, and the advantages come from `trainer.objectives`.

TRL reports anonymous usage to Hugging Face unless HF_HUB_DISABLE_TELEMETRY=1 is set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl import GRPOConfig  # type: ignore[attr-defined]

from evovpo.errors import ConfigError, TrainingError
from trainer.config import ObjectiveConfig
from trainer.learning.reward_vectors import (
    JudgedBatch,
    JudgedGroup,
    RewardFunction,
    RewardVectorFunc,
    figures_of,
    groups_of,
)
from trainer.learning.trl_hook import Batch, HookedTrainer, changed, check_output
from trainer.objectives import Floats, advantages, batch_advantages, draw_weights, find_objective

_DEFAULT = ObjectiveConfig()
_TRAIN, _EVALUATE, _FIGURES = range(3)
"""Numbers that, with the configured seed, give each use of random weightings its own random stream."""


@dataclass
class VPOConfig(GRPOConfig):
    """TRL's `GRPOConfig` with settings of the objective. To compare objectives, change `objective` alone.

    Settings that an objective does not read are ignored. Some defaults differ from TRL's. `beta` is 1e-3 and
    `delta` (the dual clip) is 3, as in VPO's code. `use_bias_correction_kl` is off, so that the KL term is
    the plain k3 estimate of VPO's code. Mixed precision, gradient checkpointing and pinned memory are on only
    with an accelerator. The default `learning_rate`, 1e-6 with linear decay, suits large models only.

    Raises `ConfigError` for an unknown objective, a setting out of range, more than one answer for a
    single-answer objective, or a setting of TRL that the objective replaces.
    """

    objective: str = _DEFAULT.name
    """A name of `trainer.objectives.OBJECTIVES`."""
    answers_per_chain: int = 1
    """M, maximum answers per completion; usually 3 for objectives with several answers, such as `vpo`."""
    draws: int = _DEFAULT.draws
    """`draws`, `alpha` and `k` are explained in `ObjectiveConfig`."""
    alpha: float = _DEFAULT.alpha
    k: int | None = _DEFAULT.k
    scalar: tuple[float, ...] = ()
    """Component weights of the scalar reward; empty for the mean."""
    check_first_batch: bool = True
    """Stop if all rewards of the first batch are zero. Set this to false if zeros are expected."""
    beta: float = 1e-3
    delta: float | None = 3.0
    use_bias_correction_kl: bool = False
    gradient_checkpointing: bool = field(default_factory=torch.accelerator.is_available)
    dataloader_pin_memory: bool = field(default_factory=torch.accelerator.is_available)

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
        # A dry run raises the objective's errors before anything is generated.
        for rollouts in {self.num_generations, self.num_generations_eval or self.num_generations}:
            nothing = np.zeros((rollouts or 0, self.answers_per_chain, len(self.scalar) or 1))
            advantages(self.objective, nothing, rng=np.random.default_rng(0), **self.objective_settings())

    def objective_settings(self) -> dict[str, Any]:
        return {"draws": self.draws, "alpha": self.alpha, "k": self.k, "scalar": tuple(self.scalar)}


class VPOTrainer(HookedTrainer):
    """TRL's `GRPOTrainer` on reward vectors, for any prompt dataset.

        trainer = VPOTrainer(
            model="path/to/model",
            reward_vector_funcs=score,            # one function, see RewardVectorFunc
            args=VPOConfig(objective="vpo", answers_per_chain=3, output_dir="runs/vpo"),
            train_dataset=dataset,                # a column "prompt", any others reach `score`
        )
        trainer.train()

    `model` may also be a loaded model, with its tokenizer as `processing_class`. With a KL term, a loaded
    model needs an adapter (or `peft_config`), because TRL cannot load its start weights again.

    Other arguments are those of `GRPOTrainer`, except `reward_funcs` and `rollout_func`. A rollout for which
    the reward function returns None is left out of all means and of the loss.

    Random weightings derive from `args.seed`, the optimiser step and the place of the group in its batch. All
    evaluations use the same weightings. In addition to TRL's statistics, the trainer logs those of
    `GroupFigures`, `zero_spread_share` (share of groups without a gradient) and `faults` (excluded rollouts).
    In TRL's log, `reward` is the score of a completion's set of answers under fixed weightings.

    Raises `ConfigError` for invalid arguments, and during training for invalid results of the reward
    function. Raises `TrainingError` if TRL does not work as this class expects.
    """

    def __init__(
        self,
        model: Any,
        reward_vector_funcs: RewardVectorFunc,
        args: VPOConfig | None = None,
        train_dataset: Any = None,
        **others: Any,
    ) -> None:
        args = VPOConfig() if args is None else args
        if not isinstance(args, VPOConfig):
            raise ConfigError(f"args: expected a VPOConfig, found {type(args).__name__}; build one")
        if "reward_funcs" in others:
            raise ConfigError("reward_funcs would not be used; give a function in reward_vector_funcs")
        if others.get("rollout_func") is not None:
            raise ConfigError(
                "rollout_func: TRL ignores its log-probabilities and trains as if the model had sampled; "
                "leave it out"
            )
        if not callable(reward_vector_funcs):
            found = type(reward_vector_funcs).__name__
            raise ConfigError(
                f"reward_vector_funcs: expected one function, found a {found}; give the function"
            )
        self._judge = RewardFunction(
            reward_vector_funcs, args.answers_per_chain, lambda components: _weights(args, components)
        )
        self._config = args
        self._generations = (-1, 0)
        has_adapter = others.get("peft_config") is not None or hasattr(model, "peft_config")
        if args.beta and not isinstance(model, str) and not has_adapter:
            raise ConfigError(
                "the KL term needs the start model, which TRL reads from a folder or the hub; give its "
                "folder or name as model, or set beta=0"
            )
        super().__init__(
            model=model, reward_funcs=self._judge, args=args, train_dataset=train_dataset, **others
        )
        if len(self.reward_funcs) != 1:
            raise ConfigError("an environment with get_reward() would not be used; reward it by vectors")

    def with_advantages(self, inputs: Sequence[Any], generate: Callable[[], Batch]) -> Batch:
        batches: list[JudgedBatch] = []
        self._judge.batches = batches
        out = generate()
        self._judge.batches = None
        if not batches:
            raise changed("the reward function was not called once for a batch")
        batch = batches[0]
        check_output(out, batch.completion_ids, len(inputs))
        chains, prompts = gather_object(batch.chains), gather_object(batch.prompts)
        groups = groups_of(chains, prompts, self.group_size, self._config.answers_per_chain)
        found = batch_advantages(
            self._config.objective,
            [group.rewards_G_M_D for group in groups],
            rng=np.random.default_rng(self._stream()),
            valid=[group.valid_G for group in groups],
            **self._config.objective_settings(),
        )
        everyone = np.concatenate(found)
        first = self.accelerator.process_index * len(inputs)
        here = slice(first, first + len(inputs))
        like = out["advantages"]
        out["advantages"] = torch.as_tensor(everyone[here], dtype=like.dtype, device=like.device)
        is_valid = np.concatenate([group.valid_G for group in groups])
        if not is_valid.all():
            self.leave_out(out, is_valid[here])
        if self.mode == "train" and self._config.check_first_batch and self._generations == (0, 0):
            self._check_earned(groups, batch)
        figures = figures_of(groups, found, lambda size: _weights(self._config, size))
        self.log_figures(figures, [float(value) for group in found for value in group])
        return out

    def _stream(self) -> list[int]:
        if self.mode == "eval":
            return [self._config.seed, _EVALUATE]
        step, count = self._generations
        self._generations = (self.state.global_step, count + 1 if step == self.state.global_step else 0)
        return [self._config.seed, _TRAIN, *self._generations]

    def _check_earned(self, groups: Sequence[JudgedGroup], batch: JudgedBatch) -> None:
        if any(group.rewards_G_M_D.any() for group in groups):
            return
        tokenizer: Any = self.processing_class
        prompt = batch.prompts[0]
        asked = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        said = tokenizer.decode(batch.completion_ids[0])
        judged = sum(int(group.valid_G.sum()) for group in groups)
        raise TrainingError(
            f"none of the {judged} completions of the first batch that could be judged earned anything, so "
            "nothing can be learned from them; look at one, and teach the model the form of an answer, take "
            "easier prompts or more rollouts, or continue with --set check_first_batch=false.\n"
            f"Prompt:\n{asked[-1500:]}\nCompletion:\n{said[:1500]}"
        )


def _weights(args: VPOConfig, components: int) -> Floats:
    rng = np.random.default_rng([args.seed, _FIGURES])
    return draw_weights(components, ObjectiveConfig(**args.objective_settings()), rng)
