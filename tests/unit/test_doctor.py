"""The doctor: its figures against known values, its verdict case by case, and what a user gets to see."""

import dataclasses
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scripted_proposer import ScriptedProposer
from shell import Shell
from toy_runs import PROBLEM

from evovpo.analysis.doctor.findings import Verdict, diagnose
from evovpo.analysis.doctor.sample_figures import (
    Sample,
    best_set,
    effective_rank,
    mean_headroom,
    measure,
    random_sets,
    take_sample,
    weightings,
)
from evovpo.analysis.grouping import group_rewards
from evovpo.builtin.chain import join_chain
from evovpo.config import Config
from evovpo.config_values import toml_value
from evovpo.errors import EvovpoError, ProblemError, StoreError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import new_problem
from evovpo.reports.doctor import (
    SAMPLING,
    DoctorReport,
    examine_run,
    grouping_setting,
    named_problem,
    report_json,
    report_view,
)
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.store import Store
from evovpo.types import Group, Objective, Problem, Prompt, PromptKind, Rewards, Rollout, Sampling
from trainer import objectives

Answers = Sequence[str | None]
"""A chain: each answer's rewards as digits, one a component; none where it is unreadable."""


def problem_of(components: int) -> Problem:
    objectives_ = tuple(Objective(f"row-{number + 1}") for number in range(components))
    return dataclasses.replace(PROBLEM, objectives=objectives_, train=(), folder=None)


def vector(digits: str) -> Rewards:
    return tuple(float(digit) for digit in digits)


def group(
    chains: Sequence[Answers],
    components: int,
    name: str = "p",
    programs: Sequence[Sequence[str | None]] | None = None,
    valid: Sequence[bool] | None = None,
) -> Group:
    """Return a judged group; every readable answer is a program of its own, unless `programs` names them."""
    own = [
        [None if answer is None else f"{name}-{i}-{j}" for j, answer in enumerate(chain)]
        for i, chain in enumerate(chains)
    ]
    ids = programs or own
    answers = max(map(len, chains))
    prompt = Prompt(name, "run", 0, 0, PromptKind.ROOT, 0, (), (), len(chains), answers, 0)
    return Group(
        prompt=prompt,
        rollouts=tuple(
            Rollout(f"{name}-{i}", name, i, 0, "", None, None, None, Sampling(), "stop", 0.0)
            for i in range(len(chains))
        ),
        rewards_G_M_D=tuple(
            tuple(vector(answer or "0" * components) for answer in chain) for chain in chains
        ),
        valid_G=tuple(valid or [True] * len(chains)),
        programs_G_M=tuple(map(tuple, ids)),
    )


def sample_of(*prompts: Sequence[Answers]) -> Sample:
    """Return the sample of several prompts, each with its chains."""
    components = max(len(answer or "") for chains in prompts for chain in chains for answer in chain)
    groups = [group(chains, components, f"p{number}") for number, chains in enumerate(prompts)]
    return take_sample(problem_of(components), groups)


def verdict(*prompts: Sequence[Answers]) -> tuple[Verdict, str]:
    """Return the verdict on a sample, and its findings as one text."""
    found = diagnose(sample_of(*prompts))
    return found.verdict, "; ".join(f"{finding.text}: {finding.advice}" for finding in found.findings)


def test_a_sample_counts_what_is_unreadable_and_faulty() -> None:
    programs: list[Answers] = [["a", None, "b"], ["a", "c", "c"], ["d", "e", "f"]]
    chains: list[Answers] = [["10", None, "01"], ["10", "11", "00"], ["11", "11", "11"]]
    found = take_sample(problem_of(2), [group(chains, 2, programs=programs, valid=[True, True, False])])
    assert (found.slots, found.unreadable, found.faulty) == (6, 1, 1)
    assert [len(pool) for pool in found.pools] == [2]
    # The second c is a row of zeros, because it repeats within its chain; the program still has its vector.
    assert found.different_N_D.tolist() == [[1, 0], [0, 1], [1, 1]]


