"""From judged completions to figures: by hand, against a slow version, and the rule for sandbox faults."""

import dataclasses
import itertools

import numpy as np
import pytest
from toy_runs import PROBLEM, ROWS, SWAP, source

from evovpo.errors import EvovpoError, SandboxError
from evovpo.judging.measure import (
    JudgedAnswer,
    Measure,
    measure,
    measure_groups,
    measure_programs,
    without_faults,
)
from evovpo.types import Evaluation, Group, Program, Prompt, PromptKind, Rewards, Status

A, B = JudgedAnswer("a", (1.0, 0.0)), JudgedAnswer("b", (0.0, 1.0))
BEST, NOTHING = JudgedAnswer("best", (1.0, 1.0)), JudgedAnswer(None, (0.0, 0.0))
FAULT = JudgedAnswer("c", None)


def test_figures_of_three_chains_by_hand() -> None:
    found = measure([[A, B], [NOTHING, BEST], [A, A]], unseen=frozenset({"best"}))
    assert found.values_C_m.tolist() == [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]]
    # k = 1: first answers .5, 0, .5; k = 2: whole chains .5, 1, .5; k = 6: everything.
    assert found.best_at_k([1, 2, 6]) == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert found.pass_at_k([1, 2, 6]) == pytest.approx([0.0, 1 / 3, 1.0])
    assert found.unseen_pass_at_k([2]) == pytest.approx([1 / 3])
    # Chains cover (1, 1), (1, 1) and (1, 0) of the two components.
    assert found.union_at_k([2]) == pytest.approx([5 / 6])
    # With weights (1, 0) and (1/2, 1/2): chains earn 1, 1, 1 and .5, 1, .5.
    weights = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert found.expected_at_k([2], weights) == pytest.approx([(1 + 2 / 3) / 2])
    assert found.distinct_share == 3 / 6
    # Fifteen pairs: A-B, A-0, A-best 2, 1, 1; with three A: 3 (2 + 1 + 1) + B-0, B-best, 0-best: 1 + 1 + 2.
    assert found.diversity == pytest.approx(16 / 15)
    assert found.faults == 0


def test_figures_equal_a_count_over_all_orders_of_the_chains() -> None:
    rng = np.random.default_rng(4)
    rewards = rng.integers(0, 3, (4, 3, 2)) / 2
    found = Measure(rewards, ())
    weights = rng.dirichlet([1.0, 1.0], 5)
    ks = range(1, 13)
    for k, best, passed, expected, union in zip(
        ks,
        found.best_at_k(ks),
        found.pass_at_k(ks),
        found.expected_at_k(ks, weights),
        found.union_at_k(ks),
        strict=True,
    ):
        sets = [np.concatenate(rewards[list(order)])[:k] for order in itertools.permutations(range(4))]
        assert best == pytest.approx(np.mean([max(y.mean() for y in one) for one in sets]))
        assert passed == pytest.approx(np.mean([any(y.min() == 1 for y in one) for one in sets]))
        assert expected == pytest.approx(
            np.mean([[max(w @ y for y in one) for w in weights] for one in sets])
        )
        assert union == pytest.approx(np.mean([one.max(axis=0).mean() for one in sets]))
        pairs = [any(np.maximum(y, z).min() == 1 for y in one for z in one) for one in sets]
        assert found.pair_at_k([k]) == pytest.approx(np.mean(pairs), abs=0.04)


def test_the_expected_best_of_the_figures_by_k_is_that_of_fixed_weightings() -> None:
    # E max(w, 1 - w) of a uniform w is 3/4, and one answer gets 1/2.
    found = measure([[A], [B]]).by_k([1, 2])
    assert list(found) == ["best_at_k", "pass_at_k", "expected_at_k", "pair_at_k"]
    assert found["expected_at_k"] == pytest.approx([0.5, 0.75], abs=0.04)


