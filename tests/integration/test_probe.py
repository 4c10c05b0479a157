"""Probes with the built-in model, the guard against forgetting, and the problems that are held out."""

import dataclasses
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from rich.console import Console
from toy_runs import PROBLEM, ROWS, SWAP, source

from evovpo.analysis.statistics import best_at_k
from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.strings.format import encode_prompt, expression_fault
from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import open_evaluator
from evovpo.judging.measure import Measure, measure_programs
from evovpo.problem.suites import SuiteEntry
from evovpo.types import PolicyVersion, Problem, Program, PromptKind
from trainer.loop.guard import FEWEST_PROBLEMS, GuardVerdict, Values, clearly_worse
from trainer.loop.probe import ProbeResult, cpu_seconds, generated_problems, probe, root_prompts
from trainer.loop.split import split_problems, split_suite
from trainer.loop.worth import loop_verdict
from trainer.reports.training import before_after_table

pytestmark = pytest.mark.slow

EASY = dataclasses.replace(PROBLEM, id="first-part", version="first-part-1", heldout=(), train=tuple(
    dataclasses.replace(example, output=str(example.inputs[0])[:3]) for example in PROBLEM.train
))  # fmt: skip
"""The first three letters: what the built-in model writes often."""
BRANCH = f"{SWAP} if ', ' in x0 else x0.upper()"
MEMORISED = f"x0 if x0 == 'never' else ({BRANCH} if x0 != 'Euclid' else 'wrong')"


@pytest.fixture(scope="module")
def probed() -> ProbeResult:
    return probe(BUILT_IN_MODEL, [PROBLEM, EASY], k_max=24, seed=3)


def result(values_P_N: npt.NDArray[np.float64], version: int = 0) -> ProbeResult:
    """Return a made-up probe of single answers with these mean rewards."""
    problems = tuple((f"p{number}", "1") for number in range(len(values_P_N)))
    measures = tuple(Measure(values_N[:, None, None], ()) for values_N in values_P_N)
    return ProbeResult(version, 1, 0, problems, measures)


def levels(problems: int = 12) -> npt.NDArray[np.float64]:
    """Return `[P, 4]`: problems of different difficulty, each with answers of two levels."""
    return np.add.outer(np.linspace(0.1, 0.6, problems), [0.0, 0.0, 0.1, 0.3])


def test_answers_are_judged_row_by_row_and_once_a_program() -> None:
    chains: list[list[Program | None]] = [
        [Program(source(SWAP)), Program(source("x0.upper()"))],
        [None, Program(source(BRANCH))],
        [Program(source(MEMORISED)), Program(source("x0[99]"))],
        [Program(source(SWAP)), None],
    ]
    with open_evaluator(PROBLEM, Config()) as judge:
        found = measure_programs(PROBLEM, chains, judge)
    comma = np.array([", " in name for name, _ in ROWS], dtype=float)
    expected = [
        [comma, 1 - comma],
        [0 * comma, 1 + 0 * comma],
        [1 + 0 * comma, 0 * comma],
        [comma, 0 * comma],
    ]
    assert np.array_equal(found.rewards_C_m_D, np.array(expected))
    assert found.right_C_m.tolist() == [[False, False], [False, True], [True, False], [False, False]]
    # The memorised one is right on all training rows and wrong on the held-out "Euclid".
    assert found.unseen_C_m is not None
    assert found.unseen_C_m.tolist() == [[False, False], [False, True], [False, False], [False, False]]
    assert found.keys_C_m[0][0] == found.keys_C_m[3][0] != found.keys_C_m[0][1]
    assert found.keys_C_m[1][0] is None


def test_prompts_show_all_training_rows_in_changing_orders_and_nothing_else() -> None:
    prompts = root_prompts(PROBLEM, 2, 10, seed=1)
    assert [prompt.rollouts for prompt in prompts] == [4, 4, 2]
    assert {(prompt.answers, prompt.kind) for prompt in prompts} == {(2, PromptKind.ROOT)}
    texts = [prompt.messages[0].content for prompt in prompts]
    assert len(set(texts)) == 3
    pieces = [re.sub("⟦out⟧$", "", text).split("⟦ex⟧") for text in texts]
    rows = encode_prompt([[name] for name, _ in ROWS], [wanted for _, wanted in ROWS], 2)
    expected = re.sub("⟦out⟧$", "", rows).split("⟦ex⟧")
    for found in pieces:
        assert found[0] == "⟦m2⟧"
        assert sorted(found[1:]) == sorted(expected[1:])
    assert len({prompt.seed for prompt in prompts}) == 3
    assert root_prompts(PROBLEM, 2, 10, seed=1) == prompts


