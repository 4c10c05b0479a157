"""Packs seeded random instances online with the policy that a program's outputs are.

The program is asked once for every item size and remaining capacity, so its outputs are a table; the
packing happens here, item by item, and no program can see which items are still to come. The same file
serves both bin packing problems: `data/instances.json` says which instances.
"""

import functools
import heapq
import json
import math
from pathlib import Path
from random import Random

SETTINGS = json.loads((Path(__file__).parent / "data" / "instances.json").read_text(encoding="utf-8"))
CAPACITY = SETTINGS["capacity"]
PAIRS = [
    (item, remaining)
    for item in range(1, SETTINGS["largest_item"] + 1)
    for remaining in range(item, CAPACITY + 1)
]
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
    """For each item size the remaining capacities, best first, equal ones together; none if unusable."""
    if len(outputs) != len(PAIRS):
        return None
    rows = {}
    for (item, remaining), value in zip(PAIRS, outputs, strict=True):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return None
        rows.setdefault(item, {}).setdefault(value, []).append(remaining)
    return {item: [row[value] for value in sorted(row, reverse=True)] for item, row in rows.items()}


def bins_used(items, preferred):
    """Bins after packing `items` in order: each into the bin of highest priority that it fits in.

    Of equal ones the bin opened first is taken; an empty bin is open to choice at any time and the last.
    """
    # Remaining capacity -> numbers of such bins, a heap. Of the empty ones only the next is there.
    open_bins = [[] for _ in range(CAPACITY)] + [[0]]
    for item in items:
        chosen, space = len(items), 0
        for tied in preferred[item]:
            for remaining in tied:
                bins = open_bins[remaining]
                if bins and bins[0] < chosen:
                    chosen, space = bins[0], remaining
            if space:
                break
        heapq.heappop(open_bins[space])
        if space == CAPACITY:
            heapq.heappush(open_bins[CAPACITY], chosen + 1)
        heapq.heappush(open_bins[space - item], chosen)
    return open_bins[CAPACITY][0]


def lower_bound(items):
    return math.ceil(sum(items) / CAPACITY)


def figures(outputs, part="train"):
    """Mean excess of each group, or none if the outputs are no table of finite numbers."""
    preferred = preferences(outputs)
    if preferred is None:
        return None
    return {
        name: sum(bins_used(items, preferred) / lower_bound(items) - 1.0 for items in group) / len(group)
        for name, group in instances(part).items()
    }


def score(outputs):
    excess = figures(outputs)
    if excess is None:
        return {group["name"]: 0.0 for group in SETTINGS["groups"]}
    return {name: max(0.0, 1.0 - value / WORST) for name, value in excess.items()}
