"""Rows in the formats of public benchmarks, written by us, field by field."""

import base64
import json
import pickle
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

CITIES = ("Lund", "Graz", "Pisa", "Brno", "Gent", "Cork", "Vigo", "Bergen", "Split", "Turku")


def musique(number: int) -> dict[str, Any]:
    """Return a question of 2 to 4 hops; hop i is in paragraph 2 i + 1."""
    hops, city = 2 + number % 3, CITIES[number % 10]
    return {
        "id": f"{hops}hop__{number}_{number + 1}",
        "paragraphs": [
            {"idx": idx, "title": f"Page {idx}", "paragraph_text": f"Fact {idx} of {city}.",
             "is_supporting": idx % 2 == 1 and idx < 2 * hops}
            for idx in range(20)
        ],
        "question": f"Where is the mayor of {city} from?",
        "question_decomposition": [
            {"id": hop, "question": f"#{hop} >> place", "answer": city, "paragraph_support_idx": 2 * hop + 1}
            for hop in range(hops)
        ],
        "answer": f"the city of {city}",
        "answer_aliases": [city],
        "answerable": True,
    }  # fmt: skip


def eureqa(number: int) -> dict[str, Any]:
    """Return a question of five hops whose last sentence names the sixth entity."""
    entities = [f"{CITIES[(number + hop) % 10]}_Film_Festival" for hop in range(6)]
    masks = ["Event A", "Person B", "Country C", "Film D", "Award E", "City F"]
    return {
        "idx": number,
        "question": [f"{one} is linked to {other}." for one, other in pairwise(masks)]
        + [f"City F is {entities[5]}."],
        "entity_masks": masks,
        "entities": entities,
    }


def toolrl(number: int) -> dict[str, Any]:
    """Return a task that needs one call, two, or none."""
    calls = [{"name": "weather", "parameters": {"city": CITIES[number], "days": number}},
             {"name": "clock", "parameters": {}}][: (number + 1) % 3]  # fmt: skip
    part = (
        "<tool_call>\n" + "\n".join(map(json.dumps, calls)) + "\n</tool_call>"
        if calls
        else "<response>None is needed.</response>"
    )
    return {
        "data_source": "rlla",
        "prompt": [
            {"role": "system", "content": "Tools: weather(city, days), clock(). Write <think>, then ..."},
            {"role": "user", "content": f"What is the weather in {CITIES[number]}?"},
        ],
        "ability": "tool_use",
        "reward_model": {"style": "rule", "ground_truth": f"<think>As asked.</think>\n{part}"},
        "extra_info": {"split": "train", "index": number},
    }


def livecodebench(number: int) -> dict[str, Any]:
    """Return a task on standard input, or one of a function whose private tests are packed as published."""
    tests = [
        {"input": f"{one} {number}\n", "output": f"{one + number}\n", "testtype": "stdin"}
        for one in range(20)
    ]
    calls = [
        {"input": f"{one}\n{number}", "output": f"{one + number}", "testtype": "functional"}
        for one in range(3)
    ]
    is_call = number % 2 == 1
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(calls[1:])))).decode()
    starter = "class Solution:\n    def add(self, a: int, b: int) -> int:\n        "
    return {
        "question_title": "Sum",
        "question_content": "Add two whole numbers.",
        "platform": "leetcode" if is_call else "atcoder",
        "question_id": f"abc{number}",
        "contest_id": "abc",
        "contest_date": "2024-08-03T00:00:00",
        "starter_code": starter if is_call else "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(calls[:1] if is_call else tests[:2]),
        "private_test_cases": packed if is_call else json.dumps(tests[2:]),
        "metadata": json.dumps({"func_name": "add"} if is_call else {}),
    }


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
