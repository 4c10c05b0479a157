"""Chains from single answers: what they are made of, and that a model learns to write them."""

from __future__ import annotations

from collections import Counter
from random import Random

from evovpo.builtin.chain import END_ID, SEPARATOR_ID
from trainer.recipes.distil_chains import chain_rows

PROMPTS = ((9, 1), (9, 3))


def split(ids: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the answers of a chain without their marks."""
    answers: list[tuple[int, ...]] = [()]
    for token in ids:
        if token in (SEPARATOR_ID, END_ID):
            answers.append(())
        else:
            answers[-1] += (token,)
    return answers[:-1]


def test_chains_hold_different_whole_answers_and_singles_stay() -> None:
    completions = [(10, END_ID), (11, END_ID), (12, 12, END_ID), (13,), (10, END_ID), (11, END_ID)]
    singles, chains = chain_rows(PROMPTS, completions, 3, Random(0))
    assert [row.prompt_ids for row in singles] == [PROMPTS[0]]
    assert [row.prompt_ids for row in chains] == [PROMPTS[1]]
    ids = chains[0].completion_ids
    assert ids[-1] == END_ID
    assert ids.count(SEPARATOR_ID) == 2
    assert sorted(split(ids)) == [(10,), (11,), (12, 12)]


def test_the_first_answer_of_a_chain_comes_as_often_as_it_was_sampled() -> None:
    completions = [(10, END_ID)] * 6 + [(11, END_ID)] * 3 + [(12, END_ID)] * 3
    rng = Random(1)
    firsts = Counter(
        split(row.completion_ids)[0]
        for _ in range(300)
        for row in chain_rows(PROMPTS, completions, 3, rng)[1]
    )
    total = sum(firsts.values())
    assert abs(firsts[(10,)] / total - 0.5) < 0.06
    assert abs(firsts[(11,)] / total - 0.25) < 0.06


def test_a_task_with_too_few_different_answers_gives_no_chain() -> None:
    assert chain_rows(PROMPTS, [(10, END_ID), (10, END_ID), (11, END_ID)], 3, Random(0)) == []