def test_a_probe_holds_every_answer_and_the_figures_follow_from_them(probed: ProbeResult) -> None:
    hard, easy = probed.measures
    assert hard.rewards_C_m_D.shape == (24, 1, len(ROWS))
    assert probed.ks == (1, 2, 3, 6, 12, 24)
    assert easy.right_C_m.any()
    assert 0 < easy.values_C_m.mean() < 1
    expected = np.mean([best_at_k(p.rewards_C_m_D.mean(axis=2), [6])[0] for p in (hard, easy)])
    assert probed.means("best_at_k")[6] == pytest.approx(expected)
    assert probed.means("best_at_k")[1] == pytest.approx(
        (hard.values_C_m.mean() + easy.values_C_m.mean()) / 2
    )
    assert probed.means("pass_at_k")[24] == np.mean([hard.right_C_m.any(), easy.right_C_m.any()])
    assert probed.means("pass_at_k")[1] == pytest.approx((hard.right_C_m.mean() + easy.right_C_m.mean()) / 2)
    # Only the first problem has held-out rows.
    assert hard.unseen_C_m is not None
    assert easy.unseen_C_m is None
    assert probed.means("unseen_pass_at_k")[1] == pytest.approx(hard.unseen_C_m.mean())
    summary = probed.summary()
    assert summary["best_at_k"] == {str(k): round(v, 6) for k, v in probed.means("best_at_k").items()}
    assert 0 < summary["distinct"] <= 1
    assert summary["diversity"] > 0


def test_the_same_seed_gives_the_same_answers_under_any_version_number(probed: ProbeResult) -> None:
    calls: list[tuple[int, int]] = []
    again = probe(
        PolicyVersion(7, 0, str(BUILT_IN_MODEL)),
        [PROBLEM, EASY],
        k_max=24,
        seed=3,
        on_problem=lambda done, total: calls.append((done, total)),
    )
    assert again.policy_version == 7
    assert calls == [(1, 2), (2, 2)]
    for first, second in zip(probed.measures, again.measures, strict=True):
        assert first.keys_C_m == second.keys_C_m
        assert np.array_equal(first.rewards_C_m_D, second.rewards_C_m_D)


def test_a_problem_is_answered_alike_beside_others_and_differently_with_another_seed(
    probed: ProbeResult,
) -> None:
    alone = probe(BUILT_IN_MODEL, [EASY], k_max=8, seed=3)
    assert alone.measures[0].keys_C_m == probed.measures[1].keys_C_m[:8]
    other = probe(BUILT_IN_MODEL, [EASY], k_max=8, seed=4)
    assert other.measures[0].keys_C_m != alone.measures[0].keys_C_m


def test_chains_are_sampled_whole() -> None:
    found = probe(BUILT_IN_MODEL, [EASY], answers=3, k_max=10)
    assert found.measures[0].rewards_C_m_D.shape == (4, 3, len(ROWS))
    assert found.sampled == 12
    assert found.ks == (1, 2, 3, 6, 12)
    # A model asked for three answers writes three: the last slots are not all empty.
    assert any(chain[2] is not None for chain in found.measures[0].keys_C_m)


