"""Figures of programs on the instances of a heuristics problem, also on ones that no search was rewarded by.

    python problems/heuristics/measure.py job-shop                     # its starting programs
    python problems/heuristics/measure.py bin-packing-or3 best.py --part my-own-instances

A line is one program on one part: bins above the lower bound, or makespan above the best known one, in
percent, for each group and their mean. `train` is what the search is rewarded by. The job-shop problem has
one more part, `heldout`; the bin packing problems make new instances of the same distributions for any other
name. Programs run in the sandbox, as in a search.
"""

import argparse
import runpy
from pathlib import Path

from evovpo.config import Config
from evovpo.judging.evaluator import open_sandbox
from evovpo.problem.folder import load_problem
from evovpo.types import Status


def percent(values):
    return "".join(f"{100 * value:17.2f}" for value in values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", choices=["bin-packing-or3", "bin-packing-weibull", "job-shop"])
    parser.add_argument("programs", nargs="*", type=Path, help="Python files; none: the starting programs")
    parser.add_argument(
        "--part", action="append", help="instances, may be repeated; train and heldout unless given"
    )
    arguments = parser.parse_args()
    folder = Path(__file__).resolve().parent / arguments.problem
    problem = load_problem(folder)
    scorer = runpy.run_path(str(folder / "score.py"))
    names = [objective.name for objective in problem.objectives]
    print(f"{'%':31}{'mean':>17}" + "".join(f"{name:>17}" for name in names))
    with open_sandbox(problem, Config()) as sandbox:
        for path in arguments.programs or sorted(folder.glob("seed*.py")):
            for part in arguments.part or ["train", "heldout"]:
                cases = scorer["cases"](part)
                if not cases:
                    parser.error(f"--part: expected train or heldout, found {part!r}")
                result = sandbox.run(path.read_text(encoding="utf-8"), problem.entry, cases, problem.limits)
                label = f"{path.stem:22} {part:8}"
                if result.status is not Status.OK:
                    print(f"{label} {result.status}: {result.detail}")
                    continue
                found = scorer["figures"](list(result.outputs), part)
                if found is None:
                    print(f"{label} returned what is no finite number")
                else:
                    print(
                        label + percent([sum(found.values()) / len(found), *(found[name] for name in names)])
                    )


if __name__ == "__main__":
    main()
