"""`evovpo new --domain`: a row of a domain as a problem, whose candidates are answers as text."""

import itertools
import json
from pathlib import Path

import pytest
from benchmark_rows import eureqa, livecodebench, musique, toolrl, write_jsonl
from shell import Shell

from evovpo import evolve
from evovpo.errors import AnswerError
from evovpo.problem.folder import load_problem
from evovpo.prompts.extract_programs import read_rewrite
from trainer.domains import open_domain

ROWS = {"musique": musique, "eureqa": eureqa, "toolrl": toolrl, "livecodebench": livecodebench}


@pytest.mark.parametrize("name", ROWS)
def test_a_posed_row_has_the_statement_components_and_data_of_its_own(name: str, evovpo: Shell) -> None:
    rows = [ROWS[name](number) for number in range(4)]
    data = write_jsonl(Path("dev.jsonl"), rows)
    answer = evovpo("new", "question", "--domain", name, "--data", data, "--row", "3")
    assert (answer.code, answer.out) == (
        0, "Search for answers:  evovpo evolve question --base-url URL --model NAME\n"
    )  # fmt: skip
    problem = load_problem("question")
    with open_domain(name, data) as domain:
        last = domain.prompts[3]
        assert [one.name for one in problem.objectives] == list(domain.components[: last.get("size")])
        assert last["prompt"][-1]["content"] in problem.statement
    assert json.loads(Path("question/data/row.jsonl").read_text()) == rows[3]


def test_strategies_search_among_answers_as_text(evovpo: Shell) -> None:
    data = write_jsonl(Path("dev.jsonl"), [musique(number) for number in range(4)])
    assert evovpo("new", "question", "--domain", "musique", "--data", data, "--row", "3").code == 0
    # Its two hops are in paragraphs 1 and 3; each text is a candidate as it stands, or as a function.
    texts = (
        "No paragraph says so.",
        "<support>1, 2</support><answer>Brno</answer>",
        "```python\ndef answer():\n    return '<support>3</support><answer>Lund</answer>'\n```",
        "It is in 1 and 3.\n<support>1, 3</support>\n<answer>the city of 'Brno'</answer>",
    )
    shown: list[str] = []
    written = itertools.cycle(texts)

    def write(messages: list[dict[str, str]], n: int) -> list[str]:
        shown.append(messages[-1]["content"])
        return list(itertools.islice(written, n))

    found = evolve(
        "question", proposer=write, evaluations=8, store="answers.db",
        settings={"search.islands": 2, "search.rollouts": 2, "sandbox.minimum_level": "none"},
    )  # fmt: skip
    assert found.best.rewards == dict.fromkeys(("hop-1", "hop-2", "hop-3", "hop-4", "answer-f1"), 1.0)
    assert found.best.source == f"def answer():\n    return {texts[3]!r}\n"
    assert all("Return, as text, an answer to this." in text for text in shown)


def test_a_reply_without_code_is_an_answer_only_where_one_is_wanted(evovpo: Shell) -> None:
    data = write_jsonl(Path("dev.jsonl"), [musique(2)])
    assert evovpo("new", "posed", "--domain", "musique", "--data", data).code == 0
    posed = load_problem("posed")
    assert read_rewrite(posed, " \\boxed{24}\n", None, False).source == (
        "def answer():\n    return '\\\\boxed{24}'\n"
    )
    assert read_rewrite(posed, "def answer():\n    return '24'", None, False).source.endswith("'24'\n")
    assert evovpo("new", "other").code == 0
    with pytest.raises(AnswerError, match="no code block"):
        read_rewrite(load_problem("other"), "It is 24.", None, False)


def test_what_cannot_be_posed_is_refused(evovpo: Shell) -> None:
    data = write_jsonl(Path("dev.jsonl"), [musique(2)])
    answer = evovpo("new", "posed", "--domain", "musique", "--data", data, "--row", "1")
    assert (answer.code, Path("posed").exists()) == (2, False)
    assert "dev.jsonl has 1 rows, counted from 0" in answer.err
    assert "makes its own tasks" in evovpo("new", "posed", "--domain", "maze", "--data", data).err
    assert "new or empty folder" in evovpo("new", ".", "--domain", "musique", "--data", data).err
