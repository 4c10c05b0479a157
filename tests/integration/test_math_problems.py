"""The bundled mathematical problems: exact checks against hand-worked cases and slow versions of them."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.judging.check import check_problem
from evovpo.problem.suites import load_suite
from evovpo.types import Json

pytestmark = pytest.mark.slow

SUITE = Path(__file__).resolve().parents[2] / "problems" / "math"
NAMES = (
    "circle-packing",
    "erdos-minimum-overlap",
    "autocorrelation-1",
    "autocorrelation-2",
    "autocorrelation-3",
    "cap-set",
    "function-minimisation",
)


def names(problem: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec((SUITE / problem / "score.py").read_text(), found)
    return found


SCORERS = {problem: names(problem) for problem in NAMES}
PACKING, OVERLAP, CAPS, LOWEST = (
    SCORERS[name] for name in ("circle-packing", "erdos-minimum-overlap", "cap-set", "function-minimisation")
)
CALLS = {problem: len(scorer["cases"]()) for problem, scorer in SCORERS.items()}
FIRST, SECOND, THIRD = (SCORERS[f"autocorrelation-{number}"] for number in (1, 2, 3))


def test_the_suite_lists_the_problems() -> None:
    assert [entry.path.name for entry in load_suite(SUITE)] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_check_is_clean_and_the_starting_program_scores_what_it_says(name: str) -> None:
    report = check_problem(SUITE / name)
    assert report.warnings == ()
    (seed,) = report.seeds
    objectives = [objective.name for objective in report.problem.objectives]
    rewards = dict(zip(objectives, seed.evaluation.rewards or (), strict=True))
    assert min(rewards.values()) > 0
    words = " ".join((SUITE / name / "seed.py").read_text().split())
    said = ", ".join(f"{objective} {value:.3f}" for objective, value in rewards.items())
    assert f"Rewards: {said}." in words
    assert "best known" in seed.evaluation.feedback


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_answer_has_no_reward_and_a_reason(name: str) -> None:
    junk: list[Json] = [
        None,
        True,
        7,
        "1.0",
        {},
        [],
        [[]],
        [None],
        [10**400],
        [[[1]]],
        ["1"] * 40,
        [[0.5] * 3],
    ]
    junk += [[math.nan] * 40, [math.inf] * 40, [-math.inf] * 50, [True] * 50, [math.nan] * 27]
    for output in junk:
        rewards, reason = SCORERS[name]["score"]([output] * CALLS[name])
        assert set(rewards.values()) == {0.0}, output
        assert "expected" in reason


@pytest.mark.parametrize(
    "circles",
    [
        [[0.5, 0.5, 0.5], *[[0.5, 0.5, 0.0]] * 25],
        [[0.5, 0.5, -0.1]] + [[0.0, 0.0, 0.0]] * 25,
        [[0.5, 0.5, math.nan]] + [[0.0, 0.0, 0.0]] * 25,
        [[0.5, 0.5, 10**400]] + [[0.0, 0.0, 0.0]] * 25,
        [[0.5, 0.5, "0.1"]] + [[0.0, 0.0, 0.0]] * 25,
        [[0.5, 0.5, True]] + [[0.0, 0.0, 0.0]] * 25,
        [[0.5, 0.5]] * 26,
        [[0.25, 0.25, 0.25], [0.75, 0.75, 0.25]],
        [[0.1, 0.1, 0.1]] * 27,
    ],
    ids=lambda circles: f"{len(circles)} {circles[0]}"[:40],
)
def test_a_packing_that_cannot_be_is_refused(circles: Json) -> None:
    total, reason = PACKING["packing_sum"](circles, 26)
    assert total == 0
    assert reason


@given(st.lists(st.tuples(*[st.integers(0, 16)] * 2, st.integers(0, 5)), min_size=2, max_size=5))
def test_a_packing_is_feasible_exactly_if_fractions_say_so(sixteenths: list[tuple[int, int, int]]) -> None:
    shift = 2.0**-60  # far below what a float at 1 resolves
    circles = [[x / 16, y / 16, r / 16 + (shift if r == 1 else 0)] for x, y, r in sixteenths]
    exact = [tuple(map(Fraction, circle)) for circle in circles]
    inside = all(r <= x <= 1 - r and r <= y <= 1 - r for x, y, r in exact)
    apart = all(
        (x - u) ** 2 + (y - v) ** 2 >= (r + s) ** 2
        for (x, y, r), (u, v, s) in itertools.combinations(exact, 2)
    )
    total, reason = PACKING["packing_sum"](circles, len(circles))
    assert (reason == "") == (inside and apart)
    assert total == (float(sum(r for _, _, r in exact)) if inside and apart else 0)


def test_one_bad_packing_costs_its_own_component_only() -> None:
    grid: dict[str, Any] = {}
    exec((SUITE / "circle-packing" / "seed.py").read_text(), grid)
    outputs = [grid["pack"](n) for (n,) in PACKING["cases"]()]
    good, _ = PACKING["score"](outputs)
    outputs[2][0][2] += 1e-6
    bad, reason = PACKING["score"](outputs)
    assert bad == {**good, "circles-26": 0.0}
    assert "n = 26: circle 0 leaves the square" in reason


def fractions(heights: Sequence[float]) -> list[Fraction]:
    return [Fraction(height) for height in heights]


def slow_overlap(heights: Sequence[Fraction], shift: Fraction) -> Fraction:
    """Integrate h(x) (1 - h(x + shift)) piece by piece over [-1, 1]; the heights have mean 1/2."""
    n = len(heights)
    cuts = {Fraction(2 * i, n) - 1 for i in range(n + 1)}
    cuts = {cut for cut in cuts | {cut - shift for cut in cuts} if -1 <= cut <= 1 and -1 <= cut + shift <= 1}
    total = Fraction(0)
    for left, right in itertools.pairwise(sorted(cuts)):
        middle = (left + right) / 2
        here, there = (heights[math.floor((place + 1) * n / 2)] for place in (middle, middle + shift))
        total += (right - left) * here * (1 - there)
    return total


def test_overlaps_agree_with_integrals_in_fractions() -> None:
    rng = Random(3)
    for n in (1, 2, 5, 8):
        heights = [rng.randrange(0, 1025) / 1024 for _ in range(n)]
        exact = fractions(heights)
        total = sum(exact)
        if 2 * total >= n:
            scaled = [height * Fraction(n, 2) / total for height in exact]
        else:
            scaled = [1 - (1 - height) * Fraction(n, 2) / (n - total) for height in exact]
        assert sum(scaled) == Fraction(n, 2)
        assert min(scaled) >= 0
        assert max(scaled) <= 1
        found, _ = OVERLAP["measured"](heights)
        steps = 8 * n
        values = {
            Fraction(i, steps): float(slow_overlap(scaled, Fraction(i, steps)))
            for i in range(-2 * steps, 2 * steps + 1)
        }
        assert found["overall"] == pytest.approx(max(values.values()), abs=1e-14)
        for band, (low, high) in OVERLAP["BANDS"].items():
            expected = max(value for shift, value in values.items() if low <= shift <= high)
            assert found[band] == pytest.approx(expected, abs=1e-14)
        expected = max(value for shift, value in values.items() if abs(shift) >= 1)
        assert found["beyond"] == pytest.approx(expected, abs=1e-14)


def slow_autoconvolution(heights: Sequence[Fraction]) -> list[Fraction]:
    n = len(heights)
    return [
        sum((heights[i] * heights[k - i] for i in range(max(0, k - n + 1), min(k, n - 1) + 1)), Fraction(0))
        for k in range(2 * n - 1)
    ]


@pytest.mark.parametrize("signed", [False, True])
def test_autoconvolutions_agree_with_sums_of_fractions(signed: bool) -> None:
    rng = Random(7)
    scorer = THIRD if signed else FIRST
    for n in (1, 2, 7, 30):
        heights = [rng.randrange(-300 if signed else 0, 1001) / 8 for _ in range(n)]
        heights[rng.randrange(n)] = 128.0  # the largest, a power of two: rounding to units changes nothing
        exact = fractions(heights)
        sums = slow_autoconvolution(exact)
        assert scorer["autoconvolution"](scorer["rounded"](heights)[0]) == [
            value / 128**2 * scorer["UNIT"] ** 2 for value in sums
        ]
        knots = [Fraction(0), *(2 * n * value / sum(exact) ** 2 for value in sums), Fraction(0)]

        def line(t: Fraction, n: int = n, knots: Sequence[Fraction] = knots) -> Fraction:
            place = (t + Fraction(1, 2)) * 2 * n
            left, right = knots[math.floor(place)], knots[math.ceil(place)]
            return left + (place - math.floor(place)) * (right - left)

        steps = 16 * n
        values = {Fraction(i, steps): line(Fraction(i, steps)) for i in range(-steps // 2, steps // 2 + 1)}
        found, _ = scorer["largest_by_band"](heights)
        assert found["overall"] == pytest.approx(float(max(map(abs, values.values()))), rel=1e-15)
        for number in range(8):
            low, high = Fraction(number, 8) - Fraction(1, 2), Fraction(number + 1, 8) - Fraction(1, 2)
            expected = max(abs(value) for t, value in values.items() if low <= t <= high)
            assert found[f"band-{number + 1}"] == pytest.approx(float(expected), rel=1e-14)


def test_the_ratio_of_norms_agrees_with_integrals_in_fractions() -> None:
    rng = Random(11)
    heights = [*(rng.randrange(1024) / 1024 for _ in range(49)), 1.0]
    knots = [Fraction(0), *slow_autoconvolution(fractions(heights)), Fraction(0)]
    square = absolute = Fraction(0)
    for a, b in itertools.pairwise(knots):
        middle = (a + b) / 2
        square += (a * a + 4 * middle * middle + b * b) / 6  # Simpson's rule is exact for squares of lines
        absolute += middle
    assert SECOND["ratio"](heights, 50)[0] == pytest.approx(
        float(square / (absolute * max(knots))), rel=1e-15
    )


def test_heights_that_sum_to_nothing_are_refused() -> None:
    assert THIRD["score"]([[1, -1]])[1] == "the heights sum to 0, so no multiple has integral 1"
    for scorer in (FIRST, THIRD):
        assert scorer["score"]([[0, 0.0]])[1] == "all heights are 0"
    assert SECOND["ratio"]([0] * 50, 50) == (0.0, "all heights are 0")
    assert "from 0 to 1e100" in FIRST["score"]([[1, -1e-9]])[1]


def test_more_steps_than_allowed_are_refused() -> None:
    for scorer in (OVERLAP, FIRST, THIRD):
        most = scorer["MOST_STEPS"]
        assert scorer["cases"]() == [[most]]
        assert f"found {most + 1} of them" in scorer["score"]([[0.5] * (most + 1)])[1]


def is_cap_set(vectors: Sequence[Sequence[int]]) -> bool:
    return not any(
        all((x + y + z) % 3 == 0 for x, y, z in zip(*three, strict=True))
        for three in itertools.combinations(vectors, 3)
    )


def test_what_is_built_is_a_cap_set_that_nothing_can_be_added_to() -> None:
    rng = Random(17)
    sizes = []
    for _ in range(20):
        taken, _ = CAPS["cap_set"]([rng.random() for _ in range(27)], 3)
        sizes.append(len(taken))
        assert len({tuple(vector) for vector in taken}) == len(taken)
        assert is_cap_set(taken)
        assert not any(is_cap_set([*taken, vector]) for vector in CAPS["elements"](3) if vector not in taken)
    assert max(sizes) == 9 > min(sizes)


def test_priorities_decide_and_the_order_of_the_list_breaks_ties() -> None:
    assert CAPS["cap_set"]([0] * 9, 2)[0] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert CAPS["cap_set"](list(range(9)), 2)[0] == [[2, 2], [2, 1], [1, 2], [1, 1]]
    assert CAPS["cap_set"]([10**300, -1e308, 3, 2**70, *[0.5] * 5], 2)[0][:2] == [[0, 0], [1, 0]]


def test_sizes_in_eight_dimensions_as_measured_before() -> None:
    """Equal priorities give 256; preferring vectors with three zeros gave 297 in a program of its own."""
    assert len(CAPS["cap_set"]([0] * 3**8, 8)[0]) == 256
    liked = [-abs(vector.count(0) - 3) for vector in CAPS["elements"](8)]
    assert len(CAPS["cap_set"](liked, 8)[0]) == 297


def test_a_proven_size_has_the_full_reward_and_a_record_would_show() -> None:
    outputs: list[Json] = [None] * 6
    rng = Random(17)
    while CAPS["score"](outputs)[0]["dimension-3"] < 1:
        outputs[0] = [rng.random() for _ in range(27)]
    assert len(CAPS["cap_set"](outputs[0], 3)[0]) == 9
    outputs[5] = [0] * 3**8
    assert CAPS["score"](outputs)[0]["dimension-8"] == 256 / (1.02 * 512)


def test_a_value_worked_by_hand() -> None:
    value: Callable[..., float] = LOWEST["value"]
    waves = [[2.0, 0.0, math.pi, 0.0]]
    wells = [[5.0, 2.0, 1.0, 1.0]]
    # 0.5 * 1 + 3 * 4, 2 cos(pi), and 5 exp(-(0 + 1) / 4).
    assert value([1.0, 2.0], [0.5, 3.0], waves, wells) == pytest.approx(12.5 - 2 - 5 * math.exp(-0.25))


def test_a_search_on_a_grid_finds_the_best_known_value_and_none_below() -> None:
    case = LOWEST["instance"]("smooth", 1)
    point = min(
        ([x / 4, y / 4] for x in range(-20, 21) for y in range(-20, 21)),
        key=lambda point: LOWEST["value"](point, *case),
    )
    width = 0.25
    while width > 1e-7:  # steps to the lowest neighbour, halved where there is none
        near = [[point[0] + i * width, point[1] + j * width] for i in (-1, 0, 1) for j in (-1, 0, 1)]
        nearest = min(near, key=lambda point: LOWEST["value"](point, *case))
        if nearest == point:
            width /= 2
        point = nearest
    known = LOWEST["BEST"]["smooth", 1]
    assert LOWEST["value"](point, *case) == pytest.approx(known, abs=1e-9)
    outputs: list[Json] = [None] * len(LOWEST["BEST"])
    outputs[0] = [*point]
    rewards, told = LOWEST["score"](outputs)
    assert rewards["smooth"] == pytest.approx(1 / 1.02 / 2)
    assert f"smooth 1: value {known:.6f}, best known {known:.6f}" in told


def test_a_point_outside_the_box_has_no_reward() -> None:
    outputs: list[Json] = [[0.0] * len(case[0]) for case in LOWEST["cases"]()]
    inside, _ = LOWEST["score"](outputs)
    outputs[0] = [5.000001, 0.0]
    outside, told = LOWEST["score"](outputs)
    assert outside["smooth"] < inside["smooth"]
    assert "expected coordinates from -5.0 to 5.0" in told