def test_a_prompt_whose_chains_all_failed_in_the_sandbox_is_left_out() -> None:
    groups = [group([["10"]], 2, "a", valid=[False]), group([["01"]], 2, "b")]
    found = take_sample(problem_of(2), groups)
    assert (len(found.pools), found.faulty, found.different_N_D.tolist()) == (1, 1, [[0, 1]])


def test_a_sample_has_the_components_that_a_trainer_sees() -> None:
    grouped = dataclasses.replace(problem_of(3), groups=((0, 2), (1,)))
    found = take_sample(grouped, [group([["100", "110"]], 3)])
    assert found.names == ("row-1+row-3", "row-2")
    assert found.members == (("row-1", "row-3"), ("row-2",))
    assert found.different_N_D.tolist() == [[0.5, 0], [0.5, 1]]
    assert found.pools[0][0].tolist() == [[0.5, 0], [0.5, 1]]


def test_the_effective_rank_is_the_participation_ratio_of_the_eigenvalues() -> None:
    answers = np.random.default_rng(2).random((50, 6)) @ np.random.default_rng(3).random((6, 6))
    values = np.linalg.eigvalsh(np.corrcoef(answers, rowvar=False))
    wanted = pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert effective_rank(answers) == wanted
    assert effective_rank(np.column_stack([answers, np.ones(50), np.zeros(50)])) == wanted
    assert effective_rank(answers[:, [0, 0, 0]]) == pytest.approx(1)
    assert effective_rank(np.ones((5, 3))) == 0


def test_weightings_sum_to_1_and_every_component_has_the_same_total() -> None:
    for components in (1, 3, 40):
        weights = weightings(components)
        assert weights.shape[0] >= 1000
        assert weights.sum(axis=1) == pytest.approx(1)
        assert weights.mean(axis=0) == pytest.approx(1 / components)
        assert (weights == weightings(components)).all()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["1000", "0100", "0010"], (1 + 1 / 2 + 1 / 3) / 4),
        (["1100", "1100", "1100"], 0.5),
        (["10", "01"], 0.75),
        (["1", "0", "1"], 1.0),
        (["0000"], 0.0),
    ],
)
def test_known_headroom(answers: list[str], expected: float) -> None:
    rewards = np.array([vector(answer) for answer in answers])
    found = mean_headroom([rewards], weightings(rewards.shape[1]))
    assert found == pytest.approx(expected - rewards.mean(axis=1).max(), abs=0.01)


def test_the_headroom_of_several_sets_is_the_mean_of_what_the_trainer_rewards_beyond_the_best_mean() -> None:
    rng = np.random.default_rng(0)
    sets = [rng.random((3, 5)) for _ in range(20)]
    weights = weightings(5)
    best_mean = np.mean([rewards.mean(axis=1).max() for rewards in sets])
    wanted = objectives.set_scores(sets, weights).mean() - best_mean
    assert mean_headroom(sets, weights) == pytest.approx(float(wanted))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), components=st.integers(1, 9), size=st.integers(1, 6))
def test_headroom_is_never_negative(seed: int, components: int, size: int) -> None:
    rewards = np.random.default_rng(seed).integers(0, 3, (size, components)) / 2
    assert mean_headroom([rewards], weightings(components)) >= -1e-12


def test_the_best_set_begins_with_the_best_mean_and_adds_what_it_lacks() -> None:
    answers = np.array([vector(text) for text in ("0011", "1110", "1100", "0001", "1110", "0000")])
    assert best_set(answers, weightings(4))[:2].tolist() == [[1, 1, 1, 0], [0, 0, 1, 1]]
    assert best_set(answers[5:], weightings(4)).tolist() == [[0, 0, 0, 0]]
    assert len(best_set(np.eye(5), weightings(5))) == 3


