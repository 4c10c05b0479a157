"""What can be trained on without a search: tasks, prompts, rewards."""

from trainer.domains.domain import Domain, open_domain

__all__ = ["Domain", "open_domain"]
