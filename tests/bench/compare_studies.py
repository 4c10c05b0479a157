"""An arm of one study minus an arm of another: `python tests/bench/compare_studies.py STUDY/ARM STUDY/ARM`.

For studies with the same test tasks and seeds, such as a variant beside what was tuned elsewhere. Prints the
mean difference by k with its 95 % bootstrap interval over tasks and trainings, paired by task, from the rows
that `evovpo study` keeps of every training.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

import numpy as np

from evovpo.analysis.statistics import bootstrap_interval
from trainer.experiments.export import Export
from trainer.experiments.records import TEST


def rows(place: Path, figure: str) -> list[list[dict[str, float]]]:
    """Return a figure by k of every training of an arm, `STUDY/ARM`, on every test task."""
    found = Export(place.parent / "export").searches
    keys = sorted(key for key in found if (key.arm, key.strategy) == (place.name, TEST))
    if not keys:
        raise SystemExit(f"{place.parent} holds no measured training of {place.name}; finish the study first")
    return [[found[key][figure] for key in of_seed] for _, of_seed in groupby(keys, lambda key: key.seed)]


def main() -> None:
    """Command line: print one line for each k."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("arm", type=Path, metavar="STUDY/ARM")
    parser.add_argument("other", type=Path, metavar="STUDY/ARM")
    parser.add_argument("--figure", default="best_at_k", choices=["best_at_k", "pass_at_k", "expected_at_k"])
    options = parser.parse_args()
    ours, theirs = (rows(place, options.figure) for place in (options.arm, options.other))
    for k in ours[0][0]:
        values = [np.array([[task[k] for task in of_seed] for of_seed in arm]) for arm in (ours, theirs)]
        found = bootstrap_interval(*values, np.random.default_rng(0))
        print(f"k = {k:<3} {found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")


if __name__ == "__main__":
    main()
