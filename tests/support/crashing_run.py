"""Runs a search in processes that kill themselves at given moments, and resumes it each time.

    python tests/support/crashing_run.py DATABASE ACKNOWLEDGED TICKS

Moments are counted in ticks: every SQL statement, every commit, every program judged and every request
to the proposer is one. TICKS are comma-separated; each is one process, which the kernel ends with SIGKILL
at that tick, and a last process runs to the end. Every tell that was acknowledged by the store is
appended to the file ACKNOWLEDGED. Prints, as JSON, how the processes ended and the ticks of the last one.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from clock import Clock, killed_at
from scripted_proposer import ScriptedProposer
from sqlalchemy import Engine, event
from toy_runs import HARD, toy_script

from evovpo.config import Config, SandboxConfig, SearchConfig
from evovpo.judging.evaluator import Evaluator
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import resume, start
from evovpo.store import Store
from evovpo.types import Evaluation, Program, Prompt, Rollout, Sampling, Tell

CONFIG = Config(
    search=SearchConfig(evaluations=120, rollouts=4, answers=3, islands=2, migration_interval=2, in_flight=1),
    sandbox=SandboxConfig(workers=1),
)
RUN = "crashing"


def work(database: str, acknowledged: Path, last: int | None) -> int:
    """Start or resume the run in this process; return the ticks that it took."""
    clock = Clock(last)
    event.listen(Engine, "before_cursor_execute", clock.tick)
    event.listen(Engine, "commit", clock.tick)

    class Proposer(ScriptedProposer):
        async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
            clock.tick()
            return await super().propose(prompt, indices, sampling)

    class Journaled(Store):
        def add_tells(self, run_id: str, tells: Sequence[Tell], order: int) -> list[bool]:
            stored = super().add_tells(run_id, tells, order)
            with acknowledged.open("a") as file:
                for position, tell in enumerate(tells, order):
                    index = 0 if tell.rollout is None else tell.rollout.index
                    file.write(json.dumps([tell.prompt_id, index, position]) + "\n")
            return stored

    judge = Evaluator.evaluate

    def evaluate(self: Evaluator, program: Program) -> Evaluation:
        clock.tick()
        return judge(self, program)

    Evaluator.evaluate = evaluate  # type: ignore[method-assign]
    with Journaled.open(database) as store:
        if any(row.run == RUN for row in store.runs()):
            resume(RUN, store, Proposer(toy_script()))
        else:
            start(RunRequest(HARD, CONFIG, run_id=RUN), store, Proposer(toy_script()))
    return clock.now


def main() -> None:
    database, acknowledged, ticks = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    print(json.dumps(killed_at(ticks, lambda last: work(database, acknowledged, last))))


if __name__ == "__main__":
    main()
