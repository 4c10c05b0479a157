"""The domains with a start model of their own: tasks, prompts and completions as its token ids.

Studies train on these; `trainer/domains/domain.py` gives them to everyone as text. They are in
`trainer/domains/strings/domain.py` and `trainer/domains/maze/domain.py`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import ConfigError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.maze import MAZE_MODEL

START_FOLDERS = {"strings": BUILT_IN_MODEL, "maze": MAZE_MODEL, "maze-conflict": MAZE_MODEL}
"""The domains by name, each with the folder of its own start model."""
Split: TypeAlias = Literal["train", "validation", "test"]


class TokenDomain(Protocol):
    """A family of tasks with one prompt format and one start model."""

    @property
    def name(self) -> str: ...
    @property
    def model_folder(self) -> Path:
        """Folder of the start model."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the reward components; a task with fewer of them has the first ones."""

    @property
    def shows_parents(self) -> bool:
        """True if a prompt can show an answer to improve on."""

    def max_tokens(self, answers: int) -> int:
        """Return the longest completion worth sampling."""

    def tasks(self, split: Split, count: int, seed: int = 0) -> Sequence[Any]:
        """Return the first `count` tasks of a split: the same for a seed, and none of another split."""

    def prompt_ids(self, task: Any, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the prompt that asks for `answers` answers.

        `parent` is the key of an answer that `judge` returned for this task: the prompt shows it with what it
        gave, as a search does. Only where `shows_parents`.
        """

    def judge(self, task: Any, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return exactly `answers` answers of a completion, filled up with missing ones.

        A repeated answer has its key and its rewards again; blanking it is the caller's. One on which the
        sandbox failed has no rewards, and its completion is no part of any figure or group.
        """


@contextmanager
def open_token_domain(name: str, start: Path | None = None) -> Iterator[TokenDomain]:
    """Yield a domain, ready to judge, with its own start model or the one in the folder `start`.

    Raises `ConfigError` for an unknown name, `SandboxError` if the sandbox of the strings cannot be started.
    """
    if name not in START_FOLDERS:
        raise ConfigError(f"unknown domain {name!r}; expected {' or '.join(START_FOLDERS)}")
    folder = start or START_FOLDERS[name]
    if name.startswith("maze"):
        from trainer.domains.maze.domain import COMPONENTS, CONFLICT, MazeDomain

        components = CONFLICT if name == "maze-conflict" else COMPONENTS
        yield MazeDomain(model_folder=folder, name=name, components=components)
    else:
        from evovpo.sandbox import Sandbox
        from trainer.domains.strings.domain import StringDomain

        with Sandbox(workers=1, preload=()) as sandbox:
            yield StringDomain(folder, sandbox)
