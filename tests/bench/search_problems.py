"""Problems and a made-up proposer for `search_quality.py`: programs are small data, judged in microseconds.

Eighteen problems of five kinds, eight to choose settings by (`CHOOSING`), ten to report (`REPORTING`). A
program is the text of a number, list or tree. The proposer stands for a model: it changes the program that a
prompt shows, combines it with another one that is shown, or writes a new one, in shares that its strength
names (`STRENGTHS`). It reads nothing else of a prompt.
"""

import ast
import itertools
import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Genome = Any
"""A number, a tuple of numbers, or a tree of tuples ("operator", child, ...)."""


class Task(NamedTuple):
    name: str
    fresh: Callable[[random.Random], Genome]
    mutate: Callable[[Genome, random.Random], Genome]
    combine: Callable[[Genome, Genome, random.Random], Genome]
    score: Callable[[Genome], tuple[float, ...]]
    """Components in [0, 1]; one for a problem with one score."""
    components: int
    features: tuple[str, ...] = ()
    """Names of what `describe` returns: axes for MAP-Elites."""
    describe: Callable[[Genome], tuple[float, ...]] = lambda genome: ()
    start: Genome = None
    """The starting program; None for one that is drawn."""


class Strength(NamedTuple):
    """Shares of what the proposer does with a prompt that shows a program; the rest combines two."""

    mutate: float
    fresh: float
    steps: int
    """Most mutations in a row in one answer."""


STRENGTHS = {
    "local": Strength(0.8, 0.02, 1),
    "medium": Strength(0.6, 0.1, 2),
    "jumps": Strength(0.3, 0.4, 4),
}


def propose(task: Task, strength: Strength, shown: Sequence[Genome], rng: random.Random) -> Genome:
    """Return a program for a prompt that shows `shown`: the one to improve first; none asks for a new one."""
    draw = rng.random()
    if not shown or draw < strength.fresh:
        return task.fresh(rng)
    if draw >= strength.fresh + strength.mutate and len(shown) > 1:
        return task.combine(shown[0], rng.choice(shown[1:]), rng)
    genome = shown[0]
    for _ in range(rng.randint(1, strength.steps)):
        genome = task.mutate(genome, rng)
    return genome


@lru_cache(maxsize=20_000)
def read(source: str) -> Genome:
    return ast.literal_eval(source)


# Lists of numbers.


def _vector(size: int, low: float, high: float) -> dict[str, Any]:
    def fresh(rng: random.Random) -> Genome:
        return tuple(round(rng.uniform(low, high), 4) for _ in range(size))

    def mutate(genome: Genome, rng: random.Random) -> Genome:
        step = (high - low) * 10 ** rng.uniform(-3.0, -0.5)
        chosen = set(rng.sample(range(size), rng.choice((1, 1, 2))))
        return tuple(
            round(min(high, max(low, value + rng.gauss(0.0, step))), 4) if place in chosen else value
            for place, value in enumerate(genome)
        )

    def combine(one: Genome, other: Genome, rng: random.Random) -> Genome:
        return tuple(rng.choice(pair) for pair in zip(one, other, strict=True))

    return {"fresh": fresh, "mutate": mutate, "combine": combine}


def _close(error: float, scale: float) -> float:
    return 1.0 / (1.0 + (error / scale) ** 2)


def _curve(
    name: str, xs: Sequence[float], value: Callable[[Genome, float], float], wanted: Genome, limit: float
) -> Task:
    """The constants of a curve that passes through points."""
    points = [(x, value(wanted, x)) for x in xs]

    def score(genome: Genome) -> tuple[float, ...]:
        return tuple(_close(value(genome, x) - y, 0.3) for x, y in points)

    return Task(name, **_vector(len(wanted), -limit, limit), score=score, components=len(xs))


def _wave() -> Task:
    def value(c: Genome, x: float) -> float:
        return c[0] * math.sin(c[1] * x + c[2]) + c[3] * math.sin(c[4] * x + c[5]) * math.exp(-abs(c[6]) * x)

    xs = [place / 4 for place in range(16)]
    return _curve("wave", xs, value, (1.3, 2.1, 0.4, -1.7, 3.3, 1.1, 0.35), 4.0)


