"""What is used of TRL beside its public interface: a new minor of TRL has to pass this."""

import inspect
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny_models import write_tiny_folder
from trl import GRPOTrainer  # type: ignore[attr-defined]

import trainer
from trainer.learning.trl_hook import HOOK
from trainer.learning.vpo_trainer import VPOConfig, VPOTrainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_trl")]


def test_nothing_else_of_ours_reaches_into_trl() -> None:
    private = re.compile(rf"\b{HOOK}\(|self\._(?:metrics|logs|dist)\b|num_generations_eval if")
    folder = Path(inspect.getfile(trainer)).parent
    found = {path.name for path in folder.rglob("*.py") if private.search(path.read_text(encoding="utf-8"))}
    assert found == {"trl_hook.py"}
    source = inspect.getsource(GRPOTrainer)
    for name in (HOOK, "self._metrics[mode]", 'self._logs["advantages"]', "self._dist.summon_full_params"):
        assert name in source


def test_a_batch_is_one_of_trls_with_other_advantages_and_sharded_weights_are_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny_folder(tmp_path / "model")
    seen: list[dict[str, Any]] = []

    class Noting(VPOTrainer):
        def with_advantages(self, inputs: Any, generate: Any) -> Any:
            out = super().with_advantages(inputs, generate)
            seen.append(out)
            return out

    args = VPOConfig(
        output_dir=str(tmp_path / "out"), objective="grpo", num_generations=4, max_steps=1, use_cpu=True,
        per_device_train_batch_size=8, max_completion_length=6, save_strategy="no", report_to="none",
        disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    made = Noting(
        str(folder),
        lambda completion_ids, **_: [[[sum(ids) % 7 / 7]] for ids in completion_ids],
        args,
        Dataset.from_list([{"prompt": "a"}, {"prompt": "bc"}]),
    )
    made.train()
    (out,) = seen
    assert {
        "prompt_ids",
        "completion_ids",
        "completion_mask",
        "advantages",
        "num_items_in_batch",
    } <= out.keys()
    for group in torch.split(out["advantages"], 4):
        assert float(group.mean()) == pytest.approx(0, abs=1e-6)
    assert {"set_score", "mean_reward", "reward"} <= made.state.log_history[0].keys()

    gathered: list[dict[str, Any]] = []

    @contextmanager
    def summon(module: Any, **settings: Any) -> Any:
        gathered.append(settings)
        yield

    from torch.distributed.fsdp import FullyShardedDataParallel

    monkeypatch.setattr(FullyShardedDataParallel, "summon_full_params", staticmethod(summon))
    with made.model_for_generation():
        assert gathered == []
    made._dist.fsdp_version = 1
    with made.model_for_generation() as model:
        assert gathered == [{"recurse": False}]
        assert model is made.accelerator.unwrap_model(made.model_wrapped)
