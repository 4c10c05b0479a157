"""Rewards of answers to MuSiQue, EUREQA and ToolRL, worked out by hand, through text."""

import json
from pathlib import Path
from typing import Any

import pytest

from evovpo.judging.measure import JudgedAnswer, without_repeats
from tests.support.benchmark_rows import eureqa, musique, toolrl, write_jsonl
from trainer.domains import Domain, open_domain


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Domain]:
    folder = tmp_path_factory.mktemp("rows")
    makers = {"musique": musique, "eureqa": eureqa, "toolrl": toolrl}
    files = {name: write_jsonl(folder / f"{name}.jsonl", [make(1)]) for name, make in makers.items()}
    return {name: open_domain(name, file) for name, file in files.items()}


def judged(domain: Domain, text: str, **columns: Any) -> JudgedAnswer:
    ((answer,),) = domain.judge([text], [columns])
    return answer


def cited(support: str | None, answer: str) -> str:
    tag = "" if support is None else f"<support>{support}</support>"
    return f"Paragraph 3 names it.\n{tag}<answer>{answer}</answer>"


TWO, FOUR = [3, 7], [0, 1, 2, 3]
EIFFEL = ["the Eiffel Tower", "La Tour Eiffel"]
ZEROS = (0.0,) * 5
MUSIQUE: list[tuple[str, list[int], list[str], tuple[float, ...]]] = [
    # Hops of a question of two: the other two count 1.
    (cited("3, 7", "Eiffel Tower"), TWO, EIFFEL, (1, 1, 1, 1, 1)),
    (cited("3", "Eiffel Tower"), TWO, EIFFEL, (1, 0, 1, 1, 1)),
    (cited("", "Eiffel Tower"), TWO, EIFFEL, (0, 0, 1, 1, 1)),
    (cited(None, "Eiffel Tower"), TWO, EIFFEL, (0, 0, 1, 1, 1)),
    # The first four different citations count.
    (cited("1, 2, 4, 5, 3, 7", "Eiffel Tower"), TWO, EIFFEL, (0, 0, 1, 1, 1)),
    (cited("1, 1, 1, 1, 1, 3, 7", "Eiffel Tower"), TWO, EIFFEL, (1, 1, 1, 1, 1)),
    # What is no index cites nothing and takes no place.
    (cited("3 7", "Eiffel Tower"), TWO, EIFFEL, (0, 0, 1, 1, 1)),
    (cited("a, b, c, d, [3], 7", "Eiffel Tower"), TWO, EIFFEL, (0, 1, 1, 1, 1)),
    (cited("-3, 7.0, ³", "Eiffel Tower"), TWO, EIFFEL, (0, 0, 1, 1, 1)),
    (cited("0, 2", "Eiffel Tower"), FOUR, EIFFEL, (1, 0, 1, 0, 1)),
    (cited("5", "Eiffel Tower"), [5, 5], EIFFEL, (1, 1, 1, 1, 1)),
    # F1: small letters, no punctuation, no articles, single blanks; the best of the aliases.
    (cited("3, 7", "The  EIFFEL tower!"), TWO, EIFFEL, (1, 1, 1, 1, 1)),
    (cited("3, 7", "Eiffel"), TWO, EIFFEL, (1, 1, 1, 1, 2 / 3)),
    (cited("3, 7", "Eiffel Eiffel Tower"), TWO, EIFFEL, (1, 1, 1, 1, 0.8)),
    (cited("3, 7", "la tour"), TWO, EIFFEL, (1, 1, 1, 1, 0.8)),
    (cited("3, 7", "Eiffel-Tower"), TWO, EIFFEL, (1, 1, 1, 1, 0)),
    (cited("3, 7", "a an the"), TWO, EIFFEL, (1, 1, 1, 1, 0)),
    (cited("3, 7", "1000"), TWO, ["1,000"], (1, 1, 1, 1, 1)),
    (cited("3, 7", "the"), TWO, ["The"], (1, 1, 1, 1, 1)),
    # Without a readable answer all is 0.
    (cited("3, 7", ""), TWO, EIFFEL, ZEROS),
    ("<support>3, 7</support>", TWO, EIFFEL, ZEROS),
    ("<support>3, 7</support><answer>Eiffel Tower", TWO, EIFFEL, ZEROS),
    (cited("3, 7", "Eiffel Tower") + "<answer>Paris</answer>", TWO, EIFFEL, ZEROS),
    ("<support>3, 7<answer>Eiffel Tower</answer>", TWO, EIFFEL, ZEROS),
    ("<think>" + cited("3, 7", "Eiffel Tower"), TWO, EIFFEL, ZEROS),
    ("<think>an <answer>?</think>" + cited("3, 7", "Eiffel Tower"), TWO, EIFFEL, (1, 1, 1, 1, 1)),
]


