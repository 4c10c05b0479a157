"""The ways to ask, each as a function of a population made by hand."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from plain_search import PLAIN, PlainFormat, judge

from evovpo.config import SearchConfig
from evovpo.search.memory import Failures
from evovpo.search.population import Population
from evovpo.search.standing import Standing
from evovpo.search.ways import (
    FOCUSED,
    WAYS,
    Plan,
    View,
    by_rank,
    climb,
    combine,
    explore,
    fresh,
    repair,
    specialist,
)
from evovpo.types import (
    Candidate,
    EvaluatorFolder,
    EvaluatorMode,
    Example,
    Feature,
    Json,
    JudgedCandidate,
    Metric,
    Objective,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Status,
    Tell,
)

ONE = dataclasses.replace(PLAIN, objectives=(Objective("left"),))
EVALUATED = dataclasses.replace(
    ONE,
    scorer_path=None,
    objectives=(Objective("combined_score"),),
    evaluator=EvaluatorFolder(
        "evaluator.py", EvaluatorMode.WHOLE, (Metric("combined_score", 0.0, 1.0, is_soft=True),), left_out=()
    ),
)
"""Ranked by one number alone."""
ROWS = dataclasses.replace(
    PLAIN,
    scorer_path=None,
    entry="solve",
    parameters=("x",),
    objectives=tuple(Objective(f"row-{number}") for number in range(4)),
    train=tuple(Example((number,), number) for number in range(4)),
)
FAILED = judge(Program("fail"))
WITH_LENGTH = dataclasses.replace(PLAIN, features=(Feature("length", (12.0, 20.0)),))


class Scene:
    """A population to which programs are added by hand, and what a way sees of it."""

    def __init__(self, problem: Problem = PLAIN, islands: int = 1, **settings: object) -> None:
        config = SearchConfig().changed(**settings)
        shows = PlainFormat()
        self.standing = Standing(problem, config, shows)
        self.problem = problem
        self.population = Population(problem, islands, 10)
        self.failures = Failures(self.standing, islands)
        self._told = 0

    def add(self, text: str, island: int | None = 0, **metrics: Json) -> str:
        """Insert a program whose rewards stand at its beginning; return its id."""
        program = Program(text)
        rewards = tuple(map(float, text.partition("#")[0].split()))
        found = dataclasses.replace(FAILED, program_id=program.id, status=Status.OK, rewards=rewards)
        found = dataclasses.replace(found, metrics=tuple(metrics.items()) or None)
        self.standing.take(program, found)
        self.population.insert(program, found, island)
        return program.id

    def fail(self, name: str, island: int = 0, **changes: object) -> str:
        """Tell the failures of a program that did not work, in an answer of an island."""
        program = Program(f"fail {name}")
        rewards = (0.0,) * len(self.problem.objectives)
        found = dataclasses.replace(FAILED, program_id=program.id, rewards=rewards, **changes)  # type: ignore[arg-type]
        self.standing.take(program, found)
        self._told += 1
        prompt = Prompt(f"prompt {self._told}", "run", self._told, 0, PromptKind.MUTATE, island=island)
        candidate = Candidate(f"c{self._told}", prompt.id, None, 0, ParseStatus.PARSED, program)
        self.failures.learn(prompt, Tell(prompt.id, None, (JudgedCandidate(candidate, found, True),)), None)
        return program.id

    def view(self, island: int = 0) -> View:
        return View(self.population, self.population.islands[island], self.failures, self.standing)

    def plan(
        self, way: Callable[[View, np.random.Generator], Plan | None], seed: int = 0, island: int = 0
    ) -> Plan:
        """Return what a way plans, which has something to work on."""
        plan = way(self.view(island), np.random.default_rng(seed))
        assert plan is not None
        return plan

    def source(self, plan: Plan, place: int = 0) -> str:
        return self.standing.programs[plan.parents[place].program_id].program.source


def improves(program_id: str, island: int = 0) -> Plan:
    return Plan(PromptKind.MUTATE, (Parent(program_id, ParentRole.PARENT),), island=island)


@pytest.mark.parametrize("name", [name for name in WAYS if name != "fresh"])
@pytest.mark.parametrize(
    "problem", [PLAIN, ONE, WITH_LENGTH, EVALUATED], ids=["two", "one", "axes", "evaluated"]
)
def test_with_nothing_to_work_on_there_is_no_plan(name: str, problem: Problem) -> None:
    assert WAYS[name].plan(Scene(problem).view(), np.random.default_rng(0)) is None


@pytest.mark.parametrize("kind", ["share", "share_of_vectors"])
def test_shares_at_first_sum_to_one(kind: str) -> None:
    assert sum(getattr(way, kind) for way in WAYS.values()) == pytest.approx(1.0)


def test_climb_improves_the_best_of_the_run_of_equals_the_newest_whatever_the_island_in_turn() -> None:
    scene = Scene(islands=3)
    scene.add("0.5 0.5 # older and shorter", 1)
    newest = scene.add("0.5 0.5 # newer, and the text is a longer one", 2)
    scene.add("0.1 0.6 # best at right", 0)
    for island in range(3):
        assert scene.plan(climb, island=island) == improves(newest, 2)


def test_specialist_moves_to_the_program_that_is_good_where_the_last_one_fails() -> None:
    scene = Scene(islands=2)
    left = scene.add("0.9 0.1 # left", 0)
    right = scene.add("0.1 0.8 # right", 1)
    # Weights begin at 1; an ask adds a fiftieth of what the specialist lacks. After ten asks, at (1.02, 1.18)
    # the two are worth 1.036 and 1.046, so that it changes sides; at (1.038, 1.184) 1.0526 and 1.0510: back.
    found = [scene.plan(specialist, island=place % 2) for place in range(11)]
    assert found == [improves(right if place == 9 else left, place % 2) for place in range(11)]
    assert scene.population.weights == pytest.approx([1.038, 1.184])


def test_specialist_takes_what_comes_to_be_as_good_under_its_weights() -> None:
    scene = Scene()
    scene.add("0.5 0.5 # first")
    newer = scene.add("0.5 0.5 # newer")
    scene.add("0.9 0.0 # worth less")
    assert scene.plan(specialist) == improves(newer)


def test_there_is_no_specialist_for_a_single_number() -> None:
    scene = Scene(ONE)
    scene.add("0.5 # one")
    assert specialist(scene.view(), np.random.default_rng(0)) is None


def test_explore_takes_the_best_of_the_cell_visited_least_and_counts_the_visit() -> None:
    scene = Scene(WITH_LENGTH)
    scene.add("0.1 0.1 # a")  # a cell by length for each of these two
    scene.add("0.9 0.9 # of middle")
    best = scene.add("0.2 0.2 # b")
    long = scene.add("0.3 0.3 # a long program, of a third cell")
    scene.population.visits.update({(1,): 2, (0,): 1})
    assert scene.plan(explore) == improves(long)
    assert scene.population.visits[(2,)] == 1
    taken = {scene.plan(explore, seed).parents[0].program_id for seed in (1,)}
    taken |= {scene.plan(explore, 1).parents[0].program_id}
    assert taken == {best, long}
    assert scene.population.visits == {(0,): 2, (1,): 2, (2,): 2}


def test_without_axes_explore_is_lexicase_selection() -> None:
    scene = Scene(islands=2)
    # The last has the best mean, and is the best at nothing.
    for text in ("0.8 0.2 # left", "0.2 0.8 # right", "0.7 0.7 # never"):
        scene.add(text, 0)
    scene.add("1.0 1.0 # elsewhere", 1)
    counts = Counter(scene.source(scene.plan(explore, seed)) for seed in range(400))
    assert set(counts) == {"0.8 0.2 # left", "0.2 0.8 # right"}
    assert counts["0.8 0.2 # left"] / 400 == pytest.approx(0.5, abs=0.1)


def test_without_axes_and_components_explore_goes_by_rank() -> None:
    scene = Scene(ONE, islands=2)
    for number in range(1, 4):
        scene.add(f"0.{number} # {number}", 0)
    scene.add("1.0 # elsewhere", 1)
    counts = Counter(scene.source(scene.plan(explore, seed)) for seed in range(600))
    # Weights 1, 1/2 and 1/3 of 11/6.
    for text, share in (("0.3 # 3", 6 / 11), ("0.2 # 2", 3 / 11), ("0.1 # 1", 2 / 11)):
        assert counts[text] / 600 == pytest.approx(share, abs=0.07)
    assert counts.total() == 600 == sum(counts[text] for text in counts if "elsewhere" not in text)
    assert by_rank([], np.random.default_rng(0)) is None


def test_combine_shows_the_best_and_the_program_that_adds_most_to_it() -> None:
    scene = Scene(islands=2)
    leader = scene.add("0.9 0.1 # left", 1)
    scene.add("0.8 0.1 # adds nothing", 0)
    adds = scene.add("0.1 0.8 # right", 0)
    scene.add("0.2 0.2 # adds little", 0)
    pairs: Counter[str] = Counter()
    for seed in range(100):
        plan = scene.plan(combine, seed)
        assert (plan.kind, plan.island) == (PromptKind.CROSSOVER, 1)
        assert [parent.role for parent in plan.parents] == [ParentRole.PARENT, ParentRole.PARTNER]
        assert plan.parents[0].program_id == leader
        pairs[plan.parents[1].program_id] += 1
    # Of five draws by rank one or more is the program that adds most, but for (1 - 6/11)^5 = 2 percent.
    assert pairs[adds] > 90


def test_combine_shows_two_programs_that_differ_in_their_rewards() -> None:
    scene = Scene(ONE, islands=2)
    scene.add("0.5 # one", 0)
    scene.add("0.5 # the same reward", 1)
    for island in (0, 1):
        assert combine(scene.view(island), np.random.default_rng(0)) is None
    other = scene.add("0.4 # another", 0)
    assert {scene.plan(combine, seed).parents[1].program_id for seed in range(10)} == {other}


def test_a_format_that_shows_no_partner_gets_nothing_combined() -> None:
    scene = Scene()
    scene.add("0.9 0.1 # left")
    scene.add("0.1 0.8 # right")
    scene.standing.prompt_format = PlainFormat((ParentRole.PARENT,))
    assert combine(scene.view(), np.random.default_rng(0)) is None


def test_repair_mends_the_newest_failing_program_of_the_island_at_most_twice() -> None:
    scene = Scene(islands=2)
    first, second = scene.fail("first"), scene.fail("second")
    scene.fail("elsewhere", island=1)
    plans = [repair(scene.view(), np.random.default_rng(0)) for _ in range(5)]
    assert [plan and (plan.kind, plan.parents[0].program_id, plan.island) for plan in plans] == [
        (PromptKind.REPAIR, second, 0), (PromptKind.REPAIR, second, 0),
        (PromptKind.REPAIR, first, 0), (PromptKind.REPAIR, first, 0), None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "metrics", "is_repaired"),
    [
        (Status.TIMEOUT, {}, True),
        (Status.OK, {"combined_score": 0.0, "error": "it broke"}, True),
        (Status.OK, {"combined_score": 0.0}, True),
        (Status.OK, {"error": "it broke"}, True),
        (Status.OK, {"combined_score": -2.0}, True),
        (Status.OK, {"combined_score": 0.1, "error": ""}, False),
        (Status.OK, {"combined_score": 0.1, "error": "a warning"}, False),
    ],
)
def test_repair_takes_what_an_evaluator_calls_a_failure_or_scores_zero(
    status: Status, metrics: dict[str, Json], is_repaired: bool
) -> None:
    scene = Scene(EVALUATED)
    scene.fail("one", status=status, metrics=tuple(metrics.items()))
    assert (repair(scene.view(), np.random.default_rng(0)) is not None) == is_repaired


def test_a_reward_of_zero_of_our_own_scorer_is_no_failure() -> None:
    scene = Scene(ONE)
    scene.fail("one", status=Status.OK)
    assert repair(scene.view(), np.random.default_rng(0)) is None


def test_fresh_asks_from_the_problem_alone() -> None:
    scene = Scene(islands=2)
    assert scene.plan(fresh, island=1) == Plan(island=1)
    scene.add("0.9 0.9 # best", 1)
    assert {scene.plan(fresh, seed, island=1) for seed in range(20)} == {Plan(island=1)}


def test_fresh_improves_a_starting_program_where_only_the_evaluator_knows_what_to_define() -> None:
    scene = Scene(EVALUATED, islands=2)
    assert fresh(scene.view(), np.random.default_rng(0)) is None
    seeds = {scene.add(f"{score} # start", None, combined_score=score) for score in (0.1, 0.2)}
    scene.add("0.9 # best", combined_score=0.9)
    plans = [scene.plan(fresh, seed, island=1) for seed in range(20)]
    assert {plan.parents[0].program_id for plan in plans} == seeds
    assert {(plan.kind, plan.island) for plan in plans} == {(PromptKind.MUTATE, 1)}


def test_fresh_shows_by_example_sometimes_only_the_rows_that_a_good_program_fails() -> None:
    scene = Scene(ROWS)
    scene.add("1.0 0.0 1.0 0.0 # half")
    plans = [scene.plan(fresh, seed) for seed in range(400)]
    found = Counter(None if plan.only is None else tuple(plan.only) for plan in plans)
    assert set(found) == {None, (1, 3)}
    assert found[1, 3] / 400 == pytest.approx(FOCUSED, abs=0.07)
    assert all(plan.parents == () for plan in plans)


@pytest.mark.parametrize("rewards", ["0.0 0.0 0.0 0.0", "1.0 1.0 1.0 0.0"])
def test_fresh_shows_all_rows_where_a_program_fails_all_of_them_or_one(rewards: str) -> None:
    scene = Scene(ROWS)
    scene.add(f"{rewards} # program")
    assert {scene.plan(fresh, seed).only for seed in range(60)} == {None}
