"""`python -m evovpo.sandbox --selftest [--json] [--level LEVEL]`: tests the sandbox on this machine."""

import argparse
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence

from evovpo.errors import EvovpoError
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level, probe
from evovpo.sandbox.selftest import attack_run
from evovpo.types import Json

LEVELS = [level for level in Level if level is not Level.NONE]


def main() -> int:
    """Return the exit code: 0 if every attack failed, 1 if one succeeded, 2 if no sandbox starts."""
    parser = argparse.ArgumentParser(prog="python -m evovpo.sandbox", description="Test the sandbox.")
    parser.add_argument("--selftest", action="store_true", required=True, help="run the table of attacks")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")
    parser.add_argument("--level", type=Level, choices=LEVELS, help="isolation level; default: the strongest")
    options = parser.parse_args()
    try:
        return _selftest(options.level, options.json)
    except EvovpoError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _selftest(level: Level | None, is_json: bool) -> int:
    with (
        attack_run.exposed_target() as target,
        Sandbox(
            workers=1,
            preload=(),
            hidden=[attack_run.HIDDEN_FILE],
            level=level,
            minimum_level=level or Level.LANDLOCK_SECCOMP,
            retries=0,
        ) as sandbox,
    ):
        level = sandbox.level
        if not is_json:
            print(f"level {level}, user {os.geteuid()}; {probe().describe()}")
        outcomes = []
        modes = (attack_run.run_mode_attacks, attack_run.run_controls) if level.has_landlock else ()
        found = (attack(level, target) for attack in modes)
        for outcome in itertools.chain(attack_run.run_attacks(sandbox, target), *found):
            outcomes.append(outcome)
            if not is_json:
                print(_row(outcome), flush=True)
    costs = attack_run.measure_costs(level)
    summary = report(outcomes, costs, level)
    if is_json:
        print(json.dumps(summary))
    else:
        cost = f"CPU per evaluation {costs['trivial']:.2f} ms, {costs['numpy']:.2f} ms with numpy"
        print(f"{summary['passed']} of {summary['total']} held; {cost}")
        if costs["whole"] is not None:
            print(
                f"with an evaluator that imports it {costs['whole']:.0f} ms, by proxy {costs['proxy']:.0f} ms"
            )
    return 1 if summary["failed"] else 0


def report(
    found: Sequence[attack_run.AttackOutcome], costs: Mapping[str, float | None], level: Level
) -> dict[str, Json]:
    """Return the self-test's JSON report: counts, the names of failed checks, and CPU costs in ms."""
    failed: list[Json] = [outcome.name for outcome in found if not outcome.is_held]
    return {
        "passed": len(found) - len(failed),
        "total": len(found),
        "level": str(level),
        "uid": os.geteuid(),
        **{f"cpu_ms_{name}": None if cost is None else round(cost, 3) for name, cost in costs.items()},
        "failed": failed,
    }


def _row(outcome: attack_run.AttackOutcome) -> str:
    detail = outcome.detail.partition("\n")[0]
    remark = f"{outcome.outputs} {detail}"[:70] if not outcome.is_held else detail[:70]
    mark = "ok  " if outcome.is_held else "FAIL"
    return f"{mark} {outcome.name:<52} {outcome.status:<12} {outcome.cpu_ms:6.0f} CPU ms  {remark}"


if __name__ == "__main__":
    sys.exit(main())
