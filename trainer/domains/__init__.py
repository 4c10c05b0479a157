"""Domains for training without a search. A domain has tasks, prompts and rewards."""

from trainer.domains.catalogue import open_domain
from trainer.domains.domain import Domain

__all__ = ["Domain", "open_domain"]
