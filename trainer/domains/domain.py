"""What can be trained on and measured: prompts, and what the answers of a completion are worth.

A domain's prompts and completions are text. The bundled ones bring their own tasks, and but for `maze-words`
a start model (`trainer/domains/tokens.py`); the others read a file (`trainer/domains/text/`).
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evovpo.errors import ConfigError, nearest_hint
from evovpo.judging.measure import JudgedAnswer, without_repeats
from trainer.domains.tokens import START_FOLDERS, Split, open_token_domain

Floats: TypeAlias = npt.NDArray[np.float64]
Row: TypeAlias = Mapping[str, Any]
"""One row of a domain's prompts."""
Chains: TypeAlias = list[list[JudgedAnswer]]
"""Of each completion exactly m answers, an unreadable or missing one with zeros and a reason."""

GENERATED: tuple[str, ...] = (*START_FOLDERS, "maze-words")
"""The domains that make their own tasks."""
FILE_DOMAINS: tuple[str, ...] = ("musique", "eureqa", "toolrl", "livecodebench", "math", "judged")
"""The domains that read a file, each a module of `trainer.domains.text`."""
_TENTHS: tuple[Split, ...] = ("train",) * 8 + ("validation", "test")
_BUNDLED_TASKS = 200


@dataclass(frozen=True)
class Domain:
    """Prompts with what judges their answers; a context manager that ends what judging started."""

    name: str
    components: tuple[str, ...]
    """Names of the reward components; a row with fewer of them has the first ones."""
    answers: int
    """m, the answers that a prompt asks for and a completion is read for."""
    prompts: list[dict[str, Any]]
    """Rows with `prompt`, a text or chat messages as TRL takes them, and the columns that judging needs."""
    judge_texts: Callable[[Sequence[str], Sequence[Row]], Chains]
    """Judges completions, each with the row that it answers."""
    max_tokens: int
    """The longest completion worth sampling."""
    start_model: Path | None = None
    """Folder of the start model that comes with the domain."""
    judge_ids: Callable[[Sequence[int], Row], list[JudgedAnswer]] | None = None
    """Judges the token ids of one completion of the start model, marks included."""
    close: Callable[[], None] = lambda: None
    scalar: tuple[float, ...] = ()
    """Weights of the components where an objective or a figure needs one number; empty for their mean."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def judge(self, completions: Sequence[Any], rows: Sequence[Row]) -> Chains:
        """Return the judged answers of completions, texts or lists of chat messages.

        An answer that repeats another keeps its rewards, as `evovpo.judging.measure` wants it;
        `without_repeats` takes them away and says so. Answers of a completion on which something outside
        failed (the sandbox, a judge) have no rewards.
        """
        texts = [one if isinstance(one, str) else str(one[-1]["content"]) for one in completions]
        return self.judge_texts(texts, rows)

    def check_tokens(self, tokenizer: Any) -> None:
        """Raise `ConfigError` if answers are judged by their tokens and a model has others than expected."""
        text = self.prompts[0]["prompt"] if self.prompts else ""
        if self.start_model is None or self.judge_ids is None or not text:
            return
        if list(tokenizer(text)["input_ids"]) != list(load_tokenizer(self.start_model)(text)["input_ids"]):
            advice = "train on maze-words, " if self.name.startswith("maze") else ""
            raise ConfigError(
                f"the domain {self.name} is asked and answered in the tokens of its own start model, and "
                f"this model has others; {advice}leave out --model, or take a domain in words "
                "(docs/domains.md)"
            )

    def reward_vectors(self, completions: Sequence[Any], rows: Sequence[Row]) -> list[Floats | None]:
        """Return rewards `[m, D]` of each completion: zeros for unreadable, missing and repeated answers.

        None where something outside failed.
        """
        return [_rewards(chain) for chain in self.judge(completions, rows)]

    def score(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] = (),
        **columns: Sequence[Any],
    ) -> list[Any]:
        """Be the reward function of a `trainer.VPOTrainer` whose dataset is made of `prompts`."""
        names = [name for name in self.prompts[0] if name != "prompt"]
        rows = [
            {"prompt": prompt} | {name: columns[name][place] for name in names}
            for place, prompt in enumerate(prompts)
        ]
        return self.score_rows(completions, completion_ids, rows)

    def score_rows(
        self, completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], rows: Sequence[Row]
    ) -> list[Any]:
        """Return the same of completions that come with their rows."""
        if self.judge_ids is None:
            return list(self.reward_vectors(completions, rows))
        return [_rewards(self.judge_ids(ids, row)) for ids, row in zip(completion_ids, rows, strict=True)]


def open_domain(
    name: str,
    data: str | Path | None = None,
    answers: int = 1,
    *,
    split: Split | None = None,
    tasks: int | None = None,
    dates: str = "",
) -> Domain:
    """Return the domain of a name, its prompts asking for so many answers.

    `name` is one of `GENERATED`, which take no data, or one of `FILE_DOMAINS`, which read the file `data` (or
    several, with commas between them); or the path of a Python file (`trainer/domains/text/yours.py`), with
    the data that it judges. Of a file every row is a prompt, or with `split` 8, 1 and 1 of ten rows, by their
    place; generated domains make the tasks of a split (train). `tasks` is the most prompts wanted: of more
    some are drawn, always the same, and equally many of each stratum where the domain has strata.
    `dates`, FROM..TO, takes rows of these days alone (2024-08 means the month), of a file that dates them.

    Raises `ConfigError` or `ProblemError` naming what is wrong with a name, a file or a row.
    """
    if answers < 1:
        raise ConfigError(f"answers is {answers}; expected 1 or more; say how many a prompt asks for")
    if name in GENERATED:
        if data is not None:
            raise ConfigError(f"the domain {name} makes its own tasks; leave out the data {data}")
        count = tasks or _BUNDLED_TASKS
        if name in START_FOLDERS:
            return _bundled(name, answers, split or "train", count)
        from trainer.domains.maze.words import open_words

        return open_words(name, split or "train", count, answers)
    is_own = name.endswith(".py")
    if not is_own and name not in FILE_DOMAINS:
        hint = nearest_hint(name, (*GENERATED, *FILE_DOMAINS))
        raise ConfigError(f"unknown domain {name!r}; {hint}; or name a Python file of your own")
    if data is None:
        raise ConfigError(f"the domain {name} reads its prompts from a file; name it as the data")
    if is_own:
        from trainer.domains.text.yours import open_yours

        domain = open_yours(Path(name), Path(data), answers)
    else:
        domain = importlib.import_module(f"trainer.domains.text.{name}").open_file(Path(data), answers)
    if dates:
        domain = replace(domain, prompts=_of_days(domain.prompts, dates, data))
    rows = [row for place, row in enumerate(domain.prompts) if split in (None, _TENTHS[place % 10])]
    if not rows:
        raise ConfigError(f"{data}: expected rows of the split {split}, found none; give ten rows or more")
    return replace(domain, prompts=rows if tasks is None else some_of(rows, tasks))


def longest(name: str, answers: int) -> int:
    """Return the longest completion worth sampling of a domain in words, without opening its file."""
    modules = {"maze-words": "trainer.domains.maze.words"}
    modules |= {one: f"trainer.domains.text.{one}" for one in FILE_DOMAINS}
    if name not in modules:
        return 1024
    return int(importlib.import_module(modules[name]).MAX_TOKENS[answers > 1])


def _of_days(rows: list[dict[str, Any]], dates: str, data: str | Path) -> list[dict[str, Any]]:
    first, dots, last = dates.partition("..")
    if not dots:
        raise ConfigError(f"dates {dates!r}: expected FROM..TO, for example 2024-08-01..2025-02-28")
    if any(not row.get("date") for row in rows):
        raise ConfigError(f"{data}: its rows have no dates to choose by; leave out the dates {dates}")
    return [row for row in rows if first <= row["date"] and (not last or row["date"][: len(last)] <= last)]


def some_of(rows: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return up to `count` rows in their order, drawn at random, equally many of each `stratum`.

    Of a stratum with too few rows all, and more of the others.
    """
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    strata: dict[Any, list[int]] = {}
    for place in order:
        strata.setdefault(rows[place].get("stratum"), []).append(place)
    rounds = [place for turn in zip_longest(*strata.values()) for place in turn if place is not None]
    return [rows[place] for place in sorted(rounds[:count])]


