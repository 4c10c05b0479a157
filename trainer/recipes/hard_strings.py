"""The suite `strings-hard`: held-out string tasks on which the start model solves nothing in 30 samples.

    python -m trainer.recipes.hard_strings --out problems/strings-hard --seed 0

Candidates are tasks drawn here from the grammar and the columns of the pretraining tasks, but from random
numbers of their own (training, validation and test tasks of `trainer/domains/strings/domain.py` and the
probe's start from other texts), each with a branch that its rows need and with held-out rows; and
hand-written problems of the suite `strings`, in a random order. The model answers each of them 30 times one
answer a completion, and 30 times in chains of three. A task is kept if no answer of either kind is right on
all training rows, until there are as many as wanted. Every task can be solved: the program that made the rows
of a drawn one lies beside them in `provenance.json`, and of the hand-written problems only those count that
have one in `trainer/recipes/hard_references.py`; nothing that searches or trains reads either. Hand-written
problems stay where they are: the suite file names them.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, NamedTuple

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.strings.grammar import Tree, has_branch, render, size, spell
from evovpo.builtin.strings.sampler import Sampler
from evovpo.cli.options import option
from evovpo.errors import ConfigError
from evovpo.problem.folder import load_problem
from evovpo.problem.importers.writing import check_empty, suite_text
from evovpo.problem.suites import load_suite
from evovpo.types import Example, Json, Problem, content_id
from trainer.domains.strings.columns import Cell, column
from trainer.domains.strings.tasks import MAX_OUTPUT, is_interesting, run_own, shortest
from trainer.loop.probe import probe
from trainer.recipes import Seed, run_recipe, write_drawn
from trainer.recipes.hard_references import REFERENCES

SAMPLES = 30
"""Answers to each task in each of `CHAINS`; a task is hard if none of them is right."""
CHAINS = (1, 3)
"""Answers a completion."""
_LONGEST_CELL, _LONGEST_PROGRAM = 60, 120
_PARAMETERS = ("text", "other", "third", "fourth")


class Shape(NamedTuple):
    """What a drawn task has."""

    train: int
    """Rows, as `heldout`."""
    heldout: int
    least: tuple[int, int]
    """Training and held-out rows that take each side of the branch, at least."""
    operations: int
    """Fewest of the program, of which each side has at least one: a search soon finds smaller ones."""
    longest: int = _LONGEST_CELL
    """Characters of a cell, at most."""


HARD = Shape(train=6, heldout=10, least=(2, 1), operations=6)


class Drawn(NamedTuple):
    """A drawn task: what it follows from, its rows, and the expression that made their outputs."""

    seed: int
    number: int
    train: tuple[Example, ...]
    heldout: tuple[Example, ...]
    text: str


class Selection(NamedTuple):
    """What was chosen, and out of how many."""

    drawn: list[Path]
    hand_written: list[Path]
    asked_drawn: int
    asked_hand_written: int
    best: dict[str, float]
    """By name of a kept task: the largest share of training rows that one of the answers was right on."""


def draw(seed: int, number: int) -> Drawn:
    """Return task `number` of a seed: each side of its branch is taken in training and held-out rows.

    Neither side alone is right on all training rows, because the program is in its shortest form on them.
    """
    rng = Random(f"hard strings:{seed}:{number}")
    while True:
        arguments = rng.choices((1, 2, 3), (70, 24, 6))[0]
        cells = [column(rng) for _ in range(arguments)]
        rows = draw_rows(cells, HARD)
        if rows is None:
            continue
        sampler = Sampler(rng, rows[: HARD.train])
        for _ in range(8):
            found = with_branch(sampler.program(), rows, HARD, rng)
            if found is not None:
                return drawn_task(seed, number, rows, found, HARD)


def draw_rows(cells: Sequence[Cell], shape: Shape) -> list[tuple[str, ...]] | None:
    """Return training and held-out rows of columns; None where two are the same or a cell is long."""
    rows = [tuple(cell() for cell in cells) for _ in range(shape.train + shape.heldout)]
    is_long = max(len(text) for row in rows for text in row) > shape.longest
    return None if is_long or len(set(rows)) < len(rows) else rows


def with_branch(
    tree: Tree, rows: Sequence[tuple[str, ...]], shape: Shape, rng: Random
) -> tuple[Tree, list[str]] | None:
    """Return a program in its shortest form with its outputs; None if these rows do not need its branch."""
    train = rows[: shape.train]
    if not has_branch(tree) or not is_interesting(train, run_own(spell(tree), train), rng):
        return None
    tree = shortest(tree, train, run_own(spell(tree), train))
    text = render(tree)
    outputs = [one for one in run_own(text, rows) if one is not None and len(one) <= MAX_OUTPUT]
    if tree[0] != "if" or size(tree) < shape.operations or 0 in (size(tree[1]), size(tree[3])):
        return None
    if len(text) > _LONGEST_PROGRAM or len(outputs) < len(rows):
        return None
    # Rows that the test holds for: it is shown by a program that says so.
    sides = run_own(spell(("if", ("lit", "a"), tree[2], ("lit", "b"))), rows)
    for part, least in zip((sides[: shape.train], sides[shape.train :]), shape.least, strict=True):
        if not least <= part.count("a") <= len(part) - least:
            return None
    return (tree, outputs) if len(set(outputs[: shape.train])) > shape.train // 2 else None


def drawn_task(
    seed: int, number: int, rows: Sequence[tuple[str, ...]], found: tuple[Tree, list[str]], shape: Shape
) -> Drawn:
    """Return the task of these rows and what `with_branch` found."""
    tree, outputs = found
    examples = tuple(Example(row, output) for row, output in zip(rows, outputs, strict=True))
    return Drawn(seed, number, examples[: shape.train], examples[shape.train :], render(tree))


def write_task(folder: Path, drawn: Drawn, name: str = "") -> Path:
    """Write a drawn task as a problem folder below `folder`, with where it came from, and return it."""
    parameters = _PARAMETERS[: len(drawn.train[0].inputs)]
    what = "the text" if len(parameters) == 1 else f"the {len(parameters)} texts"
    written = folder / (name or f"drawn-{drawn.number:03d}")
    write_drawn(
        written,
        statement=f"Turn {what} into what the examples show",
        parameters=parameters,
        start=parameters[0],
        train=[(row.inputs, row.output) for row in drawn.train],
        heldout=[(row.inputs, row.output) for row in drawn.heldout],
        made_by="tests/bench/string_families.py" if name else "trainer.recipes.hard_strings",
        seed=drawn.seed,
        number=drawn.number,
        program=drawn.text,
    )
    return written


def select(
    work: Path,
    hand_written: Sequence[Path],
    *,
    drawn: int,
    by_hand: int,
    seed: int,
    most_drawn: int = 2000,
    on_task: Callable[[str, bool], None] = lambda name, is_hard: None,
) -> Selection:
    """Return the first `drawn` drawn tasks that are hard, and `by_hand` of the hand-written ones.

    Drawn tasks are written below `work`. Follows from the arguments and the model, up to answers that time
    out. Raises `ConfigError` if there are not that many hard ones among `most_drawn` and `hand_written`.
    """
    best: dict[str, float] = {}

    def first_hard(folders: Iterator[Path], wanted: int) -> tuple[list[Path], int]:
        kept: list[Path] = []
        asked = 0
        while len(kept) < wanted and (folder := next(folders, None)):
            asked += 1
            share = best_share(load_problem(folder), seed)
            on_task(folder.name, share < 1)
            if share < 1:
                best[folder.name] = share
                kept.append(folder)
        return kept, asked

    tasks = (write_task(work, draw(seed, number)) for number in range(most_drawn))
    kept, asked = first_hard(tasks, drawn)
    order = Random(f"hard strings:{seed}:hand-written").sample(list(hand_written), len(hand_written))
    kept_by_hand, asked_by_hand = first_hard(iter(order), by_hand)
    if len(kept) < drawn or len(kept_by_hand) < by_hand:
        raise ConfigError(
            f"{drawn} hard drawn tasks and {by_hand} hand-written ones were wanted, but of {asked} and"
            f" {asked_by_hand} only {len(kept)} and {len(kept_by_hand)} are hard; want fewer"
        )
    return Selection(kept, sorted(kept_by_hand), asked, asked_by_hand, best)


def best_share(problem: Problem, seed: int) -> float:
    """Return the largest share of training rows that one of the start model's answers is right on.

    It is 1 only for an answer that is right on all of them.
    """
    return max(
        float(found.values_C_m.max())
        for answers in CHAINS
        for found in probe(BUILT_IN_MODEL, [problem], answers=answers, k_max=SAMPLES, seed=seed).measures
    )


def write_suite(out: Path, chosen: Selection, seed: int) -> None:
    """Write problem folders, `suite.toml` and `selection.json` into a folder."""
    for folder in chosen.drawn:
        shutil.copytree(folder, out / folder.name)
    paths = [folder.name for folder in chosen.drawn]
    paths += [Path(os.path.relpath(folder, out.resolve())).as_posix() for folder in chosen.hand_written]
    what = "Held-out string tasks that the start model solved none of 30 times, drawn and hand-written."
    (out / "suite.toml").write_text(
        "# Made by python -m trainer.recipes.hard_strings; selection.json says how.\n\n"
        + suite_text("strings-hard", what, paths),
        encoding="utf-8",
    )
    summary: dict[str, Json] = {
        "seed": seed,
        "samples": SAMPLES,
        "chains": list(CHAINS),
        "model": model_digest(),
        "drawn": {"asked": chosen.asked_drawn, "kept": len(chosen.drawn)},
        "hand_written": {"asked": chosen.asked_hand_written, "kept": len(chosen.hand_written)},
        "best_share_of_rows": {name: round(share, 4) for name, share in sorted(chosen.best.items())},
    }
    (out / "selection.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def model_digest() -> str:
    """Return an id of the start model's weights."""
    return content_id((BUILT_IN_MODEL / "model.safetensors").read_bytes().hex())


