"""A domain of your own: a Python file with `COMPONENTS` and `reward_vectors`, and a file of prompts.

`reward_vectors(completions, **columns)` gets the texts of N completions and, for each column of the file of
prompts (including `prompt`), N values. It returns one entry per completion: an array of shape (m, D) with the
D rewards, in [0, 1], of each of its m answers, or None if judging failed. Answers of a completion with equal
rewards are duplicates. `docs/domains.md` has an example.
"""

import runpy
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evovpo.errors import ConfigError, ProblemError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Chains, Domain, Row
from trainer.domains.text.rows import read_rows
from trainer.learning.reward_vectors import parsed_chain

_MAX_TOKENS = 1024


class _OwnPrompt(BaseModel, extra="allow"):
    prompt: str | list[dict[str, Any]]


def open_yours(file: Path, data: Path, answers: int) -> Domain:
    """Return a domain from a Python file and a file of rows with the column `prompt`.

    The Python file can set `MAX_TOKENS` (default: 1,024). Raises `ConfigError` if the Python file is invalid,
    and `ProblemError` if rows have different columns.
    """
    rows = [dict(row) for row in read_rows(data, _OwnPrompt)]
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            raise ProblemError(
                f"{data}: row {number}: expected the columns of row 1, {', '.join(sorted(rows[0]))}; found "
                f"{', '.join(sorted(row))}; give every row the same"
            )
    names = _names_of(file)
    components = tuple(map(str, names["COMPONENTS"]))
    missing = JudgedAnswer(None, (0.0,) * len(components), reason="no answer")

    def judge_texts(texts: Sequence[str], given: Sequence[Row]) -> Chains:
        columns = {name: [row[name] for row in given] for name in rows[0]}
        found = list(names["reward_vectors"](list(texts), **columns))
        if len(found) != len(texts):
            raise ConfigError(f"{file}: reward_vectors judged {len(found)} of {len(texts)} completions")
        return [_chain(entry) for entry in found]

    def _chain(entry: Any) -> list[JudgedAnswer]:
        if entry is None:
            return [JudgedAnswer(None, None, reason="reward_vectors returned None")] * answers
        rewards = parsed_chain(entry, f"{file}: reward_vectors", answers)
        if len(rewards) and rewards.shape[1] != len(components):
            wrong = f"expected {len(components)} components an answer, found {rewards.shape[1]}"
            raise ConfigError(f"{file}: reward_vectors: {wrong}; correct COMPONENTS or the rewards")
        chain = [JudgedAnswer(str(row), tuple(row)) for row in rewards.tolist()]
        return chain + [missing] * (answers - len(chain))

    max_tokens = int(names.get("MAX_TOKENS", _MAX_TOKENS))
    return Domain(file.stem, components, answers, rows, judge_texts, max_tokens)


def _names_of(file: Path) -> dict[str, Any]:
    try:
        names = runpy.run_path(str(file), run_name=file.stem)
    except (Exception, SystemExit) as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        raise ConfigError(f"{file}: running it raised {error!r:.300} (line {line}); correct it") from error
    if not callable(names.get("reward_vectors")) or not names.get("COMPONENTS"):
        wanted = "COMPONENTS, a tuple of names, and a function reward_vectors(completions, **columns)"
        raise ConfigError(f"{file}: expected {wanted}; define both")
    return names
