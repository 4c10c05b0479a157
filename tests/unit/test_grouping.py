"""Grouping of reward components: as a setting of a problem, as a mean, and as found from behaviour."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evovpo.analysis.grouping import (
    Floats,
    behavioural_groups,
    component_names,
    correlations,
    grouped,
)
from evovpo.errors import ProblemError
from evovpo.judging.check import check_problem
from evovpo.problem.folder import load_problem, with_folder_grouping
from evovpo.store.codecs import PROBLEM

ABOUT = '[problem]\nstatement = "Shout."\ninputs = ["text"]\n'


def folder(path: Path, grouping: str = "", rows: int = 4) -> Path:
    """Write a problem of `rows` training rows, with further text at the end of its `problem.toml`."""
    path.mkdir(exist_ok=True)
    train = [{"inputs": [f"a{number}"], "output": f"A{number}"} for number in range(rows)]
    heldout = [{"inputs": ["b"], "output": "B"}]
    (path / "problem.toml").write_text(ABOUT + grouping)
    (path / "seed.py").write_text("def solve(text):\n    return text\n")
    (path / "examples.json").write_text(json.dumps({"train": train, "heldout": heldout}))
    return path


def columns(*texts: str) -> Floats:
    """Return answers `[N, D]` from one text of digits a component: `"10"` is right on the first of two."""
    return np.array([[float(digit) for digit in text] for text in texts]).T


def test_objectives_that_no_group_names_stay_on_their_own(tmp_path: Path) -> None:
    setting = '[grouping]\ngroups = [["row-4", "row-2"]]\n'
    loaded = load_problem(folder(tmp_path / "p", setting))
    assert loaded.groups == ((0,), (1, 3), (2,))
    assert component_names(loaded) == ("row-1", "row-2+row-4", "row-3")


@pytest.mark.parametrize(
    "setting", ["", "[grouping]\n", "[grouping]\ngroups = []\n", 'groups = [["row-2"]]\n']
)
def test_without_two_objectives_in_a_group_there_is_no_grouping(tmp_path: Path, setting: str) -> None:
    setting = setting if setting.startswith("[") or not setting else f"[grouping]\n{setting}"
    loaded = load_problem(folder(tmp_path / "p", setting))
    assert loaded.groups == ()
    assert component_names(loaded) == ("row-1", "row-2", "row-3", "row-4")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('groups = [["row-1", "row-5"]]', "known objective, found 'row-5'; did you mean 'row-"),
        ('groups = [["row-1", 2]]', "known objective, found 2"),
        ('groups = [["row-1", "row-2"], ["row-1"]]', "each objective once, found 'row-1' again"),
        ('groups = [["row-1", "row-1"]]', "each objective once, found 'row-1' again"),
        ('groups = ["row-1", "row-2"]', "a list of lists of objective names"),
        ("groups = [[]]", "a list of lists of objective names"),
        ("groups = 3", "a list of lists of objective names"),
        ('group = [["row-1"]]', "did you mean 'groups'"),
    ],
)
def test_a_wrong_grouping_is_refused_with_what_was_expected(
    tmp_path: Path, setting: str, message: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        load_problem(folder(tmp_path / "p", f"[grouping]\n{setting}\n"))
    assert message in str(caught.value)


def test_the_grouping_is_no_part_of_the_version_which_the_rows_are(tmp_path: Path) -> None:
    plain = load_problem(folder(tmp_path / "p"))
    assert load_problem(folder(tmp_path / "p", '[grouping]\ngroups = [["row-1", "row-2"]]\n')).groups
    assert load_problem(tmp_path / "p").version == plain.version
    assert load_problem(folder(tmp_path / "p", rows=5)).version != plain.version


def test_a_stored_problem_keeps_its_groups_and_an_older_row_has_none(tmp_path: Path) -> None:
    loaded = load_problem(folder(tmp_path / "p", '[grouping]\ngroups = [["row-1", "row-3"]]\n'))
    stored = str(PROBLEM.dump(loaded))
    assert PROBLEM.load(stored) == loaded
    older = json.loads(stored)
    del older["groups"]
    assert PROBLEM.load(json.dumps(older)) == dataclasses.replace(loaded, groups=())


def test_a_grouping_set_after_the_run_is_found_in_the_folder(tmp_path: Path) -> None:
    stored = load_problem(folder(tmp_path / "p"))
    folder(tmp_path / "p", '[grouping]\ngroups = [["row-1", "row-3"]]\n')
    assert with_folder_grouping(stored) == dataclasses.replace(stored, groups=((0, 2), (1,), (3,)))


def test_a_folder_that_is_gone_or_another_version_leaves_the_stored_grouping(tmp_path: Path) -> None:
    stored = load_problem(folder(tmp_path / "p", '[grouping]\ngroups = [["row-1", "row-3"]]\n'))
    folder(tmp_path / "p", '[grouping]\ngroups = [["row-1", "row-2"]]\n', rows=5)
    assert with_folder_grouping(stored) == stored
    gone = dataclasses.replace(stored, folder=str(tmp_path / "gone"))
    assert with_folder_grouping(gone) == gone


def test_a_folder_that_cannot_be_used_is_not_passed_over(tmp_path: Path) -> None:
    stored = load_problem(folder(tmp_path / "p"))
    folder(tmp_path / "p", '[grouping]\ngroups = [["row-9"]]\n')
    with pytest.raises(ProblemError, match="known objective"):
        with_folder_grouping(stored)


@pytest.mark.parametrize(("grouping", "warned"), [("", True), ('[["row-1", "row-2"]]', False)])
def test_check_warns_of_more_than_16_components_and_names_the_setting(
    tmp_path: Path, grouping: str, warned: bool
) -> None:
    setting = f"[grouping]\ngroups = {grouping}\n" if grouping else ""
    report = check_problem(folder(tmp_path / "p", setting, rows=17))
    assert any("17 objectives;" in text and "[grouping]" in text for text in report.warnings) == warned


def test_a_component_is_the_mean_of_its_group(tmp_path: Path) -> None:
    two = dataclasses.replace(load_problem(folder(tmp_path / "p")), groups=((0, 1, 3), (2,)))
    rewards_G_M_D = np.array([[[1, 0, 0.25, 0.5], [0, 0, 0, 0]], [[1, 1, 1, 1], [0, 1, 1, 0.5]]])
    assert grouped(two, rewards_G_M_D).tolist() == [[[0.5, 0.25], [0, 0]], [[1, 1], [0.5, 1]]]
    assert grouped(two, [1, 0, 0.25, 0.5]).tolist() == [0.5, 0.25]


def test_correlations_are_those_of_numpy_and_none_for_a_constant() -> None:
    answers = np.random.default_rng(1).random((20, 4))
    assert np.allclose(correlations(answers), np.corrcoef(answers, rowvar=False))
    answers[:, 2] = 0.1  # a mean of many tenths is not a tenth
    found = correlations(answers)
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()
    assert np.isnan(found).sum() == 7


def test_components_that_moved_in_a_few_answers_only_are_not_taken_for_alike() -> None:
    seldom, often = "1111" + 20 * "0", "11111" + 19 * "0"
    assert behavioural_groups(columns(seldom, seldom)) == ((0,), (1,))
    assert behavioural_groups(columns(often, often)) == ((0, 1),)
    mostly = "0000" + 20 * "1"
    assert behavioural_groups(columns(mostly, mostly)) == ((0,), (1,))


def test_few_components_that_never_vary_stay_on_their_own() -> None:
    assert behavioural_groups(columns("0000", "1111", "0000", "1111")) == ((0,), (1,), (2,), (3,))


def test_of_many_components_the_dead_are_one_group_and_the_saturated_another() -> None:
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 2, (200, 20)).astype(float)
    answers[:, [3, 7]], answers[:, [4, 19]] = 0.0, 1.0
    groups = behavioural_groups(answers)
    assert len(groups) == 16
    assert {(3, 7), (4, 19)} < set(groups)


def slow_groups(answers: Floats, alike: float) -> list[tuple[int, ...]]:
    """Return the groups by complete linkage, each likeness worked out from single components again."""
    matrix, groups = correlations(answers), [(index,) for index in range(answers.shape[1])]
    while len(groups) > 1:
        pairs = [(a, b) for a in groups for b in groups if a < b]
        closeness = {pair: min(matrix[i, j] for i in pair[0] for j in pair[1]) for pair in pairs}
        left, right = max(pairs, key=closeness.__getitem__)
        if closeness[left, right] < alike:
            break
        groups = sorted([one for one in groups if one not in (left, right)] + [tuple(sorted(left + right))])
    return groups


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), count=st.integers(2, 9), alike=st.floats(-0.2, 0.6))
def test_groups_are_those_of_a_slow_version_whatever_the_order(seed: int, count: int, alike: float) -> None:
    rng = np.random.default_rng(seed)
    answers = rng.random((30, count))
    slow = slow_groups(answers, alike)
    assert list(behavioural_groups(answers, alike=alike)) == slow
    order = rng.permutation(count)
    permuted = behavioural_groups(answers[:, order], alike=alike)
    assert sorted(tuple(sorted(int(order[index]) for index in group)) for group in permuted) == slow


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 1000), count=st.integers(17, 40), most=st.integers(3, 16))
def test_never_more_groups_than_asked_and_every_component_in_one(seed: int, count: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    answers = (rng.random((25, count)) < rng.random(count)).astype(float)
    groups = behavioural_groups(answers, most)
    assert len(groups) <= most
    assert sorted(index for group in groups for index in group) == list(range(count))
    assert list(groups) == sorted(groups)


def test_no_more_is_merged_than_it_takes() -> None:
    answers = np.random.default_rng(0).random((100, 18))
    assert sorted(map(len, behavioural_groups(answers)))[-3:] in ([1, 2, 2], [1, 1, 3])