def make_suite(
    out: Annotated[Path, option("FOLDER", "New or empty folder for the suite.")],
    seed: Seed = 0,
    drawn: Annotated[int, option("N", "Hard drawn tasks to keep.")] = 24,
    hand_written: Annotated[int, option("N", "Hard hand-written ones to keep.")] = 16,
) -> None:
    """Select the suite `strings-hard`, on whose tasks the start model solves nothing, and write it."""
    import torch

    torch.set_num_threads(1)
    check_empty(out)
    entries = load_suite("strings") if hand_written else []
    with tempfile.TemporaryDirectory() as work:
        chosen = select(
            Path(work),
            [entry.path for entry in entries if entry.path.name in REFERENCES],
            drawn=drawn,
            by_hand=hand_written,
            seed=seed,
            on_task=lambda name, hard: print(f"{name}: {'hard' if hard else 'solved'}", file=sys.stderr),
        )
        out.mkdir(parents=True, exist_ok=True)
        write_suite(out, chosen, seed)
    print(
        f"{len(chosen.drawn)} of {chosen.asked_drawn} drawn tasks and {len(chosen.hand_written)} of "
        f"{chosen.asked_hand_written} hand-written ones are hard: {out / 'suite.toml'}"
    )


if __name__ == "__main__":
    run_recipe(make_suite)
