"""The suite `lists`: functions of a list of whole numbers whose examples conflict, from a grammar of our own.

    python -m trainer.recipes.list_tasks --out problems/lists --count 36 --seed 0

A task is a hidden Python expression `A if test else B` over `xs` and mostly a number `n`, its value on random
inputs, and nothing else: both sides and every operation below them matter on the training rows, both sides
occur in the held-out ones, and no straight program of `_STRAIGHT` random ones is right on all training rows.
The built-in model writes programs over texts only and the random baseline draws from its grammar, so these
problems are for instruction models behind a server. The expression lies in `provenance.json` in the folder.
"""

import builtins
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple, TypeAlias

from evovpo.cli.options import option
from evovpo.errors import ConfigError
from evovpo.problem.importers.writing import check_empty, suite_text
from trainer.recipes import Seed, run_recipe, write_drawn

TRAIN_ROWS, HELDOUT_ROWS = 10, 20
_STRAIGHT = 300
_LARGEST = 10**6
"""Of a number in an output."""
_LONGEST_LIST = 16
_MOST_TRIES = 5_000
_FUNCTIONS = {
    name: getattr(builtins, name)
    for name in ("abs", "all", "any", "len", "max", "min", "range", "reversed", "set", "sorted", "sum", "zip")
}


class Tree(NamedTuple):
    """A node of a program: Python with a place for each child; types are in `GRAMMAR`."""

    template: str
    children: tuple["Tree", ...]


GRAMMAR: dict[str, tuple[tuple[float, str, str], ...]] = {
    # (weight, template, types of the children): L list of numbers, I number, B truth, C small constant,
    # P a test of one element v, E a number made from one element v.
    "L": (
        (5.0, "xs", ""),
        (2.0, "sorted({})", "L"),
        (2.0, "{}[::-1]", "L"),
        (1.5, "{}[1:]", "L"),
        (1.5, "{}[:-1]", "L"),
        (1.5, "{}[::2]", "L"),
        (1.5, "{}[:{}]", "LC"),
        (3.0, "[{1} for v in {0}]", "LE"),
        (3.0, "[v for v in {} if {}]", "LP"),
        (1.0, "sorted(set({}))", "L"),
        (1.0, "({} + {})", "LL"),
        (1.5, "[b - a for a, b in zip({0}, {0}[1:])]", "L"),
        (1.0, "[sum({0}[:i + 1]) for i in range(len({0}))]", "L"),
        (0.8, "[max({0}[:i + 1]) for i in range(len({0}))]", "L"),
    ),
    "I": (
        (2.0, "len({})", "L"),
        (3.0, "sum({})", "L"),
        (2.0, "max({}, default=0)", "L"),
        (2.0, "min({}, default=0)", "L"),
        (1.5, "({} or [0])[0]", "L"),
        (1.5, "({} or [0])[-1]", "L"),
        (1.0, "len(set({}))", "L"),
        (1.5, "({} + {})", "II"),
        (1.5, "({} - {})", "II"),
        (1.0, "({} * {})", "IC"),
        (1.0, "({} % {})", "IC"),
        (1.0, "({} // {})", "IC"),
        (0.7, "abs({})", "I"),
        (0.7, "max({}, {})", "II"),
        (0.7, "{}.count({})", "LI"),
        (1.5, "n", ""),
        (1.0, "{}", "C"),
    ),
    "B": (
        (2.0, "{} > {}", "IC"),
        (2.0, "{} < {}", "IC"),
        (2.0, "{} > {}", "II"),
        (2.0, "{} % 2 == 0", "I"),
        (1.5, "{} in {}", "IL"),
        (1.0, "xs == sorted(xs)", ""),
        (1.0, "len(set(xs)) == len(xs)", ""),
        (1.0, "any({1} for v in {0})", "LP"),
        (1.0, "all({1} for v in {0})", "LP"),
    ),
    "P": (
        (2.0, "v > {}", "C"),
        (2.0, "v < {}", "C"),
        (2.0, "v % 2 == 0", ""),
        (1.0, "v % 2 == 1", ""),
        (1.0, "v % 3 == 0", ""),
        (2.0, "v > n", ""),
        (1.0, "v != n", ""),
        (1.0, "v > 0", ""),
        (1.0, "{0}.count(v) > 1", "L"),
    ),
    "E": (
        (2.0, "v * {}", "C"),
        (2.0, "v + {}", "C"),
        (1.0, "abs(v)", ""),
        (1.0, "v * v", ""),
        (2.0, "v + n", ""),
        (1.0, "n - v", ""),
        (1.0, "v % {}", "C"),
        (1.0, "max(v, {})", "C"),
    ),
    "C": tuple((1.0, str(number), "") for number in (1, 2, 2, 3, 3, 4, 5, 7, 10)),
}
Value: TypeAlias = "int | list[int] | None"
"""What a program returns; none where it fails or is too large."""