@pytest.mark.parametrize(("text", "support", "golds", "expected"), MUSIQUE)
def test_musique(
    domains: dict[str, Domain], text: str, support: list[int], golds: list[str], expected: tuple[float, ...]
) -> None:
    answer = judged(domains["musique"], text, support=support, golds=golds)
    assert answer.rewards == pytest.approx(expected, abs=1e-12)
    assert bool(answer.reason) == (expected == ZEROS)


ENTITIES = [
    "Robert_Rodriguez",
    "From_Dusk_till_Dawn:_The_Series",
    "32nd_European_Film_Awards",
    "The_The",
    "A",
]


def named(*names: str) -> str:
    tags = [
        f"<entity_{letter}>{name}</entity_{letter}>" for letter, name in zip("ABCDE", names, strict=False)
    ]
    return "Back from the end:\n" + "\n".join(tags)


EUREQA: list[tuple[str, tuple[float, ...]]] = [
    (named(*ENTITIES), (1, 1, 1, 1, 1)),
    (named("robert_RODRIGUEZ"), (1, 0, 0, 0, 0)),
    (named("Robert-Rodriguez"), (0, 0, 0, 0, 0)),
    (named("Robert_Rodriguez_Jr."), (0, 0, 0, 0, 0)),
    (named("x", "From Dusk till Dawn The Series"), (0, 1, 0, 0, 0)),
    (named("x", "from dusk till dawn: series"), (0, 1, 0, 0, 0)),
    (named("x", "y", "The 32nd European Film Awards"), (0, 0, 1, 0, 0)),
    # A name that normalises to nothing is only right as it stands.
    (named("x", "y", "z", "The_The"), (0, 0, 0, 1, 0)),
    (named("x", "y", "z", "the"), (0, 0, 0, 0, 0)),
    (named("x", "y", "z", "w", "a"), (0, 0, 0, 0, 1)),
    # Entities may be left out, and stand in any order.
    ("<entity_C>32nd_European_Film_Awards</entity_C><entity_A>Robert_Rodriguez</entity_A>", (1, 0, 1, 0, 0)),
    ("<entity_A></entity_A><entity_B>From Dusk till Dawn: The Series</entity_B>", (0, 1, 0, 0, 0)),
    (named(*ENTITIES[1:], ENTITIES[0]), (0, 0, 0, 0, 0)),
]
EUREQA_UNREADABLE = [
    named("", "", "", "", ""),
    "Robert_Rodriguez",
    "<entity_A>Robert_Rodriguez",
    named("Robert_Rodriguez") + "<entity_A>Quentin_Tarantino</entity_A>",
    "<ENTITY_A>Robert_Rodriguez</ENTITY_A>",
]


@pytest.mark.parametrize(("text", "expected"), [*EUREQA, *((text, ZEROS) for text in EUREQA_UNREADABLE)])
def test_eureqa(domains: dict[str, Domain], text: str, expected: tuple[float, ...]) -> None:
    answer = judged(domains["eureqa"], text, entities=ENTITIES)
    assert answer.rewards == expected
    assert (answer.key is None) == (text in EUREQA_UNREADABLE)
    assert bool(answer.reason) == (text in EUREQA_UNREADABLE)