def test_the_hypervolume_of_answers_is_what_their_boxes_cover() -> None:
    halves = [[JudgedAnswer("a", (0.5, 1.0))], [JudgedAnswer("b", (1.0, 0.5))], [NOTHING]]
    assert measure(halves).hypervolume == pytest.approx(0.75, abs=4 * 0.0036)


def test_a_completion_with_a_sandbox_fault_leaves_and_is_counted() -> None:
    chains = [[A, B], [BEST, FAULT], [FAULT, NOTHING], [NOTHING, A]]
    assert without_faults(chains) == [0, 3]
    found, alone = measure(chains), measure([chains[0], chains[3]])
    assert found.faults == 2
    assert found.keys_C_m == alone.keys_C_m == (("a", "b"), (None, "a"))
    assert np.array_equal(found.rewards_C_m_D, alone.rewards_C_m_D)
    # Of the eight answers asked for four are left: a figure beyond them is that of all.
    assert found.best_at_k([4, 8]).tolist() == [0.5, 0.5]


def test_completions_that_all_met_a_fault_say_nothing() -> None:
    with pytest.raises(SandboxError, match="failed on each of the 2 completions of a task; try again"):
        measure([[FAULT], [FAULT]])


class Judge:
    """Judges by a table, and fails on the held-out rows of what is not in it."""

    def __init__(self, rewards: dict[str, Rewards | None], unseen: dict[str, bool]) -> None:
        self.rewards, self.unseen, self.ran = rewards, unseen, 0

    def evaluate(self, program: Program) -> Evaluation:
        self.ran += 1
        rewards = self.rewards[program.source]
        status = Status.SANDBOX_ERROR if rewards is None else Status.OK
        return Evaluation(program.id, PROBLEM.version, status, rewards, "", 0.0, "none")

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        if program.source not in self.unseen:
            raise SandboxError("the held-out rows could not be run")
        return (self.unseen[program.source],)


def test_programs_are_run_once_and_right_ones_on_the_rows_held_out() -> None:
    right, half = (1.0,) * len(ROWS), (1.0, *(0.0,) * (len(ROWS) - 1))
    good, learnt, lost, poor = (Program(source(text)) for text in ("x0", "x0[1:]", SWAP, "'x'"))
    judge = Judge(
        {good.source: right, learnt.source: right, lost.source: right, poor.source: half},
        {good.source: True, learnt.source: False},
    )
    found = measure_programs(PROBLEM, [[good, poor], [learnt, None], [lost, good], [good, good]], judge)
    assert judge.ran == 4
    assert found.faults == 1  # the held-out rows of the third could not be run
    assert found.unseen_C_m.tolist() == [[True, False], [False, False], [True, True]]
    assert found.right_C_m.tolist() == [[True, False], [True, False], [True, True]]
    alone = measure_programs(dataclasses.replace(PROBLEM, heldout=()), [[good]], judge)
    assert alone.unseen_C_m is None
    assert alone.unseen_pass_at_k([1]) is None
    judge.rewards[good.source] = None
    with pytest.raises(EvovpoError, match="sandbox failed on each"):
        measure_programs(PROBLEM, [[good]], judge)


def test_stored_groups_are_one_pool_in_which_a_repeat_keeps_its_rewards() -> None:
    prompt = Prompt("p", "r", 0, 0, PromptKind.ROOT, 0, (), (), 2, 2, 0)
    group = Group(
        prompt=prompt,
        rollouts=(),
        rewards_G_M_D=(((1.0, 0.0), (0.0, 0.0)), ((0.0, 0.0), (0.0, 1.0)), ((1.0, 1.0), (1.0, 1.0))),
        valid_G=(True, True, False),
        programs_G_M=(("a", "a"), (None, "b"), ("c", "d")),
    )
    found = measure_groups([group, group])
    assert found.faults == 2
    assert found.rewards_C_m_D[0].tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert found.keys_C_m == (("a", "a"), (None, "b")) * 2