class Row(NamedTuple):
    """Arguments of a call."""

    xs: tuple[int, ...]
    n: int | None
    """None where the task has no such parameter."""

    @property
    def inputs(self) -> list[Any]:
        """The arguments in the order of the parameters."""
        return [list(self.xs)] if self.n is None else [list(self.xs), self.n]


class ListTask(NamedTuple):
    """A task: N rows, what the program returns for them, the program, and whether it returns a list."""

    rows: tuple[Row, ...]
    outputs: tuple[Value, ...]
    text: str
    is_list: bool


def grow(rng: Random, kind: str, depth: int) -> Tree:
    """Return a random tree of a type; at depth 0 without children, where the type has such."""
    choices = GRAMMAR[kind]
    if depth <= 0:
        choices = tuple(choice for choice in choices if not choice[2] or choice[2] == "C") or choices
    _, template, children = rng.choices(choices, [choice[0] for choice in choices])[0]
    return Tree(template, tuple(grow(rng, child, depth - 1) for child in children))


def render(tree: Tree) -> str:
    """Return a tree as Python."""
    return tree.template.format(*map(render, tree.children)) if tree.children else tree.template


def run(text: str, rows: Sequence[Row]) -> list[Value]:
    """Return what an expression of this grammar gives for each row.

    The text comes from our own grammar and is run in this process; programs that a model wrote never are.
    """
    function = eval(f"lambda xs, n: {text}", {"__builtins__": _FUNCTIONS})
    found: list[Value] = []
    for row in rows:
        try:
            found.append(_kept(function(list(row.xs), row.n)))
        except (ArithmeticError, TypeError):  # n is missing, or a division by zero
            found.append(None)
    return found


def _kept(value: Any) -> Value:
    numbers = value if isinstance(value, list) else [value]
    is_small = all(type(number) is int and abs(number) <= _LARGEST for number in numbers)
    return value if is_small and len(numbers) <= _LONGEST_LIST else None


def sample_row(rng: Random, has_number: bool) -> Row:
    """Return random arguments: lists of up to eight numbers, some sorted, some with repeats."""
    low, high = rng.choice(((0, 9), (-9, 9), (-20, 50), (1, 4)))
    xs = [rng.randint(low, high) for _ in range(rng.choice((0, 1, 2, 3, 4, 4, 5, 5, 6, 7, 8)))]
    if rng.random() < 0.2:
        xs.sort()
    return Row(tuple(xs), rng.randint(-3, 9) if has_number else None)


def draw(seed: int, number: int) -> ListTask:
    """Return task `number` of a seed; raises `ConfigError` if the grammar gives none in many tries."""
    rng = Random(f"lists:{seed}:{number}")
    for _ in range(_MOST_TRIES):
        has_number = rng.random() < 0.7
        is_list = rng.random() < 0.5
        rows: dict[Row, None] = {}
        while len(rows) < TRAIN_ROWS + HELDOUT_ROWS:
            rows[sample_row(rng, has_number)] = None
        task = _task(rng, tuple(rows), is_list)
        if task is not None:
            return task
    raise ConfigError(f"no task number {number} of seed {seed} in {_MOST_TRIES} tries; use another seed")


