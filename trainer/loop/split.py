"""Splits a suite into problems to search, to hold out, and to use for the guard (`guard.py`)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from evovpo.errors import ConfigError
from evovpo.problem.suites import SuiteEntry
from evovpo.types import Problem, content_id
from trainer.loop.probe import generated_problems

_GUARDED = 12
_NO_FAMILIES: Mapping[str, str] = MappingProxyType({})


class Parts(NamedTuple):
    """The problems that a loop searches, holds out to measure training, and uses for the guard."""

    searched: tuple[Problem, ...]
    held_out: tuple[Problem, ...]
    guarded: tuple[Problem, ...]


def split_suite(problems: Sequence[Problem], entries: Sequence[SuiteEntry], asked: int, seed: int) -> Parts:
    """Split a suite of two or more problems. `entries` has their families, and marks problems to hold out.

    Families with a marked problem are not searched, and up to `asked` marked problems are held out. In
    addition, up to `asked` problems of the other families are held out, but at most half of these problems.
    The guard gets generated problems if any problem is marked. Otherwise, the guard gets problems of the
    suite, or none if few are left. Raises `ConfigError` if the marks leave nothing to search.
    """
    pairs = list(zip(problems, entries, strict=bool(entries)))
    families = {problem.id: entry.family or problem.id for problem, entry in pairs}
    marked = [problem for problem, entry in pairs if entry.is_held_out]
    apart = {families[problem.id] for problem in marked}
    searched = tuple(problem for problem in problems if families.get(problem.id) not in apart)
    if not searched:
        raise ConfigError("the suite holds a problem of every family out; leave a family to search")
    guards = min(_GUARDED, asked)
    searched, held_out = split_problems(searched, min(asked, len(searched) // 2), seed, families)
    if marked:
        new = tuple(marked) if asked >= len(marked) else split_problems(marked, asked, seed)[1]
        return Parts(searched, held_out + new, generated_problems(guards))
    if len(searched) < 3 * _GUARDED:
        return Parts(searched, held_out, ())
    searched, guarded = split_problems(searched, guards, seed + 1, families)
    return Parts(searched, held_out, guarded)


def split_problems(
    problems: Sequence[Problem], held_out: int, seed: int = 0, families: Mapping[str, str] = _NO_FAMILIES
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return the searched problems and at most `held_out` held-out problems, both in the given order.

    The choice depends on a hash of seed and id, so that adding a problem moves at most one other problem.
    `families` maps problem ids to families. A family of one problem is searched, and at most one problem of a
    larger family is held out. Families are ignored if there is only one, or if each has one problem. Raises
    `ConfigError` if nothing would be left to search.
    """
    if not 0 <= held_out < len(problems):
        raise ConfigError(
            f"{held_out} of {len(problems)} problems cannot be held out; expected 0 to {len(problems) - 1}:"
            " hold out fewer or use a larger suite"
        )
    ranked = sorted(problems, key=lambda problem: content_id("held out", str(seed), problem.id))
    names = {problem.id: families.get(problem.id, problem.id) for problem in problems}
    sizes = Counter(names.values())
    if 1 < len(sizes) < len(problems):
        firsts = {names[problem.id]: problem for problem in reversed(ranked) if sizes[names[problem.id]] > 1}
        ranked = [problem for problem in ranked if problem in firsts.values()]
    apart = {problem.id for problem in ranked[:held_out]}
    return (
        tuple(problem for problem in problems if problem.id not in apart),
        tuple(problem for problem in problems if problem.id in apart),
    )
