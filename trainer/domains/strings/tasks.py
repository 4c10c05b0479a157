"""Pretraining tasks for the built-in model: random programs with their outputs on random rows.

No task comes from a benchmark. The programs are sampled from our own grammar, so they may run in this
process. Programs written by a model never run here.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from evovpo.builtin.chain import join_chain
from evovpo.builtin.strings.expressions import ARGUMENTS
from evovpo.builtin.strings.format import encode_prompt
from evovpo.builtin.strings.grammar import Tree, has_branch, render, shorter_variants, size, spell
from evovpo.builtin.strings.mutation import mutate
from evovpo.builtin.strings.sampler import Sampler
from trainer.domains.strings.columns import Cell, column

MAX_OUTPUT = 70
"""Maximum length of a task's output, in characters."""
_NAMES: dict[str, object] = {"re": re, "__builtins__": {"len": len, "str": str, "int": int}}
_SIGNATURE = ", ".join(f"{name}=''" for name in ARGUMENTS)
_FAILURES = (IndexError, ValueError, TypeError, re.error)


class StringTask(NamedTuple):
    """A program with rows of arguments, and its output for each row."""

    rows: list[tuple[str, ...]]
    outputs: list[str]
    tree: Tree
    text: str
    heldout: Sequence[tuple[tuple[str, ...], str]] = ()
    """More rows of the same columns, each with its output."""


def run_own(text: str, rows: Sequence[Sequence[str]]) -> list[str | None]:
    """Return an expression's value for each row, or None if it is not a string of up to 200 characters."""
    function: Callable[..., object] = eval(f"lambda {_SIGNATURE}: {text}", dict(_NAMES))
    outputs: list[str | None] = []
    for row in rows:
        try:
            value = function(*row)
        except _FAILURES:
            outputs.append(None)
        else:
            outputs.append(value if isinstance(value, str) and len(value) <= 200 else None)
    return outputs


def shortest(tree: Tree, rows: Sequence[Sequence[str]], outputs: Sequence[str | None]) -> Tree:
    """Return `tree` without the operations that do not change its outputs on `rows`."""
    for variant in shorter_variants(tree):
        if run_own(spell(variant), rows) == outputs:
            return shortest(variant, rows, outputs)
    return tree


def is_interesting(rows: Sequence[tuple[str, ...]], outputs: Sequence[str | None], rng: Random) -> bool:
    """Return whether outputs are short, mostly non-empty, and no copy of column 1."""
    if any(output is None or len(output) > MAX_OUTPUT for output in outputs):
        return False
    if sum(output == "" for output in outputs) * 2 > len(outputs):
        return False
    if all(output == row[0] for row, output in zip(rows, outputs, strict=True)):
        return False
    if len(set(outputs)) == 1 and len(outputs) > 1:
        return rng.random() < 0.02
    return True


def sample_task(rng: Random, heldout: int = 0) -> StringTask:
    """Return a random task of two to seven rows, with up to `heldout` further held-out rows."""
    while True:
        arguments = rng.choices((1, 2, 3, 4), (70, 22, 6, 2))[0]
        cells = [column(rng) for _ in range(arguments)]
        count = rng.choices((2, 3, 4, 5, 6, 7), (2, 4, 4, 3, 3, 3))[0]
        rows = [tuple(cell() for cell in cells) for _ in range(count)]
        if len(set(rows)) < count or max(len(text) for row in rows for text in row) > 60:
            continue
        sampler = Sampler(rng, rows)
        for _ in range(6):
            tree = sampler.program()
            outputs = run_own(spell(tree), rows)
            if not is_interesting(rows, outputs, rng):
                continue
            branched = has_branch(tree)
            tree = shortest(tree, rows, outputs)
            if branched and not has_branch(tree) and rng.random() < 0.8:
                continue
            if size(tree) < 2 and rng.random() < 0.6:
                continue
            text = render(tree)
            if tree[0] == "arg" or tree[0] == "lit" or len(text) > 120:
                continue
            more = _more_rows(rng, cells, heldout, rows, text)
            return StringTask(rows, [output or "" for output in outputs], tree, text, more)


def _more_rows(
    rng: Random, cells: Sequence[Cell], count: int, rows: Sequence[tuple[str, ...]], text: str
) -> tuple[tuple[tuple[str, ...], str], ...]:
    state = rng.getstate()
    drawn = {tuple(cell() for cell in cells): None for _ in range(count)}
    rng.setstate(state)
    others = [row for row in drawn if row not in rows]
    outputs = run_own(text, others)
    return tuple((row, got) for row, got in zip(others, outputs, strict=True) if got is not None)


def _attempts(rng: Random, task: StringTask, count: int) -> tuple[list[str], ...]:
    """Return variants of the task's program in three lists: right on all rows, on some rows, or on none."""
    sampler = Sampler(rng, task.rows)
    found: tuple[list[str], ...] = ([], [], [])
    same, partial, other = found
    for _ in range(count):
        tree = mutate(sampler, task.tree)
        if rng.random() < 0.3:
            tree = mutate(sampler, tree)
        if tree[0] == "lit":
            continue
        text = render(tree)
        if text == task.text or len(text) > 120 or any(text in texts for texts in found):
            continue
        outputs = run_own(text, task.rows)
        right = sum(output == wanted for output, wanted in zip(outputs, task.outputs, strict=True))
        if right == len(task.outputs):
            same.append(text)
        elif right:
            partial.append(text)
        elif any(outputs):
            other.append(text)
    return found


def _chain(rng: Random, task: StringTask, attempts: Sequence[list[str]], answers: int) -> list[str]:
    """Return up to `answers` different programs: the task's program (usually first) and its variants."""
    others: list[str] = []
    pools = [list(pool) for pool in attempts]
    while len(others) < answers - 1:
        weights = [weight if pool else 0.0 for weight, pool in zip((0.45, 0.45, 0.10), pools, strict=True)]
        if not any(weights):
            break
        pool = rng.choices(pools, weights)[0]
        others.append(pool.pop(rng.randrange(len(pool))))
    place = 0 if rng.random() < 0.6 else rng.randint(0, len(others))
    return [*others[:place], task.text, *others[place:]]


def sample_sequence(rng: Random) -> tuple[str, str]:
    """Return a random pair to pretrain on: the text of a prompt and the text of its completion."""
    task = sample_task(rng)
    wanted = rng.choices((1, 2, 3, 4), (50, 12, 28, 10))[0]
    with_parent = rng.random() < 0.35
    attempts = _attempts(rng, task, 3 * (wanted - 1) + 4 * with_parent)
    parent, parent_outputs = None, []
    if with_parent:
        weights = [weight if pool else 0.0 for weight, pool in zip((0.0, 0.75, 0.25), attempts, strict=True)]
        if any(weights):
            parent = rng.choice(rng.choices(attempts, weights)[0])
            parent_outputs = run_own(parent, task.rows)
    chain = _chain(rng, task, attempts, wanted)
    return encode_prompt(task.rows, task.outputs, len(chain), parent, parent_outputs), join_chain(chain)