def _task(rng: Random, rows: tuple[Row, ...], is_list: bool) -> ListTask | None:
    """Return a task with a branch on these rows, or none if the drawn program does not fit."""
    kind = "L" if is_list else "I"
    then, test, other = grow(rng, kind, 2), grow(rng, "B", 2), grow(rng, kind, 2)
    if not all(map(_is_sensible, (then, test, other))) or _operations(then) + _operations(other) < 2:
        return None
    text = f"{render(then)} if {render(test)} else {render(other)}"
    if len(text) > 110 or bool(re.search(r"\bn\b", text)) != (rows[0].n is not None):
        return None
    outputs, sides = run(text, rows), run(f"1 if {render(test)} else 0", rows)
    train = rows[:TRAIN_ROWS]
    if None in outputs or None in sides:
        return None
    if not 3 <= sides[:TRAIN_ROWS].count(1) <= TRAIN_ROWS - 3:
        return None
    if not 4 <= sides[TRAIN_ROWS:].count(1) <= HELDOUT_ROWS - 4:
        return None
    wanted = outputs[:TRAIN_ROWS]
    if len({json.dumps(output) for output in wanted}) < TRAIN_ROWS * 0.7:
        return None
    if any(run(text, train) == wanted for text in _simpler(then, test, other)):
        return None
    if any(run(render(grow(rng, kind, 3)), train) == wanted for _ in range(_STRAIGHT)):
        return None
    return ListTask(rows, tuple(outputs), text, is_list)


def _is_sensible(tree: Tree) -> bool:
    """True unless an operation has nothing but constants, or twice the same, to work on."""
    texts = [render(child) for child in tree.children]
    computes = bool(texts) and _kind(tree) == "I" and not (len(texts) == 1 and texts[0].isdigit())
    if computes and all(text.replace("v", "").isdigit() for text in texts):
        return False
    return (len(texts) < 2 or texts[0] != texts[1]) and all(map(_is_sensible, tree.children))


def _operations(tree: Tree) -> int:
    """Return how many nodes of a tree have children."""
    return bool(tree.children) + sum(map(_operations, tree.children))


def _simpler(then: Tree, test: Tree, other: Tree) -> Iterator[str]:
    """Yield the program without its branch, and with one operation replaced by one of its own children."""
    yield render(then)
    yield render(other)
    for tree in _shorter(then):
        yield f"{render(tree)} if {render(test)} else {render(other)}"
    for tree in _shorter(other):
        yield f"{render(then)} if {render(test)} else {render(tree)}"


def _shorter(tree: Tree) -> Iterator[Tree]:
    kind = _kind(tree)
    for index, child in enumerate(tree.children):
        if _kind(child) == kind:
            yield child
        for shorter in _shorter(child):
            children = (*tree.children[:index], shorter, *tree.children[index + 1 :])
            yield Tree(tree.template, children)


def _kind(tree: Tree) -> str:
    """Return the type of a tree; templates that two types share make numbers."""
    return next(kind for kind in "LIBPEC" if any(tree.template == choice[1] for choice in GRAMMAR[kind]))


def write_task(folder: Path, task: ListTask, seed: int, number: int) -> None:
    """Write a task as a problem folder, with where it came from."""
    has_number = task.rows[0].n is not None
    what = "a list of whole numbers" if task.is_list else "a whole number"
    given = "a list xs of whole numbers" + (" and a whole number n" if has_number else "")
    rows = [(row.inputs, output) for row, output in zip(task.rows, task.outputs, strict=True)]
    write_drawn(
        folder,
        statement=f"From {given}, return {what} as the examples show",
        parameters=["xs", "n"] if has_number else ["xs"],
        start="list(xs)" if task.is_list else "sum(xs)",
        train=rows[:TRAIN_ROWS],
        heldout=rows[TRAIN_ROWS:],
        made_by="trainer.recipes.list_tasks",
        seed=seed,
        number=number,
        program=task.text,
    )


def write_suite(
    out: Annotated[Path, option("FOLDER", "New or empty folder for the suite.")],
    count: Annotated[int, option("N", "Problems.")] = 36,
    seed: Seed = 0,
) -> None:
    """Write the suite `lists`: tasks of a seed, and `suite.toml`."""
    check_empty(out)
    names = [f"list-{number + 1:02d}" for number in range(count)]
    for number, name in enumerate(names):
        write_task(out / name, draw(seed, number), seed, number)
    what = "Functions of lists of whole numbers from examples that conflict, generated."
    head = f"# Made by python -m trainer.recipes.list_tasks --count {count} --seed {seed}\n\n"
    (out / "suite.toml").write_text(head + suite_text("lists", what, names), encoding="utf-8")
    print(f"{count} problems: {out / 'suite.toml'}")


if __name__ == "__main__":
    run_recipe(write_suite)