def reply(*calls: object, think: str = "<think>So.</think>", response: str = "") -> str:
    body = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in calls)
    return think + (f"<tool_call>\n{body}\n</tool_call>" if calls else "") + response


def call(tool: str, **parameters: Any) -> dict[str, Any]:
    return {"name": tool, "parameters": parameters}


WEATHER, CLOCK = call("get_weather", city="New York", days=3), call("clock")
ONE, BOTH, NO = reply(WEATHER), reply(WEATHER, CLOCK), reply(response="<response>No.</response>")


def argument(value: Any) -> str:
    return reply(call("f", x=value))


TOOLRL: list[tuple[str, str, tuple[float, ...]]] = [
    (ONE, ONE, (1, 1, 1, 1)),
    (reply(WEATHER, think=""), ONE, (0, 1, 1, 1)),
    (reply(call("get_weather", city="York", days=3)), ONE, (1, 1, 1, (2 / 3 + 1) / 2)),
    (reply(call("get_weather", city="New York")), ONE, (1, 1, 2 / 3, 0.5)),
    # A needless key costs a key F1 of 4/5 and no value.
    (reply(call("get_weather", city="New York", days=3, unit="C")), ONE, (1, 1, 0.8, 1)),
    (reply(call("get_weather")), ONE, (1, 1, 0, 0)),
    (reply(call("Get_Weather!", city="New York", days=3)), ONE, (1, 1, 1, 1)),
    (reply(call("weather", city="New York", days=3)), ONE, (1, 0, 1, 1)),
    (reply({"name": "get_weather", "arguments": {"city": "New York", "days": 3}}), ONE, (1, 1, 1, 1)),
    # The multiset of names: one of two found is F1 2/3, and the lonely call counts 0.
    (ONE, BOTH, (1, 2 / 3, 0.5, 0.5)),
    (BOTH, ONE, (1, 2 / 3, 0.5, 0.5)),
    (reply(CLOCK, WEATHER), BOTH, (1, 1, 1, 1)),
    # The second call stands beside clock, which has no keys: a key F1 of 0, and no value to get wrong.
    (reply(WEATHER, WEATHER), BOTH, (1, 0.5, 0.5, 1)),
    (reply([WEATHER, CLOCK]), BOTH, (1, 1, 1, 1)),
    (reply(f"{json.dumps(WEATHER)}, {json.dumps(CLOCK)}"), BOTH, (1, 1, 1, 1)),
    # Names come first when calls are put beside each other, then shared keys.
    (reply(call("g", x=1), call("f", y=2)), reply(call("f", x=1), call("g", y=2)), (1, 1, 0, 0)),
    (reply(call("f", y=2), call("f", x=1)), reply(call("f", x=1), call("f", y=2)), (1, 1, 1, 1)),
    # No call wanted.
    (NO, NO, (1, 1, 1, 1)),
    (reply(think="", response="<response>No.</response>"), NO, (0, 1, 1, 1)),
    (ONE, NO, (0, 0, 0, 0)),
    (NO, ONE, (0, 0, 0, 0)),
    (reply("") + "<response>No.</response>", NO, (1, 1, 1, 1)),
    # Values.
    (argument("3"), argument(3), (1, 1, 1, 1)),
    (argument("three"), argument(3), (1, 1, 1, 0)),
    (argument(True), argument(1), (1, 1, 1, 0)),
    (argument("the cat"), argument("cat"), (1, 1, 1, 2 / 3)),
    (argument(["a", "b"]), argument(["b", "c"]), (1, 1, 1, 0.5)),
    (argument("b"), argument(["b", "c"]), (1, 1, 1, 2 / 3)),
    (argument([]), argument([]), (1, 1, 1, 1)),
    (argument({"a": 1, "b": 2}), argument({"a": 5}), (1, 1, 1, 2 / 3)),
]
TOOLRL_UNREADABLE = [
    "What a fine day.",
    "<think>The answer is clear.</think>",
    "<tool_call>" + json.dumps(WEATHER),
    reply("get_weather(city='New York')"),
    reply(json.dumps(WEATHER) + "}"),
    reply(WEATHER, "and more"),
    reply([WEATHER, "clock"]),
    reply({"parameters": {"city": "New York"}}),
    reply({"name": "get_weather", "parameters": ["New York"]}),
    reply({"name": 5, "parameters": {}}),
    ONE + "<tool_call>{}</tool_call>",
    reply("[" * 100_000),
]


