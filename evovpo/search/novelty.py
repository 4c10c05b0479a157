"""Text distance of new programs to existing ones, to reject near copies before evaluation."""

import functools
from collections.abc import Iterable

from evovpo.search.population import Member

SHINGLE = 5
"""Characters in one shingle."""


@functools.lru_cache(maxsize=8192)
def shingles(text: str) -> frozenset[str]:
    """Return all substrings of `SHINGLE` characters of a text; consecutive whitespace counts as one space."""
    plain = " ".join(text.split())
    return frozenset(plain[start : start + SHINGLE] for start in range(max(1, len(plain) - SHINGLE + 1)))


def text_distance(one: str, other: str) -> float:
    """Return the Jaccard distance between the shingle sets of two texts, from 0 (equal) to 1 (disjoint)."""
    first, second = shingles(one), shingles(other)
    shared = len(first & second)
    return 1.0 - shared / (len(first) + len(second) - shared)


def text_fault(source: str, others: Iterable[Member], least: float) -> str:
    """Return why a program is rejected (text distance to another one below `least`), or an empty string."""
    if least <= 0.0:
        return ""
    nearest = min(((text_distance(source, m.source), m.order, m.program_id) for m in others), default=None)
    if nearest is None or nearest[0] >= least:
        return ""
    return (
        f"not novel: its text is at distance {nearest[0]:.3f} from program {nearest[2]}; at least "
        f"{least:g} is wanted"
    )
