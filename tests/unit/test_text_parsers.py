"""Whatever a model writes is read without a crash, and never earns more than its clear answers do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.benchmark_rows import eureqa, livecodebench, musique, toolrl, write_jsonl
from trainer.domains import Domain, open_domain

ANSWERS = 2


MAKERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "musique": musique,
    "eureqa": eureqa,
    "toolrl": toolrl,
}
"""Row 1 of each: the one that the answers below are for."""
CALL = json.dumps({"name": "weather", "parameters": {"city": "Graz", "days": 1}})
RIGHT = {
    "musique": "<support>1, 3, 5</support>\n<answer>the city of Graz</answer>",
    "eureqa": "".join(
        f"<entity_{letter}>{city}_Film_Festival</entity_{letter}>"
        for letter, city in zip("ABCDE", ("Graz", "Pisa", "Brno", "Gent", "Cork"), strict=True)
    ),
    "toolrl": f'<think>Look.</think>\n<tool_call>\n{CALL}\n{{"name": "clock"}}\n</tool_call>',
}
WRONG = {
    "musique": "<support>2, 4</support>\n<answer>Graz by night</answer>",
    "eureqa": "<entity_A>Graz</entity_A><entity_B>Pisa_Film_Festival</entity_B>",
    "toolrl": f"<tool_call>{CALL}</tool_call>",
}
"""Answers that are worth something, but not everything."""
PIECES = [
    *(f"<{slash}response_{number}>" for slash in ("", "/") for number in ("1", "2", "3", "01", "-1", "i")),
    *(f"<{slash}{tag}>" for slash in ("", "/") for tag in ("response", "answer", "support", "think",
                                                          "tool_call", "entity_A", "entity_B")),
    *("1", "3,", "Graz", "the city of Graz", "Graz_Film_Festival", CALL, "{", "}", "[", '"', "\\", ", "),
    *("```python\n", "```", "---", "<", ">", "\n", "\x00", "\ud800", "０", "٣", "\u202e", "İ"),
]  # fmt: skip
TAGS = [piece for piece in PIECES if piece.startswith("<") and len(piece) > 1]


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Domain]:
    folder = tmp_path_factory.mktemp("rows")
    return {
        name: open_domain(name, write_jsonl(folder / f"{name}.jsonl", [make(1)]), ANSWERS)
        for name, make in MAKERS.items()
    }


def chain_of(*answers: str) -> str:
    return "".join(f"<response_{place}>{one}</response_{place}>\n" for place, one in enumerate(answers, 1))


def rewards(domain: Domain, text: str) -> tuple[np.ndarray, list[str]]:
    (chain,) = domain.judge([text], domain.prompts)
    found = np.array([answer.rewards for answer in chain])
    assert found.shape == (ANSWERS, len(domain.components))
    assert ((found >= 0) & (found <= 1)).all()
    return found, [answer.reason for answer in chain]


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80))
def test_foreign_text_earns_nothing(name: str, text: str, domains: dict[str, Domain]) -> None:
    found, reasons = rewards(domains[name], text)
    assert not found.any()
    assert all(reasons)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=120, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=24))
def test_any_mixture_of_delimiters_is_read(name: str, pieces: list[str], domains: dict[str, Domain]) -> None:
    found, reasons = rewards(domains[name], "".join(pieces))
    for row, reason in zip(found, reasons, strict=True):
        assert not (reason and row.any())


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cut_completion_keeps_only_its_closed_answers(
    name: str, data: st.DataObject, domains: dict[str, Domain]
) -> None:
    text = chain_of(RIGHT[name], RIGHT[name])
    cut = text[: data.draw(st.integers(0, len(text)))]
    found, _ = rewards(domains[name], cut)
    for place in range(ANSWERS):
        assert found[place].tolist() == [float(f"</response_{place + 1}>" in cut)] * found.shape[1]


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_delimiter_put_in_anywhere_gains_nothing(
    name: str, data: st.DataObject, domains: dict[str, Domain]
) -> None:
    text = chain_of(WRONG[name], WRONG[name])
    before, _ = rewards(domains[name], text)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + data.draw(st.sampled_from(TAGS)) + text[place:]
    after, _ = rewards(domains[name], text)
    assert (after <= before).all()


def test_any_mixture_of_code_and_fences_is_read(tmp_path: Path) -> None:
    pieces = ["```python\n", "```\n", "---\n", "def solve(text):\n", "    return text\n", "~~~\n", "```js\n"]
    with open_domain(
        "livecodebench", write_jsonl(tmp_path / "r.jsonl", [livecodebench(0)]), ANSWERS
    ) as domain:

        @settings(max_examples=25, deadline=None)
        @given(st.lists(st.sampled_from(pieces), max_size=10))
        def read(found: list[str]) -> None:
            after, _ = rewards(domain, "".join(found))
            assert not after.any()  # no program adds two numbers

        read()