def _bundled(name: str, answers: int, split: Split, count: int) -> Domain:
    opened = ExitStack()
    tokens = opened.enter_context(open_token_domain(name))
    tokenizer = load_tokenizer(tokens.model_folder)
    tasks = tokens.tasks(split, count)

    def judge_ids(ids: Sequence[int], row: Row) -> list[JudgedAnswer]:
        judged = tokens.judge(tasks[row["task"]], ids, answers)
        reasons = ["" if one.key else "missing" if one.span is None else "unreadable" for one in judged]
        return [one._replace(reason=reason) for one, reason in zip(judged, reasons, strict=True)]

    def judge_texts(texts: Sequence[str], rows: Sequence[Row]) -> Chains:
        return [judge_ids(tokenizer(text)["input_ids"], row) for text, row in zip(texts, rows, strict=True)]

    texts = [str(tokenizer.decode(list(tokens.prompt_ids(task, answers)))) for task in tasks]
    prompts = [{"prompt": text, "task": number} for number, text in enumerate(texts)]
    folder, most = tokens.model_folder, tokens.max_tokens(answers)
    domain = Domain(name, tokens.components, answers, prompts, judge_texts, most, folder)
    return replace(domain, judge_ids=judge_ids, close=opened.close)


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a model folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _rewards(chain: Sequence[JudgedAnswer]) -> Floats | None:
    rewards = [answer.rewards for answer in without_repeats(chain)]
    return None if None in rewards else np.array(rewards, dtype=np.float64)
