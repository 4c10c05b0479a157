"""The bundled heuristics problems: scorers against slow versions, hand-worked cases, bad outputs."""

import json
import math
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evovpo.judging.check import check_problem
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite

pytestmark = pytest.mark.slow

SUITE = Path(__file__).resolve().parents[2] / "problems" / "heuristics"
PACKING = ("bin-packing-or3", "bin-packing-weibull")
SCORERS = {name: runpy.run_path(str(SUITE / name / "score.py")) for name in (*PACKING, "job-shop")}
OR3, WEIBULL, SHOP = (SCORERS[name] for name in (*PACKING, "job-shop"))
Rule = Callable[[int, int], float]


def table(scorer: dict[str, Any], rule: Rule) -> list[float]:
    return [rule(item, remaining) for item, remaining, _ in scorer["cases"]()]


def seed(problem: str, file: str, entry: str) -> Callable[..., Any]:
    function: Callable[..., Any] = runpy.run_path(str(SUITE / problem / file))[entry]
    return function


def slowly_used(items: Sequence[int], capacity: int, rule: Rule) -> int:
    """Every item looks at every bin, as many of them as there are items."""
    bins = [capacity] * len(items)
    for item in items:
        fitting = [number for number, remaining in enumerate(bins) if remaining >= item]
        chosen = max(fitting, key=lambda number: (rule(item, bins[number]), -number))
        bins[chosen] -= item
    return sum(remaining < capacity for remaining in bins)


def test_the_suite_lists_three_problems_whose_scorers_name_their_objectives() -> None:
    entries = load_suite(SUITE)
    assert [entry.path.name for entry in entries] == [*PACKING, "job-shop"]
    for entry in entries:
        problem = load_problem(entry.path)
        scorer = SCORERS[entry.path.name]
        rewards = scorer["score"]([None] * len(scorer["cases"]()))
        assert set(rewards.values()) == {0.0}
        assert set(rewards) == {objective.name for objective in problem.objectives}
        assert len(rewards) == 8


@pytest.mark.parametrize("name", SCORERS)
def test_the_check_passes_and_seeds_get_what_they_get_without_a_sandbox(name: str) -> None:
    report = check_problem(SUITE / name)
    assert report.warnings == ()
    scorer, problem = SCORERS[name], report.problem
    for found in report.seeds:
        function = seed(name, found.name, problem.entry)
        rewards = scorer["score"]([function(*case) for case in scorer["cases"]()])
        assert found.evaluation.rewards == tuple(rewards[objective.name] for objective in problem.objectives)


def test_families_of_the_portfolio_want_different_rules() -> None:
    folder = SUITE.parent / "portfolio" / "packing"
    scorer = runpy.run_path(str(folder / "score.py"))

    def rewards(rule: Rule) -> dict[str, float]:
        found: dict[str, float] = scorer["score"](table(scorer, rule))
        return found

    def two_constants(tight: int, wide: int) -> Rule:
        def rule(item: int, remaining: int) -> float:
            gap = remaining - item
            base = 1000 if gap <= tight else 500 if gap >= wide else 0
            return 1 if remaining == scorer["CAPACITY"] else base - gap

        return rule

    found = [rewards(rule) for rule in (lambda item, remaining: item - remaining, two_constants(2, 25))]
    names = [objective.name for objective in load_problem(folder).objectives]
    assert set(found[0]) == set(names)
    better = {name for name in names if found[0][name] > found[1][name] + 0.05}
    worse = {name for name in names if found[0][name] < found[1][name] - 0.05}
    assert better >= {"weibull-narrow"}
    assert worse >= {"weibull-long", "wide-long"}
    assert load_suite(SUITE.parent / "portfolio")[0].path == folder


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=150), min_size=1, max_size=4),
    st.integers(0, 10**6),
    st.integers(1, 6),
)
def test_any_table_packs_as_a_walk_over_all_bins_does(
    sequences: list[list[int]], salt: int, levels: int
) -> None:
    def rule(item: int, remaining: int) -> float:
        return (salt + item * 31 + remaining * remaining * 17) % levels

    for scorer in (OR3, WEIBULL):
        found = scorer["bins_used"](sequences, scorer["preferences"](table(scorer, rule)))
        assert found == [slowly_used(items, scorer["CAPACITY"], rule) for items in sequences]
        for items, used in zip(sequences, found, strict=True):
            assert scorer["lower_bound"](items) <= used <= len(items)


def test_the_instances_are_the_same_every_time_and_others_under_another_name() -> None:
    group = OR3["SETTINGS"]["groups"][0]
    assert OR3["items_of"](group, "train/120-items/0")[:8] == [88, 70, 28, 67, 40, 48, 69, 80]
    other = OR3["instances"]("other")
    assert {name: len(found) for name, found in other.items()} == {
        name: len(found) for name, found in OR3["instances"]().items()
    }
    assert other["120-items"][0] != OR3["instances"]()["120-items"][0]