@pytest.mark.parametrize(
    ("problems", "answers", "k_max", "message"),
    [([], 1, 8, "no problem to probe"), ([EASY], 0, 8, "chains of 0"), ([EASY], 1, 0, "probe of 0 answers")],
)
def test_a_probe_of_nothing_is_an_error(
    problems: list[Problem], answers: int, k_max: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        probe(BUILT_IN_MODEL, problems, answers=answers, k_max=k_max)


def values_of(values_P_N: npt.NDArray[np.float64]) -> Values:
    found = result(values_P_N).values("best_at_k", [1, 4]).T.tolist()
    return dict(zip(("best@1", "best@4"), found, strict=True))


def verdict_of(new: npt.NDArray[np.float64], parent: npt.NDArray[np.float64]) -> GuardVerdict:
    return clearly_worse(values_of(new), {"its parent": values_of(parent)})


SWINGS = np.where(np.arange(12)[:, None] % 2, -0.3, 0.2)
FEW = FEWEST_PROBLEMS - 1


@pytest.mark.parametrize(
    ("new", "parent", "is_worse", "said"),
    [
        (levels(), levels(), False, "not clearly worse on 12 problems: best@1 +0.000"),
        (levels() - np.array([0.1, 0.1, 0.1, 0]), levels(), True, "clearly worse on 12 problems at best@1"),
        # A loss must be certain and worth mentioning.
        (levels() - 0.008, levels(), False, "not clearly worse on 12 problems: best@1 -0.008"),
        (levels() + SWINGS, levels(), False, "not clearly worse on 12 problems: best@1 -0.050"),
        (levels(FEW) - 0.1, levels(FEW), False, "too few problems to tell (5 of 6): best@1 -0.100"),
        (levels(FEW + 1) - 0.1, levels(FEW + 1), True, "clearly worse on 6 problems"),
    ],
)
def test_a_version_is_worse_where_a_loss_is_clear(
    new: npt.NDArray[np.float64], parent: npt.NDArray[np.float64], is_worse: bool, said: str
) -> None:
    verdict = verdict_of(new, parent)
    assert verdict.is_worse is is_worse
    assert verdict.reason.startswith(said)


def test_a_version_that_lost_its_rare_good_answers_is_worse_at_the_budget_only() -> None:
    collapsed = np.repeat(levels().mean(axis=1, keepdims=True), 4, axis=1) + 0.05
    verdict = verdict_of(collapsed, levels())
    assert verdict.is_worse
    assert verdict.differences["best@1"].mean == pytest.approx(0.05)
    # The best of the four was base + .3, and is base + .1 + .05 now.
    assert verdict.differences["best@4"].mean == pytest.approx(-0.15)
    assert verdict.reason.startswith("clearly worse on 12 problems at best@4 than its parent (-0.150")
    differences = verdict.summary()["differences"]
    assert isinstance(differences, dict)
    assert differences["best@4"]["problems"] == 12


def test_probes_of_different_problems_do_not_compare() -> None:
    with pytest.raises(ConfigError, match="one probe holds 11 problems and the other 12"):
        before_after_table(result(levels(12)), result(levels(11)))
    changed = result(levels())
    first = (changed.problems[0][0], "2")
    changed = dataclasses.replace(changed, problems=(first, *changed.problems[1:]))
    with pytest.raises(ConfigError, match="the same ones in the same order"):
        before_after_table(result(levels()), changed)


def test_a_loss_names_the_figure_and_the_version() -> None:
    start = {"best@1": [0.5] * 12, "solved in searches": [1.0] * 12}
    worse = start | {"best@1": [0.3] * 12}
    found = clearly_worse(worse, {"its parent": worse, "version 0": start})
    assert found.is_worse
    assert found.reason.endswith("at best@1 than version 0 (-0.200 [-0.200, -0.200])")


def test_the_table_shows_both_versions_and_marks_clear_differences() -> None:
    table = before_after_table(result(levels()), result(levels() + 0.1, 1), names=("v0", "v3"))
    console = Console(
        width=140, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
    )
    with console.capture() as captured:
        console.print(table)
    text = captured.get()
    assert "v3" in text
    # Mean of base .35 + .1 at k = 1, of the best of three (.1 in 1 of 4 subsets, else .3) at k = 3.
    assert "0.450" in text
    assert "0.550" in text
    assert "0.600" in text
    assert text.count("\x1b[1;32m") == 3
    assert text.count("+0.100 [+0.100, +0.100]\x1b[0m") == 3
    assert "12 problems, 4 answers each, from the examples alone." in text


def solved(count: int, of: int = 12, otherwise: float = 0.2) -> ProbeResult:
    return result(np.array([[1.0] * 4] * count + [[otherwise] * 4] * (of - count)))


@pytest.mark.parametrize(
    ("before", "after", "targets", "said"),
    [
        (solved(2), solved(9), 40, "The loop won: 2.0 to 9.0 of 12 held-out problems solved"),
        (solved(2), solved(2), 4, "did not clearly win,.*held only 4 programs to imitate"),
        (solved(11), solved(11), 40, "the start model solves 11.0 of them already"),
        (solved(2), solved(4), 40, "did not clearly win, 2.0 to 4.0 of 12 .* can be chance"),
        (solved(2), solved(2, otherwise=0.5), 40, "went from 0.333 to 0.583, which is not yet enough"),
        (
            solved(2),
            solved(1),
            None,
            "does not carry over, their best of 96 answers went from 0.333 to 0.267",
        ),
    ],
)
def test_a_loop_says_why_it_did_not_win(
    before: ProbeResult, after: ProbeResult, targets: float | None, said: str
) -> None:
    assert re.search(said, loop_verdict(before, after, targets))


def test_cpu_time_counts_the_processes_of_sandboxes() -> None:
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", "while __import__('time').process_time() < 0.5: pass"], check=True)
    assert cpu_seconds() - before >= 0.5


def named(*names: str) -> list[Problem]:
    return [dataclasses.replace(PROBLEM, id=name) for name in names]


def test_held_out_problems_are_set_aside_whatever_the_order() -> None:
    problems = named(*"abcdefghij")
    searched, held_out = split_problems(problems, 4, seed=1)
    assert [len(part) for part in (searched, held_out)] == [6, 4]
    assert [p.id for p in searched] == [p.id for p in problems if p not in held_out]
    assert set(searched) | set(held_out) == set(problems)
    assert set(split_problems(problems[::-1], 4, seed=1)[1]) == set(held_out)
    others = [set(split_problems(problems, 4, seed=seed)[1]) for seed in range(2, 8)]
    assert any(other != set(held_out) for other in others)
    for new in "klmnopqr":  # one problem more moves at most one over
        assert len(set(held_out) - set(split_problems([*problems, *named(new)], 4, seed=1)[1])) <= 1
    for count in (-1, 10, 11):
        with pytest.raises(ConfigError, match=f"{count} of 10 problems"):
            split_problems(problems, count)


def families_of(problems: Sequence[Problem]) -> set[str]:
    return {problem.id.partition("-")[0] for problem in problems}


def siblings(families: str, each: int) -> tuple[list[Problem], dict[str, str]]:
    problems = named(*(f"{family}-{number}" for number in range(each) for family in families))
    return problems, {problem.id: problem.id.partition("-")[0] for problem in problems}


@pytest.mark.parametrize("seed", range(5))
def test_one_sibling_of_each_family_is_set_aside(seed: int) -> None:
    problems, families = siblings("abcdef", 3)
    mixed = [*problems, *named("x", "y", "z")]
    searched, held_out = split_problems(mixed, 10, seed, families)
    assert [len(searched), len(held_out)] == [15, 6]
    assert families_of(held_out) == set("abcdef"), "one that stands alone has nothing to be told of"
    assert families_of(searched) == set("abcdefxyz")
    fewer = split_problems(mixed, 4, seed, families)[1]
    assert len(fewer) == 4
    assert set(fewer) < set(held_out)
    alone, of_one = siblings("a", 4)
    assert [len(part) for part in split_problems(alone, 2, seed, of_one)] == [2, 2], "one family has no other"


def entries(problems: Sequence[Problem], held_out: str) -> list[SuiteEntry]:
    names = [problem.id.partition("-")[0] for problem in problems]
    return [
        SuiteEntry(Path(p.id), None, name, p.id in held_out) for p, name in zip(problems, names, strict=True)
    ]


def test_what_a_suite_marks_is_held_out_and_its_families_are_not_searched() -> None:
    problems, _ = siblings("abc", 3)
    parts = split_suite(problems, entries(problems, "b-0 b-2"), 24, 0)
    assert [problem.id for problem in parts.held_out[-2:]] == ["b-0", "b-2"]
    assert families_of(parts.searched) == families_of(parts.held_out[:-2]) == {"a", "c"}
    assert [len(part) for part in parts] == [4, 4, 12]
    assert parts.guarded == generated_problems(12)
    fewer = split_suite(problems, entries(problems, "b-0 b-2"), 1, 0)
    assert [len(part) for part in fewer] == [5, 2, 1]
    with pytest.raises(ConfigError, match="leave a family to search"):
        split_suite(problems, entries(problems, "a-0 b-0 c-0"), 24, 0)


def test_without_marks_the_guard_has_siblings_of_its_own() -> None:
    problems, _ = siblings("abcdefghijklmno", 4)
    parts = split_suite(problems, entries(problems, ""), 24, 0)
    assert [len(part) for part in parts] == [33, 15, 12]
    assert len({problem.id for part in parts for problem in part}) == 60
    assert families_of(parts.searched) == families_of(parts.held_out) == set("abcdefghijklmno")


def test_generated_problems_fit_the_built_in_model_and_follow_from_seed_and_number() -> None:
    problems = generated_problems(12, seed=5)
    assert generated_problems(3, seed=5) == problems[:3]
    assert len({problem.id for problem in problems}) == 12
    assert {p.version for p in problems}.isdisjoint(p.version for p in generated_problems(12, seed=6))
    found = probe(BUILT_IN_MODEL, problems[:4], k_max=12)
    assert 0 < found.means("pass_at_k")[12] >= found.means("unseen_pass_at_k")[12]
    for problem in problems:
        assert expression_fault(problem) == ""
        assert len(problem.train) in (4, 5)
        assert len(problem.objectives) == len(problem.train)
        assert len(problem.heldout) == 2
        assert not {row.inputs for row in problem.heldout} & {row.inputs for row in problem.train}
        assert all(len(row.inputs) == len(problem.parameters) for row in problem.train)
