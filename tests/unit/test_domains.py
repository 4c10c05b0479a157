"""The one way to open a domain: prompts, and rewards of completions as text."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

from mazes import route_rewards

from evovpo.builtin.chain import END, END_ID, SEPARATOR, SEPARATOR_ID
from evovpo.errors import ConfigError, ProblemError
from evovpo.judging.measure import JudgedAnswer, measure, without_repeats
from trainer.domains import Domain, open_domain
from trainer.domains.maze.generator import generate_maze
from trainer.domains.maze.maze_family import FIRST_CELL_ID, route_ids

OWN = """
COMPONENTS = ("vowels", "short")

def reward_vectors(completions, wanted, **columns):
    found = []
    for text, most in zip(completions, wanted, strict=True):
        words = text.split()[:3]
        found.append(None if text == "broken" else
                     [[sum(w.count(v) for v in "aeiou") / len(w), float(len(w) <= int(most))] for w in words])
    return found
"""

CELLS = [63, 54, 45, 36, 27, 18, 19, 20, 21, 22, 13, 14, 15, 6, 7, 8]
"""A shortest way through the first maze of a training."""
WRITTEN = "".join(f"⟦{cell // 9}{cell % 9}⟧" for cell in CELLS)
REWARDS = route_rewards(generate_maze("train-0-0"), "UUUUUURRRRURRURR")


@pytest.fixture
def own(tmp_path: Path) -> tuple[str, Path]:
    (tmp_path / "own.py").write_text(OWN)
    rows = [{"prompt": f"say {number}", "wanted": 3} for number in range(10)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "own.py"), tmp_path / "rows.jsonl"


def vectors(domain: Domain, *completions: object) -> list[list[list[float]] | None]:
    found = domain.reward_vectors(completions, [domain.prompts[0]] * len(completions))
    return [None if one is None else one.tolist() for one in found]


def test_mazes_are_prompts_and_routes_are_judged_as_text() -> None:
    with open_domain("maze", answers=3, tasks=2) as domain:
        assert domain.components == ("completion", "gold", "diamond", "lava-avoidance")
        assert (domain.name, domain.answers, len(domain.prompts)) == ("maze", 3, 2)
        assert domain.prompts[0]["prompt"].startswith("⟦m3⟧")
        assert domain.start_model is not None
        (chain,) = domain.judge([WRITTEN + SEPARATOR + WRITTEN + END], domain.prompts[:1])
    assert [answer.rewards for answer in chain] == [REWARDS, REWARDS, (0.0,) * 4]
    assert [answer.reason for answer in without_repeats(chain)] == ["", "repeats answer 1", "missing"]


def test_a_repeated_route_is_a_row_of_zeros_and_so_is_foreign_text() -> None:
    domain = open_domain("maze-conflict", answers=2, tasks=1)
    rewards = list(REWARDS[1:3])
    twice, foreign = vectors(domain, WRITTEN + SEPARATOR + WRITTEN, "UP, DOWN and <b>RIGHT</b>")
    assert twice == [rewards, [0.0, 0.0]]
    assert foreign == [[0.0, 0.0]] * 2


def test_the_reward_function_of_a_trainer_reads_the_tokens() -> None:
    domain = open_domain("maze", answers=2, tasks=1)
    ids = [*route_ids(CELLS), SEPARATOR_ID, FIRST_CELL_ID, END_ID]
    (found,) = domain.score(["x"], ["lost on the way"], [ids], task=[0], trainer_state=None)
    assert found.tolist() == [list(REWARDS), [0.0] * 4]


def test_programs_for_strings_are_run() -> None:
    with open_domain("strings", answers=2, tasks=1) as domain:
        judged, foreign = vectors(domain, "a" + SEPARATOR + "import os" + END, "⟦⟧ no program <answer>")
    assert judged is not None
    assert foreign is not None
    assert len(judged) == 2
    assert len(judged[0]) >= 4
    assert not any(judged[1])
    assert not np.any(foreign)


def test_a_file_of_your_own_judges_rows_of_your_own(own: tuple[str, Path]) -> None:
    domain = open_domain(*own, answers=3)
    assert (domain.name, domain.components, domain.max_tokens) == ("own", ("vowels", "short"), 1024)
    assert domain.prompts[3] == {"prompt": "say 3", "wanted": 3}
    two, none, broken = vectors(domain, "oa tree", "", "broken")
    assert two == [[1.0, 1.0], [0.5, 0.0], [0.0, 0.0]]
    assert none == [[0.0, 0.0]] * 3
    assert broken is None


def test_answers_with_equal_rewards_count_once_and_chat_messages_are_read(own: tuple[str, Path]) -> None:
    domain = open_domain(*own, answers=3)
    chat = [{"role": "assistant", "content": "oa ei tree"}]
    assert vectors(domain, chat) == [[[1.0, 1.0], [0.0, 0.0], [0.5, 0.0]]]
    (chain,) = domain.judge([chat], domain.prompts[:1])
    assert measure([chain]).best_at_k([3]).tolist() == [1.0]


def test_rows_of_a_file_are_parted_by_their_place(own: tuple[str, Path]) -> None:
    train, validation, test = (
        [row["prompt"] for row in open_domain(*own, split=split).prompts]
        for split in ("train", "validation", "test")
    )
    assert (train, validation, test) == ([f"say {number}" for number in range(8)], ["say 8"], ["say 9"])
    assert len(open_domain(*own, tasks=4).prompts) == 4


def test_parquet_and_csv_hold_the_same_rows(own: tuple[str, Path], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table.from_pylist(open_domain(*own).prompts)
    parquet.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("prompt,wanted\nsay 0,3\n")
    assert open_domain(own[0], tmp_path / "rows.parquet").prompts == open_domain(*own).prompts
    domain = open_domain(own[0], tmp_path / "rows.csv", 3)
    assert vectors(domain, "oa tree") == [[[1.0, 1.0], [0.5, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("COMPONENTS = ('a',)", r"expected COMPONENTS.*and a function reward_vectors"),
        ("def reward_vectors(completions, **columns): return []", "expected COMPONENTS"),
        ("1 / 0", r"ZeroDivisionError.*line 1"),
        ("COMPONENTS = ('a',)\ndef reward_vectors(completions, **c): return [[[2.0]]]", r"lie in \[0, 1\]"),
        ("COMPONENTS = ('a',)\ndef reward_vectors(completions, **c): return [[[1, 0]]]", "expected 1 comp"),
        ("COMPONENTS = ('a',)\ndef reward_vectors(completions, **c): return []", "judged 0 of 1"),
        ("COMPONENTS = ('a',)\ndef reward_vectors(completions, **c): return [[[1], [1]]]", "m at most 1"),
    ],
)
def test_a_wrong_file_of_your_own_is_named(
    source: str, message: str, own: tuple[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "wrong.py").write_text(source)
    with pytest.raises(ConfigError, match=message):
        vectors(open_domain(str(tmp_path / "wrong.py"), own[1]), "x")


def test_what_is_wrong_with_a_name_or_a_file_is_said(own: tuple[str, Path], tmp_path: Path) -> None:
    for name, data, message in (
        ("mase", None, "unknown domain 'mase'; did you mean 'maze'"),
        ("maze", own[1], "makes its own tasks"),
        (own[0], None, "reads its prompts from a file"),
        (str(tmp_path / "no.py"), own[1], "no.py: running it raised FileNotFoundError"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_domain(name, data)
    with pytest.raises(ConfigError, match="answers is 0"):
        open_domain("maze", answers=0)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "other.jsonl").write_text('{"prompt": "a"}\n{"question": "b"}\n')
    (tmp_path / "torn.jsonl").write_text('{"prompt": "a"\n')
    (tmp_path / "no.parquet").write_text("PAR")
    (tmp_path / "uneven.jsonl").write_text('{"prompt": "a", "wanted": 3}\n{"prompt": "b"}\n')
    for data, message in (
        ("empty.jsonl", "expected at least one row"),
        ("other.jsonl", "row 2: expected the fields prompt, found question"),
        ("torn.jsonl", "line 1: expected JSON"),
        ("absent.jsonl", "expected a readable file"),
        ("uneven.jsonl", "row 2: expected the columns of row 1, prompt, wanted; found prompt; give every"),
        ("no.parquet", "expected a Parquet file"),
    ):
        with pytest.raises(ProblemError, match=message):
            open_domain(own[0], tmp_path / data)
    (tmp_path / "short.jsonl").write_text('{"prompt": "a"}\n')
    with pytest.raises(ConfigError, match="rows of the split test, found none"):
        open_domain(own[0], tmp_path / "short.jsonl", split="test")


def test_repeats_lose_their_rewards_and_faults_stay() -> None:
    good, bad, fault = JudgedAnswer("a", (1.0, 0.5)), JudgedAnswer(None, (0.0, 0.0)), JudgedAnswer("a", None)
    assert without_repeats([good, bad, good, bad, fault]) == [
        good, bad, JudgedAnswer("a", (0.0, 0.0), reason="repeats answer 1"), bad, fault
    ]  # fmt: skip
