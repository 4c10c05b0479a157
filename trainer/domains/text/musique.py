"""MuSiQue (arXiv 2108.00573): questions of 2 to 4 hops, answered from 20 paragraphs.

The rewards are VPO's (arXiv 2605.22817). Components 1 to 4 are for the hops: component i is 1 if the answer
cites the paragraph of hop i, else 0. If a question has fewer hops, the components of the missing hops are 1.
Only the first four different citations count. Component 5 is the word F1 of the answer with the gold answer
or its best-matching alias. Without an answer, all components are 0. The fields read from
`musique_ans_v1.0_*.jsonl` are `question`, `paragraphs` (`idx`, `title`, `paragraph_text`),
`question_decomposition` (`paragraph_support_idx`), `answer` and `answer_aliases`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from evovpo.errors import AnswerError
from evovpo.judging.measure import JudgedAnswer
from evovpo.types import Rewards
from trainer.domains.domain import Domain, Row
from trainer.domains.text.answers import asked, by_vector, chat, multiset_f1, normalised, tagged, text_domain
from trainer.domains.text.rows import read_rows

MAX_TOKENS = (512, 1024)
_HOPS = 4
COMPONENTS = (*(f"hop-{hop}" for hop in range(1, _HOPS + 1)), "answer-f1")
SCALAR = (1.0, 1.0, 1.0, 1.0, 3.0)
"""Component weights of the scalar reward, as VPO's authors use it: (sum of the hops + 3 F1) / 7."""
_FORM = (
    "<support>indices of the paragraphs that support it, separated by commas</support>\n"
    "<answer>the answer, in as few words as possible</answer>"
)


class _Paragraph(BaseModel):
    idx: int
    title: str
    paragraph_text: str


class _Hop(BaseModel):
    paragraph_support_idx: int | None


class _MusiqueQuestion(BaseModel):
    id: str = ""
    question: str
    paragraphs: list[_Paragraph]
    question_decomposition: list[_Hop]
    answer: str
    answer_aliases: list[str] = []


def open_file(data: Path, answers: int) -> Domain:
    prompts = []
    for row in read_rows(data, _MusiqueQuestion):
        paragraphs = "\n".join(f"[{one.idx}] {one.title}: {one.paragraph_text}" for one in row.paragraphs)
        text = f"Paragraphs:\n{paragraphs}\n\nQuestion: {row.question}\n\n{asked(_FORM, answers)}"
        hops = [hop.paragraph_support_idx for hop in row.question_decomposition]
        support = [hop for hop in hops if hop is not None]
        about = {"id": row.id, "stratum": f"{len(hops)} hops"}
        prompts.append(chat(text) | about | {"support": support, "golds": [row.answer, *row.answer_aliases]})
    domain = text_domain("musique", COMPONENTS, answers, prompts, _read, MAX_TOKENS)
    return replace(domain, scalar=SCALAR)


def _read(text: str, row: Row) -> JudgedAnswer:
    answer = tagged(text, "answer")
    if not answer:
        raise AnswerError("its <answer> is empty")
    written = tagged(text, "support").split(",") if "<support>" in text else []
    plain = [word.strip() for word in written]
    cited = [int(word) for word in plain if word.isascii() and word.isdigit() and len(word) < 10]
    return by_vector(question_rewards(cited, answer, row["support"], row["golds"]))


def question_rewards(
    cited: Sequence[int], answer: str, support: Sequence[int], golds: Sequence[str]
) -> Rewards:
    """Return an answer's 5 rewards. `support` has each hop's paragraph, and `golds` the accepted answers."""
    counted = list(dict.fromkeys(cited))[:_HOPS]
    hops = [float(paragraph in counted) for paragraph in support[:_HOPS]]
    missing = [1.0] * (_HOPS - len(hops))
    words = normalised(answer).split()
    return (*hops, *missing, max(multiset_f1(words, normalised(gold).split()) for gold in golds))
