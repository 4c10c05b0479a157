"""The suite `strings-hard`: held-out string tasks on which the start model solves nothing in 30 samples.

    python -m trainer.recipes.hard_strings --out problems/strings-hard --seed 0

Candidates are tasks drawn here from the grammar and the columns of the pretraining tasks, but from random
numbers of their own (training, validation and test tasks of `trainer/domains/strings/domain.py` and the
probe's start
from other texts), each with a branch that its rows need and with held-out rows; and hand-written problems of
the suite `strings`, in a random order. The model answers each of them 30 times one answer a completion, and
30 times in chains of three. A task is kept if no answer of either kind is right on all training rows, until
there are as many as wanted. Every task can be solved: the program that made the rows of a drawn one lies
beside them in `provenance.json`, and of the hand-written problems only those count that have one in
`trainer/recipes/hard_references.py`; nothing that searches or trains reads either. Hand-written problems stay
where they are: the suite file names them.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.strings.grammar import has_branch, render, size
from evovpo.builtin.strings.sampler import Sampler
from evovpo.errors import ConfigError, EvovpoError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite
from evovpo.types import Example, Json, Problem, content_id
from trainer.domains.strings.columns import column
from trainer.domains.strings.tasks import MAX_OUTPUT, is_interesting, run_own, shortest
from trainer.loop.probe import probe
from trainer.recipes.hard_references import REFERENCES
from trainer.recipes.suite_files import check_new, write_problem, write_suite_file

SAMPLES = 30
"""Answers to each task in each of `CHAINS`; a task is hard if none of them is right."""
CHAINS = (1, 3)
"""Answers a completion."""
TRAIN_ROWS, HELDOUT_ROWS = 6, 10
_LONGEST_CELL, _LONGEST_PROGRAM = 60, 120
_FEWEST_OPERATIONS = 6
"""Of a drawn program, of which each side of the branch has at least one: a search soon finds smaller ones."""
_PARAMETERS = ("text", "other", "third", "fourth")


class Drawn(NamedTuple):
    """A drawn task: its rows, and the expression that made their outputs."""

    number: int
    train: tuple[Example, ...]
    heldout: tuple[Example, ...]
    text: str


class Selection(NamedTuple):
    """What was chosen, and out of how many."""

    drawn: tuple[Drawn, ...]
    hand_written: tuple[Path, ...]
    asked_drawn: int
    """Drawn tasks that the model was asked."""
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
        rows = [tuple(cell() for cell in cells) for _ in range(TRAIN_ROWS + HELDOUT_ROWS)]
        if len(set(rows)) < len(rows) or max(len(text) for row in rows for text in row) > _LONGEST_CELL:
            continue
        found = _with_program(rng, rows)
        if found is not None:
            examples = tuple(Example(row, output) for row, output in zip(rows, found.outputs, strict=True))
            return Drawn(number, examples[:TRAIN_ROWS], examples[TRAIN_ROWS:], found.text)


class _Made(NamedTuple):
    text: str
    outputs: list[str]


def _with_program(rng: Random, rows: Sequence[tuple[str, ...]]) -> _Made | None:
    """Return a program that needs its branch on these rows, or none after some draws."""
    train = rows[:TRAIN_ROWS]
    sampler = Sampler(rng, train)
    for _ in range(8):
        tree = sampler.program()
        if not has_branch(tree) or not is_interesting(train, run_own(render(tree), train), rng):
            continue
        tree = shortest(tree, train, run_own(render(tree), train))
        text = render(tree)
        outputs = [
            output for output in run_own(text, rows) if output is not None and len(output) <= MAX_OUTPUT
        ]
        if tree[0] != "if" or size(tree) < _FEWEST_OPERATIONS or 0 in (size(tree[1]), size(tree[3])):
            continue
        if len(text) > _LONGEST_PROGRAM or len(outputs) < len(rows):
            continue
        # Rows that the test holds for: it is shown by a program that says so.
        sides = run_own(render(("if", ("lit", "a"), tree[2], ("lit", "b"))), rows)
        shares = [sides[:TRAIN_ROWS].count("a"), sides[TRAIN_ROWS:].count("a")]
        if not (2 <= shares[0] <= TRAIN_ROWS - 2 and 1 <= shares[1] <= HELDOUT_ROWS - 1):
            continue
        if len(set(outputs[:TRAIN_ROWS])) > TRAIN_ROWS // 2:
            return _Made(text, outputs)
    return None


def problem_name(drawn: Drawn) -> str:
    """Return the name of its folder."""
    return f"drawn-{drawn.number:03d}"


def write_drawn(folder: Path, drawn: Drawn, seed: int) -> None:
    """Write a drawn task as a problem folder, with where it came from."""
    parameters = _PARAMETERS[: len(drawn.train[0].inputs)]
    what = "the text" if len(parameters) == 1 else f"the {len(parameters)} texts"
    write_problem(
        folder,
        statement=f"Turn {what} into what the examples show; which of two rules holds depends on the input.",
        parameters=parameters,
        start=parameters[0],
        rows={
            name: [(row.inputs, row.output) for row in rows]
            for name, rows in (("train", drawn.train), ("heldout", drawn.heldout))
        },
        origin={
            "made_by": "trainer.recipes.hard_strings",
            "seed": seed,
            "number": drawn.number,
            "program": drawn.text,
        },
    )


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

    def is_hard(name: str, share: float) -> bool:
        on_task(name, share < 1)
        if share < 1:
            best[name] = share
        return share < 1

    kept: list[Drawn] = []
    asked = 0
    while len(kept) < drawn and asked < most_drawn:
        task = draw(seed, asked)
        write_drawn(work / problem_name(task), task, seed)
        asked += 1
        if is_hard(problem_name(task), best_share(load_problem(work / problem_name(task)), seed)):
            kept.append(task)
    folders: list[Path] = []
    asked_by_hand = 0
    order = Random(f"hard strings:{seed}:hand-written").sample(list(hand_written), len(hand_written))
    while len(folders) < by_hand and asked_by_hand < len(order):
        folder = order[asked_by_hand]
        asked_by_hand += 1
        if is_hard(folder.name, best_share(load_problem(folder), seed)):
            folders.append(folder)
    if len(kept) < drawn or len(folders) < by_hand:
        raise ConfigError(
            f"{drawn} hard drawn tasks and {by_hand} hand-written ones were wanted, but of {asked} and"
            f" {asked_by_hand} only {len(kept)} and {len(folders)} are hard; want fewer"
        )
    return Selection(tuple(kept), tuple(sorted(folders)), asked, asked_by_hand, best)


def best_share(problem: Problem, seed: int) -> float:
    """Return the largest share of training rows that one of the start model's answers is right on.

    It is 1 only for an answer that is right on all of them.
    """
    return max(
        float(found.measure.values_C_m.max())
        for answers in CHAINS
        for found in probe(BUILT_IN_MODEL, [problem], answers=answers, k_max=SAMPLES, seed=seed).problems
    )


def write_suite(out: Path, chosen: Selection, seed: int) -> None:
    """Write problem folders, `suite.toml` and `selection.json` into a folder that is there."""
    for drawn in chosen.drawn:
        write_drawn(out / problem_name(drawn), drawn, seed)
    paths = [problem_name(drawn) for drawn in chosen.drawn]
    paths += [Path(os.path.relpath(folder, out)).as_posix() for folder in chosen.hand_written]
    write_suite_file(
        out,
        "Made by python -m trainer.recipes.hard_strings; selection.json says how.",
        "strings-hard",
        "Held-out string tasks that the start model solved none of 30 times, drawn and hand-written.",
        paths,
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: select the suite and write it."""
    import tempfile

    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="new or empty folder for the suite")
    parser.add_argument("--seed", type=int, default=0, help="tasks and answers follow from it")
    parser.add_argument("--drawn", type=int, default=24, help="hard drawn tasks to keep")
    parser.add_argument("--hand-written", type=int, default=16, help="hard hand-written ones to keep")
    options = parser.parse_args(arguments)
    out: Path = options.out
    torch.set_num_threads(1)
    try:
        check_new(out)
        entries = load_suite("strings") if options.hand_written else []
        with tempfile.TemporaryDirectory() as work:
            chosen = select(
                Path(work),
                [entry.path for entry in entries if entry.path.name in REFERENCES],
                drawn=options.drawn,
                by_hand=options.hand_written,
                seed=options.seed,
                on_task=lambda name, hard: print(f"{name}: {'hard' if hard else 'solved'}", file=sys.stderr),
            )
        out.mkdir(parents=True, exist_ok=True)
        write_suite(out.resolve(), chosen, options.seed)
    except EvovpoError as error:
        sys.exit(f"error: {error}")
    print(
        f"{len(chosen.drawn)} of {chosen.asked_drawn} drawn tasks and {len(chosen.hand_written)} of "
        f"{chosen.asked_hand_written} hand-written ones are hard: {out / 'suite.toml'}"
    )


if __name__ == "__main__":
    main()