def test_random_sets_hold_different_answers_to_one_prompt() -> None:
    first = (np.array([[0.1], [0.2]]), np.array([[0.3], [0.4]]))
    second = (np.array([[0.6], [0.7]]),)
    sets = random_sets([first, second])
    assert len(sets) == 2000
    assert {len(rewards) for rewards in sets[:1000]} == {3}
    seen = {tuple(sorted(rewards[:, 0])) for rewards in sets}
    assert seen == {(0.1, 0.2, 0.3), (0.1, 0.2, 0.4), (0.1, 0.3, 0.4), (0.2, 0.3, 0.4), (0.6, 0.7)}


def test_hand_worked_figures() -> None:
    found = measure(
        sample_of(
            [["1100", "0001"], ["0000", None]],  # differ
            [["0000", None], ["0000", "0000"]],  # flat at zero
            [["1101", "0000"], ["1101", "0000"]],  # flat, but not at zero
        )
    )
    assert found.dead == (2,)
    assert found.saturated == ()
    assert found.mean_rewards == pytest.approx([3 / 10, 3 / 10, 0, 3 / 10])
    # Of ten programs three pass row 1 and row 2, three pass row 4, two all of these.
    phi = (10 * 2 - 3 * 3) / (3 * 7)
    assert found.correlation == pytest.approx((1 + 2 * phi) / 3)
    assert [found.rewarded, found.right] == pytest.approx([4 / 12, 0])
    assert [found.spread, found.flat_at_zero] == pytest.approx([1 / 3, 1 / 3])
    assert found.unreadable == pytest.approx(2 / 12)
    # Of six chains and three prompts, one of each has headroom: row 4 takes over from rows 1 and 2.
    chain = mean_headroom([np.array([vector("1100"), vector("0001")])], weightings(4))
    assert (found.headroom.single, found.headroom.prompts) == pytest.approx((chain / 6, chain / 3))
    assert chain > found.headroom.best == 0


def test_the_headroom_of_single_answers_is_that_of_random_sets() -> None:
    found = measure(sample_of([["10"], ["01"], ["00"]]))
    assert found.headroom.single == pytest.approx(0.25, abs=0.01)


def test_saturated_components_and_right_answers_are_counted() -> None:
    found = measure(sample_of([["11", "10"], ["11", "11"]]))
    assert (found.saturated, found.dead) == ((0,), ())
    assert found.right == 0.75
    assert (found.correlation, found.rank) == (None, 1.0)


def test_permuting_chains_and_prompts_changes_no_figure_of_the_components() -> None:
    prompts = [[["110", "001"], ["010", "000"]], [["000", "011"], ["111", "100"]]]
    one = measure(sample_of(*prompts))
    other = measure(sample_of(*[chains[::-1] for chains in prompts[::-1]]))
    for name in ("rank", "correlation", "mean_rewards", "rewarded", "spread"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))
    assert one.headroom == pytest.approx(other.headroom)


GOOD = [["1100", "0011", "1000"], ["0000", "0110", "0001"], ["1010", "0101", "0000"]]
"""Chains of answers that are right on different rows."""


POOR: list[Answers] = [["000", "000"]] * 4
RICH: list[Answers] = [["110", "001"]] * 2
CONFLICT: list[Answers] = [["1100", "0110", "1010"], ["0000", "1000", "0010"]]
RARE = [[[answer, "0000"], ["0000", "0000"]] for answer in ("1100", "0011", "0110")]
BEYOND = "sets of answers help on the way there, not beyond"


