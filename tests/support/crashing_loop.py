"""Runs a loop in processes that kill themselves at given moments, and starts it again each time.

    python tests/support/crashing_loop.py FOLDER TICKS

Every SQL statement, commit and rename of a file or folder is a tick. TICKS are comma-separated; each is one
process, which the kernel ends with SIGKILL at that tick, and a last process goes on to the end. Prints,
as JSON, how the processes ended, the ticks of the last one and what the loop came to.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from clock import Clock, killed_at
from sqlalchemy import Engine, event

from evovpo.config import Config, ProposerConfig, SandboxConfig, SearchConfig, StoreConfig
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import resolve_problem
from evovpo.store import Store
from trainer.config import ProbeConfig, TrainConfig, UpdateConfig
from trainer.loop import steps
from trainer.loop.loop import Loop
from trainer.loop.turns import Turns

ROUNDS = 2


def make_loop(store: Store) -> Loop:
    names = ("strings/amount-with-currency", "strings/article-name", "strings/city-with-postcode")
    problems = [load_problem(resolve_problem(name)) for name in names]
    search = Config(
        search=SearchConfig(evaluations=36, rollouts=4, answers=3, islands=2, in_flight=1, joins=False),
        proposer=ProposerConfig(policy="served"),
        sandbox=SandboxConfig(workers=1),
        store=StoreConfig(url=store.name),
    )
    train = TrainConfig(
        update=UpdateConfig(learning_rate=1e-3, groups_per_step=1),
        probe=ProbeConfig(problems=1, answers=2, evaluations=0, serve_worse=True),
    )
    return Loop(tuple(problems[:2]), tuple(problems[2:]), search, train)


def work(folder: Path, last: int | None) -> int:
    """Search and train in turns in this process; return the ticks that it took."""
    clock = Clock(last)
    steps.CHECKPOINT_STEPS = 1
    event.listen(Engine, "before_cursor_execute", clock.tick)
    event.listen(Engine, "commit", clock.tick)

    def on_audit(name: str, arguments: tuple[object, ...]) -> None:
        if name == "os.rename":
            clock.tick()

    sys.addaudithook(on_audit)
    with Store.open(str(folder / "loop.db")) as store:
        turns = Turns(make_loop(store), store, folder / "policies")
        turns.take(ROUNDS)
    return clock.now


def state(folder: Path) -> dict[str, Any]:
    """Return what a loop came to, without times and places."""
    with Store.open(str(folder / "loop.db")) as store:
        served = store.served()
        trainings = store.trainings()
        return {
            "runs": sorted((row.run, str(row.status), row.evaluations) for row in store.runs()),
            "tells": store.query("select run_id, count(*) as n from tells group by run_id order by run_id"),
            "texts": store.query(
                "select p.run_id, p.sequence, r.rollout_index, r.text, r.policy_version from rollouts r "
                "join prompts p on p.id = r.prompt_id order by 1, 2, 3"
            ),
            "trainings": [[t.runs, t.after, t.through, t.start_version] for t in trainings],
            "steps": [[step.step for step in store.training_steps(t.id)] for t in trainings],
            "losses": [[round(step.loss, 6) for step in store.training_steps(t.id)] for t in trainings],
            "weights": [
                hashlib.sha256((Path(version.path) / "model.safetensors").read_bytes()).hexdigest()
                for version in store.policy_versions()
            ],
            "events": [[event.number, str(event.kind)] for event in store.policy_events()],
            "served": None if served is None else served.number,
            "folders": sorted(path.name for path in (folder / "policies").glob("v*")),
        }


def main() -> None:
    """Command line; see the module's docstring."""
    folder = Path(sys.argv[1])
    found = killed_at(sys.argv[2], lambda last: work(folder, last))
    print(json.dumps({**found, "state": state(folder)}))


if __name__ == "__main__":
    main()