@pytest.mark.parametrize(
    ("scorer", "group", "published"), [(OR3, "500-items", 0.0537), (WEIBULL, "5000-items", 0.0398)]
)
def test_best_fit_wastes_what_it_wastes_on_the_published_instances(
    scorer: dict[str, Any], group: str, published: float
) -> None:
    """On OR3 and Weibull 5k best fit was measured at 5.37 % and 3.98 %; ours are other draws."""
    best_fit = table(scorer, lambda item, remaining: item - remaining)
    found = [scorer["figures"](best_fit, part)[group] for part in ("train", "heldout")]
    assert sum(found) / 2 == pytest.approx(published, abs=0.004)


@pytest.mark.parametrize("bad", [None, "1", True, math.nan, math.inf, 10**400, [0.0], {}])
def test_one_output_that_is_no_finite_number_makes_all_rewards_zero(bad: object) -> None:
    outputs: list[Any] = table(OR3, lambda item, remaining: item - remaining)
    assert min(OR3["score"](outputs).values()) > 0.5
    outputs[1234] = bad
    assert set(OR3["score"](outputs).values()) == {0.0}
    assert set(OR3["score"](outputs[:-1]).values()) == {0.0}


@pytest.mark.parametrize(
    "order",
    [
        [],
        [0, 0, 1],
        [0, 0, 0, 1],
        [0, 1, 0, 2],
        [0, 1, 0, -1],
        [0, 1, 0, True],
        [0, 1, 0, 1.0],
        "0101",
        None,
        7,
    ],
)
def test_what_is_no_order_of_all_operations_has_no_makespan(order: object) -> None:
    assert SHOP["makespan"]([[[0, 3], [1, 2]], [[1, 4], [0, 1]]], order) is None


def test_a_bad_order_makes_its_cluster_zero_and_no_other() -> None:
    cases = SHOP["cases"]()
    outputs = [[j for j, job in enumerate(jobs) for _ in job] for (jobs,) in cases]  # one job after the other
    seed_outputs = [seed("job-shop", "seed.py", "schedule")(jobs) for (jobs,) in cases]
    assert set(SHOP["score"](outputs).values()) == {0.0}  # all serial: far worse than 75 % over
    rewards = SHOP["score"](seed_outputs)
    instances = list(SHOP["part_of"]("train").values())
    seed_outputs[0] = None
    broken = SHOP["score"](seed_outputs)
    assert broken == {**rewards, instances[0]["cluster"]: 0.0}


def test_an_optimal_schedule_of_ft06_has_the_published_makespan() -> None:
    order = [int(job) for job in "102301223145535420143053152521040344"]
    ft06 = SHOP["INSTANCES"]["ft06"]
    assert SHOP["makespan"](ft06["jobs"], order) == ft06["best"] == 55


@pytest.mark.parametrize(
    ("file", "published"),
    [("seed.py", 0.188), ("seed_shortest.py", 0.244), ("seed_most_operations.py", 0.210)],
)
def test_the_usual_rules_have_the_gaps_known_of_them(file: str, published: float) -> None:
    """Means over all 88 instances, as measured by an implementation of its own before this one."""
    schedule = seed("job-shop", file, "schedule")
    gaps = [
        SHOP["makespan"](instance["jobs"], schedule(instance["jobs"])) / instance["best"] - 1
        for instance in SHOP["INSTANCES"].values()
    ]
    assert sum(gaps) / len(gaps) == pytest.approx(published, abs=0.0005)


def test_the_instances_file_is_what_the_writer_takes_from_the_packages_format() -> None:
    writer = runpy.run_path(str(SUITE / "job_shop_instances.py"))
    data = json.loads((SUITE / "job-shop" / "data" / "instances.json").read_text())
    benchmark = {
        name: {
            "machines_matrix": [[machine for machine, _ in job] for job in found["jobs"]],
            "duration_matrix": [[duration for _, duration in job] for job in found["jobs"]],
            "metadata": {
                "upper_bound": found["best"],
                "optimum": found["best"] if found["is_optimal"] else None,
            },
        }
        for name, found in data.items()
    }
    large = {"machines_matrix": [[0]] * 301, "duration_matrix": [[1]] * 301, "metadata": {}}
    assert writer["selected"]({**benchmark, "zz99": large}) == data


def test_measuring_prints_a_line_for_each_program_and_part(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text((SUITE / "bin-packing-or3" / "seed_first_fit.py").read_text())
    bad.write_text("def priority(item, remaining, capacity):\n    return str(item)\n")
    run = subprocess.run(
        [sys.executable, SUITE / "measure.py", "bin-packing-or3", good, bad, "--part", "fresh"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SUITE.parents[1])},
    )
    assert run.returncode == 0, run.stderr
    first_fit = OR3["figures"](table(OR3, lambda *_: 0.0), "fresh")
    lines = run.stdout.splitlines()
    assert lines[1].split()[:3] == ["good", "fresh", f"{100 * sum(first_fit.values()) / 8:.2f}"]
    assert lines[1].split()[3:] == [f"{100 * value:.2f}" for value in first_fit.values()]
    assert lines[2].split() == ["bad", "fresh", "returned", "what", "is", "no", "finite", "number"]
