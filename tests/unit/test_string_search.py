"""Searches of string tasks: joins only where they are wanted, and solved means right on held-out rows."""

from random import Random

import pytest

from trainer.domains.arm_training import load_start_model
from trainer.domains.catalogue import open_family
from trainer.domains.strings.search import search_strings
from trainer.domains.strings.tasks import run_own, sample_task
from trainer.domains.task_search import Searched, TaskSearch, solved_by


def test_heldout_rows_are_other_rows_and_change_nothing_else() -> None:
    plain, more = Random(3), Random(3)
    for _ in range(10):
        task, with_rows = sample_task(plain), sample_task(more, heldout=12)
        assert with_rows._replace(heldout=()) == task
        rows, outputs = [row for row, _ in with_rows.heldout], [output for _, output in with_rows.heldout]
        assert rows
        assert not set(rows) & set(task.rows)
        assert run_own(task.text, rows) == outputs


def test_a_task_is_solved_from_some_evaluation_on() -> None:
    assert solved_by(Searched([], 0, 3), [2, 3, 4]) == {"2": 0.0, "3": 1.0, "4": 1.0}
    assert solved_by(Searched([], 0, None), [2]) == {"2": 0.0}


@pytest.mark.slow
def test_searches_join_if_wanted_and_are_the_same_for_a_seed() -> None:
    with open_family("strings") as family:
        model, tasks = load_start_model(family), family.tasks("test", 6)
        plain, again, joined = (
            search_strings(model, family, tasks, TaskSearch(36, 6, joins=joins), seed=0)
            for joins in (False, False, True)
        )
    assert plain == again
    assert plain != joined
    for one in (*plain, *joined):
        right = [answer.is_right for answer in one.answers]
        assert len(right) == 36 or any(right)
        assert one.solved_after in (None, right.index(True) + 1 if any(right) else None)
    assert sum(len(one.answers) for one in joined) < sum(len(one.answers) for one in plain)
    assert any(one.solved_after for one in joined)
