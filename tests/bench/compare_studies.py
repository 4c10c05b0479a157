"""An arm of one study minus an arm of another: `python tests/bench/compare_studies.py STUDY/ARM STUDY/ARM`.

For studies with the same test tasks and seeds, such as a variant beside what was tuned elsewhere. Prints the
mean difference by k with its 95 % bootstrap interval over tasks and trainings, paired by task, from the files
that `evovpo study` keeps of every training.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from evovpo.analysis.statistics import paired_interval


def trainings(place: Path) -> list[dict[str, Any]]:
    """Return the measured trainings of an arm, `STUDY/ARM`, in the order of their seeds."""
    files = sorted((place.parent / "jobs").glob(f"{place.name}-lr*-test-seed*.json"))
    if not files:
        raise SystemExit(f"{place.parent} holds no measured training of {place.name}; finish the study first")
    return [json.loads(file.read_text()) for file in files]


def main() -> None:
    """Command line: print one line for each k."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("arm", type=Path, metavar="STUDY/ARM")
    parser.add_argument("other", type=Path, metavar="STUDY/ARM")
    parser.add_argument("--figure", default="best_at_k", choices=["best_at_k", "pass_at_k", "expected_at_k"])
    options = parser.parse_args()
    ours, theirs = trainings(options.arm), trainings(options.other)
    values = [np.array([job[options.figure] for job in jobs]) for jobs in (ours, theirs)]
    for place, k in enumerate(ours[0]["ks"]):
        rng = np.random.default_rng(place)
        found = paired_interval(values[0][:, :, place], values[1][:, :, place], rng)
        print(f"k = {k:<3} {found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")


if __name__ == "__main__":
    main()
