"""What a study trains on: tasks with prompts, and answers with reward vectors.

`trainer/domains/strings/domain.py` and `trainer/domains/maze/domain.py` are the domains.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from evovpo.judging.measure import JudgedAnswer

Split: TypeAlias = Literal["train", "validation", "test"]


class Domain(Protocol):
    """A family of tasks with one prompt format and one start model."""

    @property
    def name(self) -> str: ...
    @property
    def model_folder(self) -> Path:
        """Folder of the start model."""
        ...

    @property
    def shows_parents(self) -> bool:
        """True if a prompt can show an answer to improve on."""
        ...

    def max_tokens(self, answers: int) -> int:
        """Return the longest completion worth sampling."""
        ...

    def tasks(self, split: Split, count: int, seed: int = 0) -> Sequence[Any]:
        """Return the first `count` tasks of a split: the same for a seed, and none of another split."""
        ...

    def prompt_ids(self, task: Any, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the prompt that asks for `answers` answers.

        `parent` is the key of an answer that `judge` returned for this task: the prompt shows it with what it
        gave, as a search does. Only where `shows_parents`.
        """
        ...

    def judge(self, task: Any, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return exactly `answers` answers of a completion, filled up with missing ones.

        A repeated answer has its key and its rewards again; blanking it is the caller's. One on which the
        sandbox failed has no rewards, and its completion is no part of any figure or group.
        """
        ...
