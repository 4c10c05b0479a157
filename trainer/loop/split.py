"""Which problems of a suite a loop searches, and which ones measure and guard: siblings stay on one side."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from evovpo.errors import ConfigError
from evovpo.problem.suites import SuiteEntry
from evovpo.types import Problem, content_id

_GUARDED = 12
"""Most problems of the guard alone, in a suite with three times as many; fewer may be asked for."""
_NO_FAMILIES: Mapping[str, str] = MappingProxyType({})


class Parts(NamedTuple):
    """The problems of a suite, by what a loop does with them."""

    searched: tuple[Problem, ...]
    held_out: tuple[Problem, ...]
    guarded: tuple[Problem, ...]


def split_suite(problems: Sequence[Problem], entries: Sequence[SuiteEntry], asked: int, seed: int) -> Parts:
    """Return the parts of a suite of two problems or more, of which `entries` tell what the suite says.

    Held out are those that the suite marks, and none of their families is searched; without marks, families
    by a hash, at most half of the problems. Of either at most `asked`. Raises `ConfigError` if the marks
    leave nothing to search.
    """
    pairs = list(zip(problems, entries, strict=bool(entries)))
    families = {problem.id: entry.family or problem.id for problem, entry in pairs}
    marked = tuple(problem for problem, entry in pairs if entry.is_held_out)
    if marked:
        measured = {families[problem.id] for problem in marked}
        searched = tuple(problem for problem in problems if families[problem.id] not in measured)
        held_out = split_problems(marked, asked, seed)[1] if asked < len(marked) else marked
    else:
        searched, held_out = split_problems(problems, min(asked, len(problems) // 2), seed, families)
    if not searched:
        raise ConfigError("the suite holds a problem of every family out; leave a family to search")
    if len(searched) < 3 * _GUARDED:
        return Parts(searched, held_out, ())
    searched, guarded = split_problems(searched, min(_GUARDED, asked), seed + 1, families)
    return Parts(searched, held_out, guarded)


def split_problems(
    problems: Sequence[Problem], held_out: int, seed: int = 0, families: Mapping[str, str] = _NO_FAMILIES
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return the searched problems and `held_out` set aside by a hash of the seed and their ids, in order.

    The hash ranks the problems whatever their order, so a problem more in the suite moves at most one over.
    `families` has the family of a problem by its id: one is ranked by its name and set aside whole, as long
    as no more than `held_out` are. Where each has more, the first gives so many, and its others are on no
    side. Problems of one family alone are split as if they were strangers. Raises `ConfigError` unless some
    are left on the searched side.
    """
    if not 0 <= held_out < len(problems):
        raise ConfigError(
            f"{held_out} of {len(problems)} problems were to be held out; expected 0 to {len(problems) - 1}:"
            " hold fewer out or use a larger suite"
        )
    siblings: dict[str, list[str]] = {}
    for problem in problems:
        siblings.setdefault(families.get(problem.id, problem.id), []).append(problem.id)
    if len(siblings) == 1:
        siblings = {problem.id: [problem.id] for problem in problems}
    ranked = sorted(siblings, key=lambda name: content_id("held out", str(seed), name))
    chosen: list[str] = []
    for name in ranked:
        if len(chosen) + len(siblings[name]) <= held_out:
            chosen += siblings[name]
    apart = chosen or siblings[ranked[0]] * bool(held_out)
    return (
        tuple(problem for problem in problems if problem.id not in apart),
        tuple(problem for problem in problems if problem.id in apart[:held_out]),
    )
