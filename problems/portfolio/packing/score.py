"""Packs seeded random instances online with the policy that a program's outputs are.

The program is asked once for every item size and remaining capacity, so its outputs are a table; the
packing happens here, item by item, and no program can see which items are still to come. The same file
serves both bin packing problems: `data/instances.json` says which instances.
"""

import functools
import json
import math
from pathlib import Path
from random import Random

import numpy as np

SETTINGS = json.loads((Path(__file__).parent / "data" / "instances.json").read_text(encoding="utf-8"))
CAPACITY = SETTINGS["capacity"]
PAIRS = [
    (item, remaining)
    for item in range(1, SETTINGS["largest_item"] + 1)
    for remaining in range(item, CAPACITY + 1)
]
KEPT_STEPS = 64
"""Items that are packed before full bins are cleared away."""
WORST = 0.2
"""Excess (bins above the lower bound, as a share of it) from which on the reward is 0."""


def cases(part="train"):
    """The same for all parts: what differs is where the rule is used."""
    return [[item, remaining, CAPACITY] for item, remaining in PAIRS]


def items_of(group, name):
    """Items of one instance. Only `random()` is drawn: its sequence is the same in all Python versions."""
    rng = Random(name)
    if group["distribution"] == "uniform":
        low, high = group["low"], group["high"]
        return [low + int(rng.random() * (high - low + 1)) for _ in range(group["items"])]
    sizes = (
        group["scale"] * (-math.log(1.0 - rng.random())) ** (1.0 / group["shape"])
        for _ in range(group["items"])
    )
    return [min(max(round(size), 1), SETTINGS["largest_item"]) for size in sizes]


@functools.cache
def instances(part="train"):
    """Group name -> instances. `train` is what is rewarded; any other name gives instances of its own."""
    return {
        group["name"]: [
            items_of(group, f"{part}/{group['name']}/{number}") for number in range(group["instances"])
        ]
        for group in SETTINGS["groups"]
    }


def preferences(outputs):
    """Ranks by item size and remaining space, the highest first choice; none if the outputs are unusable.

    Priorities (as 64-bit floats) are replaced by their rank among those of the same item, so that rules which
    pack alike are alike; -inf stands where an item does not fit. Rows and columns count from 0.
    """
    if len(outputs) != len(PAIRS):
        return None
    for value in outputs:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
    try:
        values = np.array(outputs, dtype=np.float64)
    except OverflowError:  # a whole number beyond all floats
        return None
    if not np.isfinite(values).all():
        return None
    table = np.full((SETTINGS["largest_item"] + 1, CAPACITY + 1), -np.inf)
    sizes, spaces = np.array(PAIRS).T
    table[sizes, spaces] = values
    for item in range(1, len(table)):
        table[item, item:] = np.unique(table[item, item:], return_inverse=True)[1]
    return table


def bins_used(sequences, preferred):
    """Bins after packing each sequence of items in order, each into the bin of highest rank that it fits in.

    Of equal ones the bin opened first is taken; an empty bin is open to choice at any time and the last. All
    sequences are packed side by side. `left` has a row for each and a column for each bin, in the order of
    their opening and then the next empty one; 0 is a bin that is full or not there.
    """
    order = sorted(range(len(sequences)), key=lambda number: -len(sequences[number]))
    lengths = [len(sequences[number]) for number in order]
    items = np.zeros((max(lengths, default=0), len(order)), dtype=np.int64)
    for row, number in enumerate(order):
        items[: lengths[row], row] = sequences[number]
    smallest = np.array([min(sequences[number], default=1) for number in order])
    flat, width = preferred.ravel(), preferred.shape[1]
    rows = len(order)
    opened = np.zeros(rows, dtype=np.int64)
    place = np.zeros(rows, dtype=np.int64)  # column of the empty bin
    left = np.zeros((rows, 1 + KEPT_STEPS), dtype=np.int64)
    left[:, 0] = CAPACITY
    numbers = np.arange(rows)
    for step, sizes in enumerate(items):
        while rows and lengths[rows - 1] <= step:
            rows -= 1
        sizes = sizes[:rows]
        if step and step % KEPT_STEPS == 0:
            left, place[:rows] = without_full(left[:rows], smallest[:rows])
        now = numbers[:rows]
        chosen = flat.take(left[:rows] + (sizes * width)[:, None]).argmax(axis=1)
        space = left[now, chosen]
        left[now, chosen] = space - sizes
        new = now[space == CAPACITY]
        place[new] += 1
        opened[new] += 1
        left[new, place[new]] = CAPACITY
    return opened[np.argsort(order)].tolist()


def without_full(left, smallest):
    """`left` without the bins that no item of their sequence fits into, and the columns of the empty bins."""
    is_open = left >= smallest[:, None]
    kept = is_open.sum(axis=1)
    packed = np.zeros((len(left), int(kept.max()) + KEPT_STEPS), dtype=np.int64)
    rows, columns = np.nonzero(is_open)
    packed[rows, is_open.cumsum(axis=1)[rows, columns] - 1] = left[rows, columns]
    return packed, kept - 1


def lower_bound(items):
    return math.ceil(sum(items) / CAPACITY)


def figures(outputs, part="train"):
    """Mean excess of each group, or none if the outputs are no table of finite numbers."""
    preferred = preferences(outputs)
    return None if preferred is None else dict(_figures(preferred.tobytes(), part))


@functools.lru_cache(maxsize=1024)
def _figures(preferred, part):
    """Group names and mean excess, in order; a search proposes many rules that pack alike."""
    groups = instances(part)
    table = np.frombuffer(preferred).reshape(-1, CAPACITY + 1)
    used = iter(bins_used([items for group in groups.values() for items in group], table))
    return [
        (name, sum(next(used) / lower_bound(items) - 1.0 for items in group) / len(group))
        for name, group in groups.items()
    ]


def score(outputs):
    excess = figures(outputs)
    if excess is None:
        return {group["name"]: 0.0 for group in SETTINGS["groups"]}
    return {name: max(0.0, 1.0 - value / WORST) for name, value in excess.items()}