@pytest.mark.parametrize(("text", "gold", "expected"), TOOLRL)
def test_toolrl(domains: dict[str, Domain], text: str, gold: str, expected: tuple[float, ...]) -> None:
    answer = judged(domains["toolrl"], text, gold=gold)
    assert answer.rewards == pytest.approx(expected, abs=1e-12)
    assert not answer.reason


@pytest.mark.parametrize("gold", [ONE, NO], ids=["one call", "no call"])
@pytest.mark.parametrize("place", range(len(TOOLRL_UNREADABLE)))
def test_toolrl_unreadable(domains: dict[str, Domain], place: int, gold: str) -> None:
    answer = judged(domains["toolrl"], TOOLRL_UNREADABLE[place], gold=gold)
    assert answer.rewards == (0.0,) * 4 or (
        place == len(TOOLRL_UNREADABLE) - 1 and answer.rewards is not None
    )
    assert answer.reason


def test_several_answers_are_in_numbered_tags_and_repeat_by_their_rewards(tmp_path: Path) -> None:
    domain = open_domain("musique", write_jsonl(tmp_path / "rows.jsonl", [musique(0)]), answers=4)
    written = [cited("1, 3", "Lund"), cited("1, 3", "city of Lund"), cited("1", "Lund")]
    text = "".join(f"<response_{number}>{one}</response_{number}>" for number, one in enumerate(written, 1))
    (chain,) = domain.judge([text], domain.prompts)
    assert [answer.rewards for answer in chain] == [(1,) * 5, (1,) * 5, (1, 0, 1, 1, 1), ZEROS]
    assert [answer.reason for answer in without_repeats(chain)] == [
        "", "repeats answer 1", "", "it has no <response_4>"
    ]  # fmt: skip
    assert "from <response_1> to <response_4>" in domain.prompts[0]["prompt"][0]["content"]


NESTED = "<response_1>" + cited("1", "Lund")


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        (NESTED + "</response_1><response_2>" + cited("3", "Lund") + "</response_2>", [True, True]),
        ("<response_2>" + cited("3", "Lund") + "</response_2>" + NESTED + "</response_1>", [True, True]),
        (NESTED + "<response_2>" + cited("3", "Lund") + "</response_2></response_1>", [False, True]),
        (NESTED + "<response_2></response_1>" + cited("3", "Lund") + "</response_2>", [False, False]),
        (NESTED + "</response_1><response_2>" + cited("3", "Lund"), [True, False]),
        (NESTED + "</response_1>" + NESTED + "</response_1>", [False, False]),
        ("</response_1>" + NESTED + "</response_1>", [False, False]),
        (NESTED + "</response_3></response_1>", [False, False]),
        (NESTED + cited("3", "Lund") + "</response_1>", [False, False]),
        ("<response_1><support>3, <answer>Lund</answer></support></response_1>", [False, False]),
        ("<response_1><support>3<answer></support>Lund</answer></response_1>", [False, False]),
        ("<response_1><answer>Lund<think>Graz</think></answer></response_1>", [False, False]),
        (cited("1", "Lund"), [False, False]),
    ],
)
def test_a_delimiter_that_can_be_read_in_two_ways_earns_nothing(
    text: str, readable: list[bool], tmp_path: Path
) -> None:
    domain = open_domain("musique", write_jsonl(tmp_path / "rows.jsonl", [musique(0)]), answers=2)
    (chain,) = domain.judge([text], domain.prompts)
    assert [answer.key is not None for answer in chain] == readable