def _ratio() -> Task:
    def value(c: Genome, x: float) -> float:
        return (c[0] + c[1] * x + c[2] * x * x) / (0.3 + (x - c[3]) ** 2) + c[4] * math.cos(c[5] * x)

    return _curve(
        "ratio", [place / 3 - 2 for place in range(12)], value, (0.5, -1.2, 0.8, 0.6, 1.5, 2.6), 3.0
    )


def _circles() -> Task:
    count = 9

    def score(genome: Genome) -> tuple[float, ...]:
        points = [(genome[2 * i], genome[2 * i + 1]) for i in range(count)]
        total = 0.0
        for x, y in points:
            near = min(math.hypot(x - u, y - v) for u, v in points if (u, v) != (x, y)) if points else 0.0
            total += max(0.0, min(x, y, 1 - x, 1 - y, near / 2))
        return (min(1.0, total / 1.5),)

    return Task("circles", **_vector(2 * count, 0.0, 1.0), score=score, components=1)


# Trees.


def _nodes(tree: Genome, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Genome]]:
    found = [(path, tree)]
    if isinstance(tree, tuple):
        for place, child in enumerate(tree[1:], start=1):
            found += _nodes(child, (*path, place))
    return found


def _put(tree: Genome, path: tuple[int, ...], part: Genome) -> Genome:
    if not path:
        return part
    return (*tree[: path[0]], _put(tree[path[0]], path[1:], part), *tree[path[0] + 1 :])


def _trees(
    operators: dict[str, int], leaves: Sequence[Genome], most: int, has_numbers: bool
) -> dict[str, Any]:
    names = list(operators)

    def leaf(rng: random.Random) -> Genome:
        if has_numbers and rng.random() < 0.3:
            return round(rng.uniform(-3.0, 3.0), 2)
        return rng.choice(leaves)

    def grow(rng: random.Random, depth: int) -> Genome:
        if depth == 0 or rng.random() < 0.2:
            return leaf(rng)
        name = rng.choice(names)
        return (name, *(grow(rng, depth - 1) for _ in range(operators[name])))

    def fitting(tree: Genome, old: Genome) -> Genome:
        return tree if len(_nodes(tree)) <= most else old

    def mutate(tree: Genome, rng: random.Random) -> Genome:
        path, part = rng.choice(_nodes(tree))
        draw = rng.random()
        if isinstance(part, float) and draw < 0.7:
            return _put(tree, path, round(part + rng.gauss(0.0, 0.5), 2))
        if isinstance(part, tuple) and draw < 0.3:
            same = [name for name in names if operators[name] == len(part) - 1]
            return _put(tree, path, (rng.choice(same), *part[1:]))
        if isinstance(part, tuple) and draw < 0.45:
            return _put(tree, path, rng.choice(part[1:]))
        return fitting(_put(tree, path, grow(rng, rng.choice((0, 1, 2)))), tree)

    def combine(one: Genome, other: Genome, rng: random.Random) -> Genome:
        path, _ = rng.choice(_nodes(one))
        return fitting(_put(one, path, rng.choice(_nodes(other))[1]), one)

    return {"fresh": lambda rng: grow(rng, 3), "mutate": mutate, "combine": combine}


def _number(tree: Genome, at: dict[str, float]) -> float:
    if isinstance(tree, str):
        return at[tree]
    if not isinstance(tree, tuple):
        return float(tree)
    a = _number(tree[1], at)
    match tree[0]:
        case "sin":
            return math.sin(a)
        case "neg":
            return -a
        case "if":
            return _number(tree[2], at) if a > 0 else _number(tree[3], at)
    b = _number(tree[2], at)
    match tree[0]:
        case "add":
            found = a + b
        case "sub":
            found = a - b
        case "mul":
            found = a * b
        case "div":
            found = a / b if abs(b) > 1e-3 else 1.0
        case _:
            found = max(a, b)
    return max(-1e6, min(1e6, found))


_ARITHMETIC = {"add": 2, "sub": 2, "mul": 2, "div": 2, "sin": 1}


