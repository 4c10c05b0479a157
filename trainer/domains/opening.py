"""Opens a domain by its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import ConfigError
from trainer.domains.domain import Domain
from trainer.domains.maze import MAZE_MODEL

DOMAINS = ("strings", "maze")


def start_folder(name: str) -> Path:
    """Return the folder of a domain's own start model."""
    return MAZE_MODEL if name == "maze" else BUILT_IN_MODEL


@contextmanager
def open_domain(name: str, start: Path | None = None) -> Iterator[Domain]:
    """Yield a domain, ready to judge, with its own start model or the one in the folder `start`.

    Raises `ConfigError` for an unknown name.
    """
    folder = start or start_folder(name)
    if name == "strings":
        from trainer.domains.strings.domain import StringDomain

        with StringDomain(folder) as domain:
            yield domain
    elif name == "maze":
        from trainer.domains.maze.domain import MazeDomain

        yield MazeDomain(model_folder=folder)
    else:
        raise ConfigError(f"unknown domain {name!r}; expected strings or maze")
