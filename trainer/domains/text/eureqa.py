"""EUREQA: find the hidden entities of a narrative from the one entity that it names.

The rewards are VPO's (arXiv 2605.22817): for each of the entities A to E, 1 if the answer's name for it
equals the true name after normalisation, else 0. The columns read from `questions_normal_5` and
`questions_hard_5` (JSON or Parquet) are `question` (the lines of the narrative), and the first five entries
of `entity_masks` and of `entities`.
"""

from pathlib import Path
from typing import Annotated

from annotated_types import Len
from pydantic import BaseModel

from evovpo.errors import AnswerError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Domain, Row
from trainer.domains.text.answers import asked, by_vector, chat, normalised, tagged, text_domain
from trainer.domains.text.rows import read_rows

MAX_TOKENS = (512, 2048)
_LETTERS = "ABCDE"
COMPONENTS = tuple(f"entity-{letter}" for letter in _LETTERS)
_Names = Annotated[list[str], Len(len(_LETTERS))]


class _EntityQuestion(BaseModel):
    question: list[str]
    entity_masks: _Names
    entities: _Names


def open_file(data: Path, answers: int) -> Domain:
    prompts = []
    for row in read_rows(data, _EntityQuestion):
        masks = zip(_LETTERS, row.entity_masks, strict=False)
        form = "\n".join(f"<entity_{letter}>name of {mask}</entity_{letter}>" for letter, mask in masks)
        text = (
            "The narrative below hides entities behind masks and names one in its last sentence. Find the "
            "others back from it; names as in Wikipedia, with underscores.\n\n"
            + "\n".join(row.question)
            + f"\n\n{asked(form, answers)}"
        )
        prompts.append(chat(text) | {"entities": row.entities[: len(_LETTERS)]})
    return text_domain("eureqa", COMPONENTS, answers, prompts, _read, MAX_TOKENS)


def _read(text: str, row: Row) -> JudgedAnswer:
    tags = [f"entity_{letter}" for letter in _LETTERS]
    names = [tagged(text, tag) if f"<{tag}>" in text else "" for tag in tags]
    if not any(names):
        raise AnswerError("it names no entity")
    return by_vector(float(is_same(*pair)) for pair in zip(names, row["entities"], strict=True))


def is_same(name: str, entity: str) -> bool:
    """Return whether two names are equal after normalisation, or without it if nothing is left."""
    plain, wanted = (normalised(text.replace("_", " ")) for text in (name, entity))
    return plain == wanted if wanted else name.strip().lower() == entity.strip().lower()