def _regression(
    name: str, wanted: Callable[[float, float], float], has_two: bool, operators: dict[str, int], scale: float
) -> Task:
    rng = random.Random(name)
    points = [(round(rng.uniform(-2, 2), 2), round(rng.uniform(-2, 2), 2)) for _ in range(20)]
    wants = [wanted(x, y) for x, y in points]

    def score(tree: Genome) -> tuple[float, ...]:
        return tuple(
            _close(_number(tree, {"x": x, "y": y}) - want, scale)
            for (x, y), want in zip(points, wants, strict=True)
        )

    parts = _trees(operators, ("x", "y") if has_two else ("x",), 60, has_numbers=True)
    return Task(name, **parts, score=score, components=20)


def _truth(tree: Genome, at: dict[str, int]) -> int:
    """Return the value of a boolean tree for all cases at once: a bit for each."""
    if isinstance(tree, str):
        return at[tree]
    a = _truth(tree[1], at)
    match tree[0]:
        case "not":
            return at["all"] & ~a
        case "and":
            return a & _truth(tree[2], at)
        case "or":
            return a | _truth(tree[2], at)
    return (a & _truth(tree[2], at)) | (at["all"] & ~a & _truth(tree[3], at))


def _boolean(
    name: str, inputs: Sequence[str], wanted: Callable[..., bool], operators: dict[str, int]
) -> Task:
    cases = list(itertools.product((0, 1), repeat=len(inputs)))
    at = {key: sum(case[place] << row for row, case in enumerate(cases)) for place, key in enumerate(inputs)}
    at["all"] = (1 << len(cases)) - 1
    answer = sum(int(wanted(*case)) << row for row, case in enumerate(cases))

    def score(tree: Genome) -> tuple[float, ...]:
        right = at["all"] & ~(_truth(tree, at) ^ answer)
        return tuple(float(right >> row & 1) for row in range(len(cases)))

    parts = _trees(operators, inputs, 60, has_numbers=False)
    return Task(name, **parts, score=score, components=len(cases))


# Lists, permutations, rules.


def _permutation(size: int) -> dict[str, Any]:
    def fresh(rng: random.Random) -> Genome:
        return tuple(rng.sample(range(size), size))

    def mutate(genome: Genome, rng: random.Random) -> Genome:
        one, two = sorted(rng.sample(range(size), 2))
        draw, items = rng.random(), list(genome)
        if draw < 0.4:
            items[one : two + 1] = items[one : two + 1][::-1]
        elif draw < 0.7:
            items.insert(two, items.pop(one))
        else:
            items[one], items[two] = items[two], items[one]
        return tuple(items)

    def combine(one: Genome, other: Genome, rng: random.Random) -> Genome:
        first, last = sorted(rng.sample(range(size + 1), 2))
        kept = one[first:last]
        rest = [item for item in other if item not in kept]
        return (*rest[:first], *kept, *rest[first:])

    return {"fresh": fresh, "mutate": mutate, "combine": combine}


def _tour() -> Task:
    rng = random.Random("tour")
    cities = [(rng.random(), rng.random()) for _ in range(22)]

    def score(order: Genome) -> tuple[float, ...]:
        legs = zip(order, (*order[1:], order[0]), strict=True)
        return (min(1.0, 3.0 / sum(math.dist(cities[a], cities[b]) for a, b in legs)),)

    return Task("tour", **_permutation(22), score=score, components=1)


def _flow_shop() -> Task:
    rng = random.Random("flow shop")
    times = [[rng.randint(1, 20) for _ in range(5)] for _ in range(16)]

    def score(order: Genome) -> tuple[float, ...]:
        ends = [0] * 5
        for job in order:
            for machine in range(5):
                before = ends[machine - 1] if machine else 0
                ends[machine] = max(ends[machine], before) + times[job][machine]
        return (min(1.0, 180.0 / ends[-1]),)

    return Task("flow-shop", **_permutation(16), score=score, components=1)


