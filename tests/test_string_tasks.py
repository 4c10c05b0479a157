"""The strings domain of the study: its tasks, and that its judge is the sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transformers import AutoTokenizer

from evovpo.expressions import canonical, to_source
from evovpo.models import BUILT_IN_MODEL
from evovpo.models.chain_format import END_ID, join_chain
from evovpo.types import Program
from trainer.string_tasks import MIN_ROWS, StringDomain


@pytest.fixture(scope="module")
def domain() -> Iterator[StringDomain]:
    with StringDomain() as opened:
        yield opened


def completion(*answers: str) -> list[int]:
    ids: list[int] = AutoTokenizer.from_pretrained(BUILT_IN_MODEL)(join_chain(answers))["input_ids"]
    return ids


def test_tasks_follow_from_split_and_seed_and_splits_share_none(domain: StringDomain) -> None:
    first, again = domain.tasks("test", 6), domain.tasks("test", 8)
    assert first == again[:6]
    versions = [
        {task.problem.version for task in domain.tasks(split, 30)}
        for split in ("train", "validation", "test")
    ]
    assert sum(map(len, versions)) == len(set.union(*versions)) == 90
    assert {task.problem.version for task in domain.tasks("test", 30, seed=1)}.isdisjoint(versions[2])


def test_every_task_has_rows_enough_to_conflict(domain: StringDomain) -> None:
    tasks = domain.tasks("train", 40)
    assert all(len(task.problem.train) >= MIN_ROWS for task in tasks)
    assert all(len(task.problem.objectives) == len(task.problem.train) for task in tasks)


def test_answers_are_judged_row_by_row_and_missing_ones_filled_up(domain: StringDomain) -> None:
    task = domain.tasks("test", 1)[0]
    wanted = [str(example.output) for example in task.problem.train]
    constant = repr(wanted[0])
    ids = completion(constant, "a(", constant)
    answers = domain.judge(task, ids, 4)
    hits = tuple(float(output == wanted[0]) for output in wanted)
    assert [answer.rewards for answer in answers] == [hits, (0.0,) * len(hits), hits, (0.0,) * len(hits)]
    canonical_text = canonical(constant)
    assert canonical_text is not None
    program = Program(to_source(canonical_text, task.problem.entry, task.problem.parameters))
    assert [answer.key for answer in answers] == [program.id, None, program.id, None]
    assert answers[3].span is None
    assert answers[2].span is not None
    assert ids[answers[2].span[1]] == END_ID


def test_an_answer_is_right_only_with_every_row(domain: StringDomain) -> None:
    task = domain.tasks("test", 1)[0]
    rows = [(example.inputs[0], str(example.output)) for example in task.problem.train]
    table = repr(rows[-1][1])
    for given, output in reversed(rows[:-1]):
        table = f"({output!r} if x0 == {given!r} else {table})"
    answers = domain.judge(task, completion(table), 1)
    assert answers[0].is_right
    assert set(answers[0].rewards) == {1.0}
    assert not domain.judge(task, completion(repr("\x7f")), 1)[0].is_right


def test_a_program_is_run_once_per_task(domain: StringDomain, monkeypatch: pytest.MonkeyPatch) -> None:
    task = domain.tasks("validation", 1)[0]
    first = domain.judge(task, completion("x0.upper()"), 1)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the sandbox ran a program that it had judged")

    monkeypatch.setattr(domain._sandbox, "run", fail)
    assert domain.judge(task, completion("x0.upper()"), 1) == first


def test_a_prompt_asks_for_so_many_answers(domain: StringDomain) -> None:
    task = domain.tasks("test", 1)[0]
    one, three = (domain.prompt_ids(task, answers) for answers in (1, 3))
    assert one[1:] == three[1:]
    assert one[0] != three[0]
