"""Domains: prompts to train on, and functions that judge the answers in completions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evovpo.errors import ConfigError
from evovpo.judging.measure import JudgedAnswer, without_repeats

Floats: TypeAlias = npt.NDArray[np.float64]
Row: TypeAlias = Mapping[str, Any]
"""One element of `Domain.prompts`: a prompt and the columns needed for judging its answers."""
Split: TypeAlias = Literal["train", "validation", "test"]
Chains: TypeAlias = list[list[JudgedAnswer]]
"""The m judged answers of each completion. Unreadable and missing answers have zero rewards and a reason."""


@dataclass(frozen=True)
class Domain:
    """Prompts, and functions that judge answers to these prompts. A `with` block closes the domain."""

    name: str
    components: tuple[str, ...]
    """Names of the reward components; answers to some prompts may have only the first few."""
    answers: int
    """m, the number of answers asked for in a prompt and read from a completion."""
    prompts: list[dict[str, Any]]
    """Rows with `prompt` (a text or chat messages, as in TRL) and the columns needed for judging."""
    judge_texts: Callable[[Sequence[str], Sequence[Row]], Chains]
    """Returns the judged answers of completions, given their texts and the row (`prompts`) of each."""
    max_tokens: int
    start_model: Path | None = None
    judge_ids: Callable[[Sequence[int], Row], list[JudgedAnswer]] | None = None
    """Returns the judged answers of a start model's completion, given all its token ids, special ones too."""
    close: Callable[[], None] = lambda: None
    scalar: tuple[float, ...] = ()
    """Component weights of the scalar reward; empty for the mean."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def judge(self, completions: Sequence[Any], rows: Sequence[Row]) -> Chains:
        """Return the judged answers of each completion. A completion is a text or a list of chat messages.

        A repeated answer keeps its rewards. If the sandbox or a judge failed, the answers have no rewards.
        """
        texts = [one if isinstance(one, str) else str(one[-1]["content"]) for one in completions]
        return self.judge_texts(texts, rows)

    def check_tokens(self, tokenizer: Any) -> None:
        """Raise `ConfigError` if the domain needs its start model's token ids and `tokenizer` has others."""
        text = self.prompts[0]["prompt"] if self.prompts else ""
        if self.start_model is None or self.judge_ids is None or not text:
            return
        if list(tokenizer(text)["input_ids"]) != list(load_tokenizer(self.start_model)(text)["input_ids"]):
            advice = "train on maze-words, " if self.name.startswith("maze") else ""
            raise ConfigError(
                f"the domain {self.name} needs the tokens of its own start model, and the model "
                f"{tokenizer.name_or_path} has others; {advice}leave this model out, or take a domain in "
                "words (docs/domains.md)"
            )

    def reward_vectors(self, completions: Sequence[Any], rows: Sequence[Row]) -> list[Floats | None]:
        """Return the rewards of each completion, of shape (m, D), or None if the sandbox or a judge failed.

        Each of the m answers has D rewards. Unreadable, missing and repeated answers have zeros.
        """
        return [_rewards(chain) for chain in self.judge(completions, rows)]

    def score(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] = (),
        **columns: Sequence[Any],
    ) -> list[Any]:
        """Return the rewards of each completion, of shape (m, D). This is `VPOTrainer`'s reward function."""
        names = [name for name in self.prompts[0] if name != "prompt"]
        rows = [
            {"prompt": prompt} | {name: columns[name][place] for name in names}
            for place, prompt in enumerate(prompts)
        ]
        return self.score_rows(completions, completion_ids, rows)

    def score_rows(
        self, completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], rows: Sequence[Row]
    ) -> list[Any]:
        """Return the same as `score`, given the row (element of `prompts`) of each completion."""
        if self.judge_ids is None:
            return list(self.reward_vectors(completions, rows))
        return [_rewards(self.judge_ids(ids, row)) for ids, row in zip(completion_ids, rows, strict=True)]


class TaskFamily(Protocol):
    """A family of tasks with one prompt format and one start model."""

    @property
    def name(self) -> str: ...
    @property
    def model_folder(self) -> Path:
        """Folder of the start model."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the reward components. Answers to some tasks have only the first few components."""

    @property
    def shows_parents(self) -> bool:
        """True if a prompt can show an earlier answer to improve (a parent)."""

    def max_tokens(self, answers: int) -> int:
        """Return the maximum number of tokens to sample for a completion with `answers` answers."""

    def tasks(self, split: Split, count: int, seed: int = 0) -> Sequence[Any]:
        """Return the first `count` tasks of the random sequence that `split` and `seed` determine."""

    def prompt_ids(self, task: Any, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the token ids of the prompt that asks for `answers` answers.

        If `parent` is the key of an earlier answer, the prompt also shows this answer and its result.
        """

    def judge(self, task: Any, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return exactly `answers` judged answers of a completion; some may be marked as missing.

        A repeated answer keeps its rewards. An answer has no rewards if the sandbox failed on it.
        """


def some_of(rows: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return up to `count` random rows in their original order, balanced over the column `stratum`."""
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    strata: dict[Any, list[int]] = {}
    for place in order:
        strata.setdefault(rows[place].get("stratum"), []).append(place)
    rounds = [place for turn in zip_longest(*strata.values()) for place in turn if place is not None]
    return [rows[place] for place in sorted(rounds[:count])]


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _rewards(chain: Sequence[JudgedAnswer]) -> Floats | None:
    rewards = [answer.rewards for answer in without_repeats(chain)]
    return None if None in rewards else np.array(rewards, dtype=np.float64)
