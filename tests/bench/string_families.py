"""The suite `strings-family`: families of string tasks that searches of the start model solve now and then.

    python tests/bench/family_pilot.py pilot.jsonl --seed 0
    python tests/bench/family_pilot.py pilot.jsonl --seed 0 --siblings 12
    python tests/bench/string_families.py --out problems/strings-family --pilot pilot.jsonl --seed 0

A family is a column (or two) of text and a program that branches, drawn as `trainer/recipes/hard_strings.py`
draws its tasks but from random numbers of its own. Its siblings have rows of their own and the same test;
their sides are those of the family's program or small changes of them. The pilot searches each sibling, and
one is kept if one to nine of ten searches found a program that is right on training and held-out rows; of
families of which half was kept, the second command draws further siblings. All
rows of the pilot, also of what was not kept, lie in `pilot.jsonl`. Whole families are held out, every third.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated

from evovpo.builtin.strings.grammar import Tree
from evovpo.builtin.strings.mutation import mutate
from evovpo.builtin.strings.sampler import Sampler
from evovpo.cli.options import option
from evovpo.problem.importers.writing import check_empty
from trainer.domains.strings.columns import column
from trainer.domains.strings.tasks import run_own
from trainer.recipes import Seed, run_recipe
from trainer.recipes.hard_strings import Drawn, Shape, draw_rows, drawn_task, with_branch, write_task

SHAPE = Shape(train=12, heldout=20, least=(4, 4), operations=3, longest=24)
SIBLINGS = 6
"""Drawn of a family."""
SEARCHES = 10
"""Of the pilot, for a task that is kept."""
HELD_OUT_EVERY = 3
"""Of the families: the third, the sixth, …"""


def draw_family(seed: int, number: int, most: int = SIBLINGS) -> list[Drawn]:
    """Return the siblings of family `number` of a seed, from `SIBLINGS` to `most` of them.

    No program of one is right on the training rows of another. More siblings begin with the same ones.
    """
    rng = Random(f"string families:{seed}:{number}")
    while True:
        cells = [column(rng) for _ in range(rng.choices((1, 2), (80, 20))[0])]
        rows = draw_rows(cells, SHAPE)
        if rows is None:
            continue
        sampler = Sampler(rng, rows[: SHAPE.train])
        drawn = (with_branch(sampler.program(), rows, SHAPE, rng) for _ in range(8))
        first = next((found for found in drawn if found is not None), None)
        if first is None:
            continue
        siblings = [drawn_task(seed, number, rows, first, SHAPE)]
        for tried in range(8 * most):
            if len(siblings) < SIBLINGS and tried >= 8 * SIBLINGS:
                break
            rows = draw_rows(cells, SHAPE)
            found = rows and with_branch(_sibling(rng, first[0], rows), rows, SHAPE, rng)
            if rows and found:
                new = drawn_task(seed, number, rows, found, SHAPE)
                if not any(_solves(new, other) or _solves(other, new) for other in siblings):
                    siblings.append(new)
            if len(siblings) == most:
                break
        if len(siblings) >= SIBLINGS:
            return siblings


def _sibling(rng: Random, tree: Tree, rows: Sequence[tuple[str, ...]]) -> Tree:
    """Return the program with one side or both changed; the test stays."""
    sampler = Sampler(rng, rows[: SHAPE.train])
    then, test, other = tree[1:]
    which = rng.choice(("then", "other", "both"))
    if which != "other":
        then = mutate(sampler, then)
    if which != "then":
        other = mutate(sampler, other)
    return ("if", then, test, other)


def _solves(one: Drawn, other: Drawn) -> bool:
    rows = [[str(text) for text in row.inputs] for row in other.train]
    return run_own(one.text, rows) == [row.output for row in other.train]


def named(seed: int, numbers: Iterable[int], most: int = SIBLINGS) -> Iterator[tuple[str, Drawn]]:
    """Yield the tasks of families, each with its name: that of its family, and its place there."""
    for number in numbers:
        for place, drawn in enumerate(draw_family(seed, number, most)):
            yield f"f{number:03d}-{place}", drawn


def solved_searches(row: dict[str, list[list[int]]]) -> int:
    """Return how many searches of a row of the pilot ended right on held-out rows too."""
    return sum(bool(search[3]) for search in row["searches"])


def is_kept(row: dict[str, list[list[int]]]) -> bool:
    """True for a row of the pilot with all searches, of which some and not all found a right program."""
    return len(row["searches"]) == SEARCHES and 0 < solved_searches(row) < SEARCHES


def fertile(rows: Mapping[str, dict[str, list[list[int]]]]) -> list[int]:
    """Return the families of which a pilot kept at least half of the first `SIBLINGS`, in order."""
    first = [_place(name) for name, row in rows.items() if is_kept(row)]
    counts = Counter(number for number, place in first if place < SIBLINGS)
    return sorted(number for number, count in counts.items() if 2 * count >= SIBLINGS)


def _place(name: str) -> tuple[int, int]:
    """Return the numbers of a task's family and of its place there."""
    return int(name[1:4]), int(name[5:])


def make_suite(
    out: Annotated[Path, option("FOLDER", "New or empty folder for the suite.")],
    pilot: Annotated[Path, option("FILE", "Rows of tests/bench/family_pilot.py.")],
    seed: Seed = 0,
) -> None:
    """Write the tasks that a pilot found neither hopeless nor easy."""
    check_empty(out)
    lines = pilot.read_text(encoding="utf-8").splitlines()
    rows = {row["task"]: row for row in sorted(map(json.loads, lines), key=lambda row: str(row["task"]))}
    families = list(dict.fromkeys(int(name[1:4]) for name, row in rows.items() if is_kept(row)))
    suite = [
        "# Made by python tests/bench/string_families.py; pilot.jsonl has what the searches found.\n",
        '[suite]\nname = "strings-family"',
        f'description = "String tasks in {len(families)} families; 1 to 9 of 10 pilot searches solved each."',
    ]
    out.mkdir(parents=True, exist_ok=True)
    kept = 0
    most = {int(name[1:4]): max(SIBLINGS, 1 + int(name[5:])) for name in sorted(rows, key=_place)}
    for name, drawn in (one for number in families for one in named(seed, [number], most[number])):
        if name in rows and is_kept(rows[name]):
            kept += 1
            write_task(out, drawn, name)
            unsolved = 1 - solved_searches(rows[name]) / SEARCHES
            suite.append(
                f'\n[[problems]]\npath = "{name}"\nfamily = "{name[:4]}"\ndifficulty = {unsolved:.1f}'
            )
            suite += ["heldout = true"] * (drawn.number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1)
    (out / "suite.toml").write_text("\n".join(suite) + "\n", encoding="utf-8")
    text = "".join(json.dumps(row) + "\n" for row in rows.values())
    (out / "pilot.jsonl").write_text(text, encoding="utf-8")
    print(f"{kept} of {len(rows)} tasks are kept, of {len(families)} families: {out / 'suite.toml'}")


if __name__ == "__main__":
    run_recipe(make_suite)
