"""Domains to train on without a search: tasks, prompts, rewards."""

from trainer.domains.catalogue import open_domain
from trainer.domains.domain import Domain

__all__ = ["Domain", "open_domain"]
