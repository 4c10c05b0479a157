"""Is a program too much like those there already? Asked before its evaluation is paid for.

Pure: distances of texts, likeness of embedding vectors, and the sentences that say so. The vectors come
from a server (`evovpo/proposers/embeddings.py`).
"""

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from evovpo.search.population import Member

SHINGLE = 5
"""Characters in one shingle."""
BY_MEANING = "not novel by its embedding"
"""How the reason begins when vectors decided, which replay cannot decide again."""

Vector = tuple[float, ...]


@functools.lru_cache(maxsize=8192)
def shingles(text: str) -> frozenset[str]:
    """Return all runs of `SHINGLE` characters of a text; runs of blanks and line ends count as one blank."""
    plain = " ".join(text.split())
    return frozenset(plain[start : start + SHINGLE] for start in range(max(1, len(plain) - SHINGLE + 1)))


def text_distance(one: str, other: str) -> float:
    """Return the Jaccard distance of the shingles of two texts: 0 for the same set, 1 for none shared."""
    first, second = shingles(one), shingles(other)
    shared = len(first & second)
    return 1.0 - shared / (len(first) + len(second) - shared)


def text_fault(source: str, others: Iterable[Member], least: float) -> str:
    """Return why a program is refused: its text is nearer than `least` to another; empty if it is not."""
    if least <= 0.0:
        return ""
    nearest = min(((text_distance(source, m.source), m.order, m.program_id) for m in others), default=None)
    if nearest is None or nearest[0] >= least:
        return ""
    return (
        f"not novel: its text is at distance {nearest[0]:.3f} from program {nearest[2]}; at least "
        f"{least:g} is wanted"
    )


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors; 0 if one of them is zero."""
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / length if length > 0.0 else 0.0


def meaning_fault(vector: Vector, others: Iterable[tuple[str, Vector]], most: float) -> str:
    """Return why a program is refused: its vector is as like another's as `most` or more; else empty.

    `others` are program ids with their vectors.
    """
    nearest = max(((cosine(vector, other), program_id) for program_id, other in others), default=None)
    if nearest is None or nearest[0] < most:
        return ""
    return f"{BY_MEANING}: cosine {nearest[0]:.4f} to program {nearest[1]}; less than {most:g} is wanted"