def _sequence(choices: Sequence[Genome], longest: int) -> dict[str, Any]:
    """Lists of any length of the given parts."""

    def fresh(rng: random.Random) -> Genome:
        return tuple(rng.choice(choices) for _ in range(rng.randint(1, longest // 2)))

    def mutate(genome: Genome, rng: random.Random) -> Genome:
        items, draw = list(genome), rng.random()
        if not items or (draw < 0.3 and len(items) < longest):
            items.insert(rng.randint(0, len(items)), rng.choice(choices))
        elif draw < 0.5 and len(items) > 1:
            items.pop(rng.randrange(len(items)))
        elif draw < 0.65 and len(items) > 1:
            items.insert(rng.randrange(len(items)), items.pop(rng.randrange(len(items))))
        else:
            items[rng.randrange(len(items))] = rng.choice(choices)
        return tuple(items)

    def combine(one: Genome, other: Genome, rng: random.Random) -> Genome:
        cut, end = rng.randint(0, len(one)), rng.randint(0, len(other))
        return (one[:cut] + other[end:])[:longest] or one

    return {"fresh": fresh, "mutate": mutate, "combine": combine}


def _rules() -> Task:
    """A decision list over six attributes of three values: 24 cases of four classes."""
    rng = random.Random("rules")
    cases = [tuple(rng.randrange(3) for _ in range(6)) for _ in range(24)]
    labels = [(c[0] + (c[1] > 0) * c[2]) % 4 for c in cases]
    choices = list(itertools.product(range(6), range(3), range(6), range(3), range(4)))

    def score(rules: Genome) -> tuple[float, ...]:
        found = []
        for case, label in zip(cases, labels, strict=True):
            said = next((out for a, v, b, w, out in rules if case[a] == v and case[b] == w), 0)
            found.append(float(said == label))
        return tuple(found)

    return Task("rules", **_sequence(choices, 20), score=score, components=24)


_STEPS: dict[str, Callable[[list[int]], list[int]]] = {
    "reverse": lambda v: v[::-1],
    "sort": sorted,
    "tail": lambda v: v[1:],
    "head": lambda v: v[:-1],
    "double": lambda v: [2 * x for x in v],
    "next": lambda v: [x + 1 for x in v],
    "even": lambda v: [x for x in v if x % 2 == 0],
    "big": lambda v: [x for x in v if x > 3],
    "sums": lambda v: list(itertools.accumulate(v)),
    "unique": lambda v: list(dict.fromkeys(v)),
    "pairs": lambda v: [abs(a - b) for a, b in itertools.pairwise(v)],
    "swap": lambda v: [*v[len(v) // 2 :], *v[: len(v) // 2]],
}


def _pipeline(name: str, wanted: Sequence[str]) -> Task:
    """A pipeline of list functions by example: a case is right or wrong."""
    rng = random.Random(name)
    inputs = [[rng.randint(0, 9) for _ in range(rng.randint(2, 8))] for _ in range(14)]

    def run(steps: Sequence[str], values: list[int]) -> list[int]:
        for step in steps:
            values = _STEPS[step](values)
        return values

    outputs = [run(wanted, values) for values in inputs]

    def score(steps: Genome) -> tuple[float, ...]:
        found = []
        for values, output in zip(inputs, outputs, strict=True):
            got = run(steps, values)
            same = sum(a == b for a, b in zip(got, output, strict=False))
            found.append(1.0 if got == output else 0.5 * same / max(1, len(got), len(output)))
        return tuple(found)

    return Task(name, **_sequence(tuple(_STEPS), 10), score=score, components=14)


# Deceptive ones.


def _two_peaks() -> Task:
    def score(x: Genome) -> tuple[float, ...]:
        value = 1 - 0.05 * abs(x - 5) if x < 13 else 5 - 0.33 * abs(x - 15)
        return (max(0.0, min(1.0, (value + 5) / 10)),)

    return Task(
        *("two-peaks", lambda rng: round(rng.uniform(0.0, 6.0), 3)),
        mutate=lambda x, rng: round(x + rng.uniform(-2, 5), 3),
        combine=lambda one, other, rng: round((one + other) / 2, 3),
        **{"score": score, "components": 1, "features": ("x",), "describe": lambda x: (x,), "start": 0.0},
    )


def _bits(size: int) -> dict[str, Any]:
    def mutate(genome: Genome, rng: random.Random) -> Genome:
        flipped = set(rng.sample(range(size), rng.choice((1, 1, 2, 3))))
        return tuple(1 - bit if place in flipped else bit for place, bit in enumerate(genome))

    def combine(one: Genome, other: Genome, rng: random.Random) -> Genome:
        first, last = sorted(rng.sample(range(size + 1), 2))
        return one[:first] + other[first:last] + one[last:]

    def fresh(rng: random.Random) -> Genome:
        return tuple(rng.choice((0, 1)) for _ in range(size))

    return {"fresh": fresh, "mutate": mutate, "combine": combine}


def _traps() -> Task:
    """Eight blocks of four bits: all ones are best, else the fewer the better (Deb and Goldberg 1993)."""

    def score(bits: Genome) -> tuple[float, ...]:
        ones = [sum(bits[start : start + 4]) for start in range(0, 32, 4)]
        return tuple(1.0 if count == 4 else (3 - count) / 4 for count in ones)

    return Task("traps", **_bits(32), score=score, components=8)


_WALLS = ("..........", ".########.", ".........#", "########.#", "..........")


def _maze() -> Task:
    """Moves through a maze where the straight way to the goal is a dead end; its axes are where they end."""

    def end(moves: Genome) -> tuple[int, int]:
        x, y = 4, 4
        for move in moves:
            u, v = x + {"e": 1, "w": -1}.get(move, 0), y + {"s": 1, "n": -1}.get(move, 0)
            if 0 <= v < 5 and 0 <= u < 10 and _WALLS[v][u] == ".":
                x, y = u, v
        return x, y

    def score(moves: Genome) -> tuple[float, ...]:
        x, y = end(moves)
        return (1.0 - (abs(x - 4) + abs(y)) / 20,)

    parts = _sequence(tuple("nsew"), 40)
    return Task(
        "maze",
        **parts,
        **{"score": score, "components": 1, "features": ("x", "y"), "describe": end, "start": ("n", "n")},
    )


def _knapsack() -> Task:
    """Thirty items, four limits: the share of the worth, nothing for each limit that is broken."""
    rng = random.Random("knapsack")
    worth = [rng.randint(5, 30) for _ in range(30)]
    weights = [[rng.randint(1, 20) for _ in range(30)] for _ in range(4)]

    def score(bits: Genome) -> tuple[float, ...]:
        total = sum(w for w, bit in zip(worth, bits, strict=True) if bit) / sum(worth)
        loads = [
            sum(w for w, bit in zip(row, bits, strict=True) if bit) / (0.45 * sum(row)) for row in weights
        ]
        over = sum(max(0.0, load - 1.0) for load in loads)
        return (max(0.0, total * 1.3 - 3 * over) if over else min(1.0, total * 1.3),)

    return Task("knapsack", **_bits(30), score=score, components=1)


def _pieces(x: float, y: float) -> float:
    return x * x - 1 if x > 0 else (2 - y if y > 0 else x * y)


_IF = {"if": 3, "and": 2, "or": 2, "not": 1}
CHOOSING = (
    _wave(),
    _regression("curve", lambda x, y: x * x * math.sin(2 * x) + x - 0.5, False, _ARITHMETIC, 0.5),
    _boolean("multiplexer", ("a", "b", "c", "d", "e", "f"), lambda a, b, *d: d[2 * a + b], _IF),
    _rules(),
    _tour(),
    _knapsack(),
    _pipeline("steps", ("unique", "sort", "double", "tail")),
    _two_peaks(),
)
REPORTING = (
    _ratio(),
    _circles(),
    _regression("surface", lambda x, y: x * y + y * y * y - 2 * x, True, _ARITHMETIC, 0.5),
    _regression("pieces", _pieces, True, {**_ARITHMETIC, "if": 3}, 0.5),
    _boolean("parity", ("a", "b", "c", "d"), lambda a, b, c, d: a ^ b ^ c ^ d, {"and": 2, "or": 2, "not": 1}),
    _boolean("compare", ("a", "b", "c", "d", "e", "f"), lambda a, b, c, d, e, f: (a, b, c) > (d, e, f), _IF),
    _flow_shop(),
    _pipeline("cases", ("even", "sums", "next", "reverse", "head")),
    _traps(),
    _maze(),
)
TASKS = {task.name: task for task in (*CHOOSING, *REPORTING)}