@pytest.mark.parametrize(
    ("prompts", "expected", "said"),
    [
        ([[["1", "0"], ["0", "0"]]] * 20, Verdict.NOT, "one component"),
        ([[["00", "00"], ["00", "00"]]] * 24 + [[["10", "01"], ["00", "00"]]], Verdict.NOT,
         "2 % of the answers earn anything"),
        ([[["00", None], ["00", "00"]]] * 10, Verdict.NOT, "never above 0: 2 of 2"),
        ([[["110", "100"], ["010", "000"]]] * 9 + [[["111", "100"], ["010", "000"]]], Verdict.NOT,
         "an answer has every component at 1 already, and among"),
        ([[["110", "100"], ["010", "000"]]] * 10, Verdict.NOT,
         "no 3 answers that were seen earn more together than the best one alone, and among"),
        ([CONFLICT] * 9 + [[["1111", "1000", "0000"], ["0000", "0100", "0000"]]], Verdict.WORTH,
         f"every component at 1.*{BEYOND}"),
        ([CONFLICT] * 9 + [[["1110", "1000", "0000"], ["0000", "0100", "0000"]]], Verdict.WORTH,
         f"no 3 answers.*{BEYOND}"),
        ([[["10", "01"], ["01", "10"]]] * 10, Verdict.NOT, "in no group do the chains differ"),
        # 4 of 44 chains earn: three groups of four hold one that does at G = ln 4 / -ln(10/11) = 14.5.
        ([POOR] * 9 + [[["100", "010"], ["001", "000"], *POOR[:2]]] * 2, Verdict.CHANGE,
         "only 18 % of the groups.*sample 15 completions a prompt"),
        ([RICH] * 9 + [[["110", "001"], ["001", "000"]]] * 2, Verdict.CHANGE, "solved already"),
        ([[chain] for chain in GOOD * 5], Verdict.CHANGE, "search.rollouts=8"),
        ([[[*chain, None, None, None, None] for chain in GOOD]] * 5, Verdict.CHANGE,
         "57 % of the answers hold no program"),
        ([[["1100", "0000"], ["0011", "0000"], ["0100", "0000"]]] * 10, Verdict.CHANGE,
         r"single chains have a headroom of \+0.000.*--objective vpo-at-k"),
        (RARE * 8, Verdict.CHANGE, "sample more than 2 completions a prompt"),
        ([GOOD, GOOD], Verdict.WORTH, "only 18 different answers"),
    ],
)  # fmt: skip
def test_a_verdict_says_why(prompts: Sequence[Sequence[Answers]], expected: Verdict, said: str) -> None:
    found, text = verdict(*prompts)
    assert found is expected
    assert re.search(said, text), text


def test_conflicting_components_in_chains_that_differ_are_worth_it() -> None:
    assert verdict(*[GOOD] * 5) == (Verdict.WORTH, "")


def test_advice_that_does_not_fit_is_not_given() -> None:
    assert "group them" not in verdict(*[[["00", None], ["00", "00"]]] * 10)[1]
    assert "completions a prompt" not in verdict(*[RICH] * 9, *[[["110", "001"], ["001", "000"]]] * 2)[1]


def test_near_collinear_components_are_not_worth_it_and_get_no_grouping() -> None:
    prompts = [[["111", "000"], ["000", "111"], ["000", "000"]]] * 19 + [[["110", "000"], ["000", "000"]]]
    diagnosis = diagnose(sample_of(*prompts))
    assert diagnosis.verdict is Verdict.NOT
    assert "near-collinear (mean correlation 0.99)" in diagnosis.findings[0].text
    assert grouping_setting(diagnosis) == ""


def many(components: int, kinds: int) -> Sample:
    """Return chains whose components copy a few: component i passes whenever component i mod `kinds` does."""
    rng = np.random.default_rng(1)

    def answer() -> str:
        passed = rng.random(kinds) < 0.3
        passed[rng.integers(kinds)] = False  # none passes everything
        return "".join(str(int(passed[index % kinds])) for index in range(components))

    return sample_of(*[[[answer() for _ in range(3)] for _ in range(4)] for _ in range(10)])


def test_more_than_16_components_are_to_be_grouped() -> None:
    diagnosis = diagnose(many(24, 4))
    assert diagnosis.verdict is Verdict.CHANGE
    assert "over 24 components" in diagnosis.findings[0].text
    assert diagnosis.advice.groups == tuple(tuple(range(kind, 24, 4)) for kind in range(4))


