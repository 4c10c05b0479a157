"""Names of all domains, and the functions that open them."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import ConfigError, nearest_hint
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Chains, Domain, Row, Split, TaskFamily, load_tokenizer, some_of
from trainer.domains.maze import MAZE_MODEL

START_FOLDERS = {"strings": BUILT_IN_MODEL, "maze": MAZE_MODEL, "maze-conflict": MAZE_MODEL}
GENERATED: tuple[str, ...] = (*START_FOLDERS, "maze-words")
"""Names of the domains that generate their tasks."""
FILE_DOMAINS: tuple[str, ...] = ("musique", "eureqa", "toolrl", "livecodebench")
"""Names of the domains that read a file; each is a module of `trainer.domains.text`."""
_TENTHS: tuple[Split, ...] = ("train",) * 8 + ("validation", "test")
_BUNDLED_TASKS = 200


def open_domain(
    name: str,
    data: str | Path | None = None,
    answers: int = 1,
    *,
    split: Split | None = None,
    tasks: int | None = None,
    dates: str = "",
) -> Domain:
    """Open the domain `name`, with prompts that ask for `answers` answers.

    `name` is one of `GENERATED`, one of `FILE_DOMAINS`, or a Python file as described in
    `trainer/domains/text/yours.py`. `data` is a file, or several files separated by commas; each row has a
    prompt. `split` selects 8 of every ten rows for train, 1 for validation and 1 for test. `dates` (FROM..TO)
    selects rows by date; 2024-08 means the whole month. `tasks` is the maximum number of rows. A generated
    domain has no file, and makes `tasks` tasks (default: 200) of `split` (default: train).

    Raises `ConfigError` or `ProblemError` for an invalid name, file or row.
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
    if name not in (*FILE_DOMAINS, "maze-words"):
        return 1024
    module = "maze.words" if name == "maze-words" else f"text.{name}"
    return int(importlib.import_module(f"trainer.domains.{module}").MAX_TOKENS[answers > 1])


def _of_days(rows: list[dict[str, Any]], dates: str, data: str | Path) -> list[dict[str, Any]]:
    first, dots, last = dates.partition("..")
    if not dots:
        raise ConfigError(f"dates {dates!r}: expected FROM..TO, for example 2024-08-01..2025-02-28")
    if any(not row.get("date") for row in rows):
        raise ConfigError(f"{data}: its rows have no dates to choose by; leave out the dates {dates}")
    return [row for row in rows if first <= row["date"] and (not last or row["date"][: len(last)] <= last)]


@contextmanager
def open_family(name: str, start: Path | None = None) -> Iterator[TaskFamily]:
    """Yield the task family `name` with its own start model, or with the model in the folder `start`.

    Raises `ConfigError` for an unknown name, and `SandboxError` if the sandbox of `strings` cannot start.
    """
    if name not in START_FOLDERS:
        raise ConfigError(f"unknown domain {name!r}; expected {' or '.join(START_FOLDERS)}")
    folder = start or START_FOLDERS[name]
    if name.startswith("maze"):
        from trainer.domains.maze.maze_family import COMPONENTS, CONFLICT, MazeFamily

        components = CONFLICT if name == "maze-conflict" else COMPONENTS
        # The bundled maze model was trained without parents; other start models read them (docs/studies.md).
        shows_parents = folder != START_FOLDERS[name]
        yield MazeFamily(model_folder=folder, name=name, components=components, shows_parents=shows_parents)
    else:
        from evovpo.sandbox import Sandbox
        from trainer.domains.strings.string_family import StringFamily

        with Sandbox(workers=1, preload=()) as sandbox:
            yield StringFamily(folder, sandbox)


def _bundled(name: str, answers: int, split: Split, count: int) -> Domain:
    opened = ExitStack()
    tokens = opened.enter_context(open_family(name))
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
