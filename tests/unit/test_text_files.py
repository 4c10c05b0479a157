"""Ten rows in each public format, written by us, are loaded, asked, parsed and rewarded."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from evovpo.errors import ConfigError, ProblemError
from evovpo.sandbox import Sandbox
from evovpo.types import Limits
from tests.support.benchmark_rows import CITIES, eureqa, livecodebench, musique, toolrl, write_jsonl
from trainer.domains import Domain, open_domain
from trainer.domains.text import livecodebench as livecodebench_domain

CODE = "```python\ndef {}:\n    return {}\n```"


def supported(number: int) -> str:
    hops = ", ".join(str(2 * hop + 1) for hop in range(2 + number % 3))
    return f"<support>{hops}</support><answer>{CITIES[number]}</answer>"


def entities(number: int) -> str:
    names = [f"{CITIES[(number + hop) % 10]} film festival" for hop in range(5)]
    return "".join(f"<entity_{one}>{name}</entity_{one}>" for one, name in zip("ABCDE", names, strict=True))


def program(number: int) -> str:
    by_text = CODE.format("solve(text)", "str(sum(map(int, text.split())))")
    return CODE.format("add(a, b)", "a + b") if number % 2 else by_text


FORMATS: dict[str, tuple[Callable[[int], dict[str, Any]], Callable[[int], str], int]] = {
    "musique": (musique, supported, 5),
    "eureqa": (eureqa, entities, 5),
    "toolrl": (toolrl, lambda number: str(toolrl(number)["reward_model"]["ground_truth"]), 4),
    "livecodebench": (livecodebench, program, 16),
}
"""For each format a row, the text of its right answer, and the number of components."""


def opened(name: str, folder: Path, answers: int = 1) -> Domain:
    return open_domain(
        name, write_jsonl(folder / f"{name}.jsonl", list(map(FORMATS[name][0], range(10)))), answers
    )


@pytest.mark.parametrize("name", FORMATS)
def test_ten_rows_are_asked_and_their_right_answers_rewarded(name: str, tmp_path: Path) -> None:
    _, answer, size = FORMATS[name]
    with opened(name, tmp_path) as domain:
        assert len(domain.components) == size
        assert [set(row) for row in domain.prompts] == [set(domain.prompts[0])] * 10
        assert all(message["content"].strip() for row in domain.prompts for message in row["prompt"])
        found = domain.reward_vectors(list(map(answer, range(10))), domain.prompts)
        for rewards in found:
            assert rewards is not None
            assert rewards.tolist() == [[1.0] * rewards.shape[1]]
        assert not np.any(domain.reward_vectors(["I do not know."] * 2, domain.prompts[:2])[0])


@pytest.mark.parametrize("name", ["musique", "eureqa", "toolrl"])
def test_rows_of_a_parquet_file_or_a_list_are_the_same(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = list(map(FORMATS[name][0], range(10)))
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=1))
    expected = opened(name, tmp_path).prompts
    assert open_domain(name, tmp_path / "rows.parquet").prompts == expected
    assert open_domain(name, tmp_path / "rows.json").prompts == expected


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_lacks_a_field_is_named(name: str, tmp_path: Path) -> None:
    rows = list(map(FORMATS[name][0], range(3)))
    rows[1] = {"id": 1}
    file = write_jsonl(tmp_path / "rows.jsonl", rows)
    with pytest.raises(ProblemError, match=r"rows.jsonl: (row|record) 2: expected the fields .*, found id"):
        open_domain(name, file)


def test_tests_of_a_program_are_components_and_sixteen_at_most(tmp_path: Path) -> None:
    with opened("livecodebench", tmp_path, answers=3) as domain:
        # Test number i adds i and 0; 20 tests are dealt to 16 hands, and the first four hold i and i + 16.
        half = CODE.format("solve(text)", "text.split()[0] if int(text.split()[0]) < 8 else 1 / 0")
        same = half.replace("return", "return  ").replace("def", "# the same\ndef")
        endless = CODE.format("solve(text)", "[] * 1") + "\n---\n```python\nimport os\n"
        chains = domain.judge([f"One:\n{half}\n---\n{same}\n", endless, "no code"], [domain.prompts[0]] * 3)
        first, second, third = chains[0]
    assert first.rewards == (0.5,) * 4 + (1.0,) * 4 + (0.0,) * 8
    assert first.key == second.key
    assert third.reason == "it has no closed python block number 3"
    assert [answer.rewards for answer in chains[1] + chains[2]] == [(0.0,) * 16] * 6
    assert [answer.reason for answer in chains[1][1:]] == [
        "it has no closed python block number 2", "it has no closed python block number 3"
    ]  # fmt: skip


def test_a_test_that_ends_a_program_leaves_the_others_their_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(livecodebench_domain, "LIMITS", (Limits(wall_seconds=60.0, cpu_seconds=1),) * 3)
    adds = (
        "def solve(text):\n    first, other = text.split()\n    {}\n    return str(int(first) + int(other))"
    )
    ends = ("while first == '5': pass", "if int(first) % 4 == 1: __import__('os')._exit(1)")
    with opened("livecodebench", tmp_path) as domain:
        texts = [f"```python\n{adds.format(end)}\n```" for end in ends]
        (slow,), (fragile,) = domain.judge(texts, domain.prompts[:1] * 2)
    # Test 5 is alone in its component, and the first four components hold tests i and i + 16.
    assert slow.rewards == (1.0,) * 5 + (0.0,) + (1.0,) * 10
    # Tests 1, 5 and 9 end a process each, and none is left for those from 10 on.
    assert fragile.rewards == (0.5, 0, 0.5, 0.5, 1, 0, 1, 1, 1) + (0.0,) * 7


def test_programs_are_judged_at_a_time_and_within_the_limits_that_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = livecodebench_domain.LIMITS
    assert (sum(one.wall_seconds for one in limits), sum(one.cpu_seconds for one in limits)) == (10.0, 6)
    both, run = Barrier(2, timeout=120), Sandbox.run

    def meet(*given: Any, **named: Any) -> Any:
        both.wait()  # broken, and an error, where the second is judged after the first
        return run(*given, **named)

    monkeypatch.setattr(Sandbox, "run", meet)
    with opened("livecodebench", tmp_path) as domain:
        chains = domain.judge([program(0)] * 2, domain.prompts[:1] * 2)
    assert [answer.is_right for (answer,) in chains] == [True, True]


def test_programs_that_fail_as_a_whole_are_zeros_with_their_reason(tmp_path: Path) -> None:
    with opened("livecodebench", tmp_path, answers=3) as domain:
        bad = [CODE.format("other(text)", "text"), "```python\ndef solve(\n```", "```python\n1 / 0\n```"]
        (chain,) = domain.judge(["\n---\n".join(bad)], domain.prompts[:1])
    assert [answer.rewards for answer in chain] == [(0.0,) * 16] * 3
    assert [answer.key is None for answer in chain] == [False, True, False]
    assert all(answer.reason for answer in chain)


def test_prompts_to_measure_on_are_drawn_evenly_over_strata(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "rows.jsonl", sorted(map(musique, range(30)), key=lambda row: row["id"]))
    one, again = (open_domain("musique", file, tasks=9) for _ in range(2))
    found = [row["stratum"] for row in one.prompts]
    assert {hops: found.count(hops) for hops in found} == {"2 hops": 3, "3 hops": 3, "4 hops": 3}
    assert [row["id"] for row in again.prompts] == [row["id"] for row in one.prompts]
    assert one.scalar == (1, 1, 1, 1, 3)


def test_rows_are_chosen_by_date_and_files_are_joined(tmp_path: Path) -> None:
    days = ("2024-07-31", "2024-08-01", "2024-12-24", "2025-02-28", "2025-03-01")
    rows = [livecodebench(0) | {"contest_date": f"{day}T00:00:00", "question_id": day} for day in days]
    one, other = write_jsonl(tmp_path / "one.jsonl", rows[:2]), write_jsonl(tmp_path / "two.jsonl", rows[2:])
    for dates in ("2024-08..2025-02", "2024-08-01..2025-02-28"):
        with open_domain("livecodebench", f"{one},{other}", dates=dates) as domain:
            assert [row["id"] for row in domain.prompts] == [f"atcoder-{day}" for day in days[1:4]]
    with pytest.raises(ConfigError, match=r"expected FROM\.\.TO"):
        open_domain("livecodebench", one, dates="2024")
    with pytest.raises(ConfigError, match="its rows have no dates"):
        open_domain("eureqa", write_jsonl(tmp_path / "q.jsonl", [eureqa(1)]), dates="2024..2025")


def test_files_of_deepcoder_are_read_as_livecodebench(tmp_path: Path) -> None:
    taco = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
    called = {"fn_name": "add", "inputs": [[1, 2], [3, 4]], "outputs": [[3], [7]]}
    prime = [{"type": "stdin_stdout", "input": "1 2", "output": "3"},
             {"type": "stdin_stdout", "input": "3 4", "output": "7"}]  # fmt: skip
    lcb = json.loads(livecodebench(0)["private_test_cases"])
    rows = [{"problem": f"Add ({number}).", "tests": json.dumps(tests)}
            for number, tests in enumerate((taco, called, prime, lcb))]  # fmt: skip
    with open_domain("livecodebench", write_jsonl(tmp_path / "train.jsonl", rows)) as domain:
        assert [row["id"].partition("-")[0] for row in domain.prompts] == ["deepcoder"] * 4
        assert "add(arg1, arg2)" in domain.prompts[1]["prompt"][0]["content"]
        by_call = CODE.format("add(one, other)", "one + other")
        texts = [program(0), by_call, program(0), program(0)]
        assert [answer.is_right for (answer,) in domain.judge(texts, domain.prompts)] == [True] * 4
    wrong = write_jsonl(tmp_path / "wrong.jsonl", [{"problem": "Add.", "tests": "{}"}])
    with pytest.raises(ProblemError, match=r"row 1: tests: expected one of DeepCoder's three kinds"):
        open_domain("livecodebench", wrong)