def test_copies_among_few_components_are_advised_to_be_grouped_and_change_no_verdict() -> None:
    diagnosis = diagnose(many(6, 3))
    assert diagnosis.verdict is Verdict.WORTH
    assert [finding.text for finding in diagnosis.findings] == [
        "the 6 components behave like 3: those that are alike (correlated 0.95 or more) count several times"
        " in a random weighting"
    ]


SWAP = "x0.partition(', ')[2] + ' ' + x0.partition(', ')[0]"


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load_problem(new_problem(tmp_path_factory.mktemp("problems") / "names"))


@pytest.fixture(scope="module")
def store(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with one run: half of its chains hold a program right on three rows and one right on two."""
    small = ["search.evaluations=24", "search.rollouts=2", "search.in_flight=1"]
    config = Config.load(None, {"proposer.name": "scripted"} | SAMPLING | Config.read_changes(small))
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('store') / 'runs.db'}") as opened:
        texts = [SWAP, "x0.strip()", "x0.upper()"], ["x0[::-1]", "x0.lower()", "1 +"]
        start(
            RunRequest(problem, config, run_id="first"),
            opened,
            ScriptedProposer(lambda p, i: join_chain(texts[i])),
        )
        yield opened


def written(report: DoctorReport, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(report_view(report), crop=False)
    return file.getvalue()


def test_a_run_is_read_as_it_was_judged(store: Store) -> None:
    report = examine_run(store, "latest")
    sample = report.diagnosis.sample
    assert (report.run.id, report.is_new) == ("first", False)
    assert (len(sample.pools), sample.slots, sample.unreadable, sample.answers) == (4, 24, 4, 3)
    assert sample.different_N_D.tolist() == [[1, 1, 1, 0, 0], [0, 0, 0, 1, 1], *[[0] * 5] * 3]


def test_the_text_names_verdict_sample_figures_and_components(store: Store) -> None:
    text = written(examine_run(store, "first"))
    assert text.startswith("names: VPO is ")
    assert "4 prompts, 8 completions of 3, 24 answers, 5 different programs; 5 objectives" in " ".join(
        text.split()
    )
    for part in ("effective rank", "mean correlation", "headroom of one chain"):
        assert part in text


def test_a_grouping_in_the_folder_is_what_the_doctor_looks_at(store: Store, problem: Problem) -> None:
    toml = Path(str(problem.folder)) / "problem.toml"
    before = toml.read_text()
    toml.write_text(before + '\n[grouping]\ngroups = [["row-1", "row-2", "row-3"], ["row-4", "row-5"]]\n')
    try:
        report = examine_run(store, "first")
    finally:
        toml.write_text(before)
    assert report.diagnosis.sample.names == ("row-1+2 more", "row-4+row-5")
    assert "5 objectives, grouped into 2 components" in " ".join(written(report).split())


def test_json_survives_json_and_holds_the_figures(store: Store) -> None:
    found = report_json(examine_run(store, "first"))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["run"], found["components"]) == ("first", [f"row-{number}" for number in range(1, 6)])
    assert found["mean_correlation"] == pytest.approx((4 - 6 / 4) / 10)
    # Half of the chains hold 11100 and 00011: E max(x, 1 - x) for x ~ Beta(3, 2) is 0.6875, their mean 0.6.
    headroom: Any = found["headroom"]
    assert headroom["single"] == pytest.approx(0.0875 / 2, abs=0.003)


def test_the_printed_grouping_can_be_pasted_into_the_problem(tmp_path: Path) -> None:
    names = ['quo"te', "back\\slash", "new\nline", "naïve ✓ 😀", "\x7f\x9b", "\u202e", "[bold]"]
    folder = new_problem(tmp_path / "p", "score")
    about = '[problem]\nstatement = "s"\ninputs = ["x"]\n'
    sections = "".join(f"[[objectives]]\nname = {toml_value(name)}\n" for name in names)
    (folder / "problem.toml").write_text(about + sections, encoding="utf-8")
    sample = many(7, 4)._replace(names=tuple(names), members=tuple((name,) for name in names))
    diagnosis = diagnose(sample)
    setting = grouping_setting(diagnosis)
    (folder / "problem.toml").write_text(f"{about}{sections}\n{setting}\n", encoding="utf-8")
    assert load_problem(folder).groups == diagnosis.advice.groups == ((0, 4), (1, 5), (2, 6), (3,))


def test_a_grouped_vector_that_is_grouped_further_is_named_by_its_objectives() -> None:
    sample = many(4, 2)._replace(names=("a+b", "c", "d", "e"), members=(("a", "b"), ("c",), ("d",), ("e",)))
    setting = grouping_setting(diagnose(sample))
    assert '["a", "b", "d"],' in setting
    assert '["c", "e"],' in setting


def test_names_of_objectives_cannot_steer_the_terminal(store: Store) -> None:
    report = examine_run(store, "first")
    names = ("\x1b[31mred", "[bold]b[/bold]", "\x9b31m", "\u202ed", "e")
    sample = many(5, 2)._replace(names=names, members=tuple((name,) for name in names))
    text = written(report._replace(diagnosis=diagnose(sample)))
    assert not set("\x1b\x9b\u202e") & set(text)
    assert "groups = [" in text
    assert "[bold]b[/bold]" in text


def test_a_run_without_a_program_says_so(problem: Problem, tmp_path: Path) -> None:
    config = Config.load(None, {"proposer.name": "scripted", "search.evaluations": 4, "search.rollouts": 2})
    with Store.open(str(tmp_path / "new.db")) as empty:
        start(
            RunRequest(problem, config, run_id="none"), empty, ScriptedProposer(lambda prompt, index: "1 +")
        )
        with pytest.raises(StoreError, match="run none has no prompt whose completions"):
            examine_run(empty, "none")


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("nothing", StoreError, "neither a run nor a problem"),
        ("strings", StoreError, "a suite of several"),
        ("strings/nothing", ProblemError, "expected a problem folder or the name"),
    ],
)
def test_a_target_that_is_nothing_is_named_with_both_readings(
    store: Store, target: str, error: type[EvovpoError], message: str
) -> None:
    def examine() -> None:
        assert named_problem(target) is None
        examine_run(store, target)

    with pytest.raises(error, match=message):
        examine()


@pytest.mark.slow
def test_the_command_samples_a_problem_once_and_then_reads_its_run(evovpo: Shell) -> None:
    sampled = ("doctor", "strings/file-extension", "--set", "proposer.name=random")
    sampled = (*sampled, "--set", "search.evaluations=48", "--json")
    answer = evovpo(*sampled)
    first: dict[str, Any] = answer.json
    assert (answer.code, len(answer.out.splitlines())) == (0, 1)
    assert (first["is_new_run"], first["answers"], first["answers_per_chain"]) == (True, 48, 3)
    assert first["prompts"] == 2
    assert evovpo(*sampled).json == first | {"is_new_run": False}
    shown = evovpo("doctor", first["run"][:6])
    assert (shown.code, first["run"] in shown.out) == (0, True)


def test_the_command_makes_no_store_for_a_run_that_cannot_be(evovpo: Shell, tmp_path: Path) -> None:
    assert evovpo("doctor", "latest").code == evovpo("doctor", "strings/nothing").code == 2
    assert list(tmp_path.iterdir()) == []


def test_grouped_chains_have_the_advised_headroom() -> None:
    diagnosis = diagnose(many(24, 4))
    advice, sample = diagnosis.advice, diagnosis.sample
    chains = [group_rewards(chain, advice.groups) for pool in sample.pools for chain in pool]
    assert advice.headroom.single == mean_headroom(chains, weightings(4))
