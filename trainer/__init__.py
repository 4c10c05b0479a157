"""Trains the model that proposes programs, from stored runs or on-policy with TRL (`VPOTrainer`)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.learning.vpo_trainer import VPOConfig, VPOTrainer

__all__ = ["VPOConfig", "VPOTrainer"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'trainer' has no attribute {name!r}")
    from trainer.learning import vpo_trainer  # torch, transformers and TRL

    return getattr(vpo_trainer, name)
