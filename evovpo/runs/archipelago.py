"""One search in several processes: runs of one store that exchange programs, as islands do.

Runs of the same problem version with the same `run.archipelago` stand in a ring in the order of their ids,
and each takes from the one before it. What came is stored as a ticket of its own, so that a replay needs no
other run.
"""

import sys
from collections import defaultdict

from evovpo.analysis.scores import compared
from evovpo.config import Config
from evovpo.search.population import Island, Member
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import Evaluation, Program, Run, RunStatus, Status, Tell

_MOST = 8
"""Programs taken over at a time."""
_TELLS = 1000
"""Latest tells of another run that are looked at; a search that is slower never falls behind."""


class Archipelago:
    """The other runs of an archipelago, seen from one of them."""

    def __init__(self, store: Store, search: SearchState, name: str | None) -> None:
        self._store, self._search, self._name = store, search, name
        self._is_member: dict[str, bool] = {}
        self._told: defaultdict[str, int] = defaultdict(int)
        """Tells of each run that were looked at."""

    def arrivals(self) -> list[tuple[Program, Evaluation]]:
        """Return programs that others judged since the last call, and that no elite here replaces.

        The others are the run before this one, and those that are solved.
        """
        if not self._name:
            return []
        own, version = self._search.run_id, self._search.problem.version
        same = (run for run in self._store.runs_in_full() if run.problem_version == version)
        runs = [run for run in same if self._belongs(run)]
        ids = [run.id for run in runs]
        others = {run.id for run in runs if run.status is RunStatus.SOLVED} | {ids[ids.index(own) - 1]}
        arrived, found = Island(0, _MOST), dict[str, tuple[Program, Evaluation]]()
        for run_id in sorted(others - {own}):
            for program, evaluation in self._news(run_id):
                if program.id not in found and self._search.evaluation(program.id) is None:
                    rewards = compared(self._search.problem, evaluation)
                    arrived.insert(Member(program.id, program.source, rewards, len(found)))
                    found[program.id] = program, evaluation
        elites = self._search.population.elites.values()
        return [
            found[one.program_id]
            for one in arrived.front
            if not any(elite.rewards == one.rewards or elite.dominates(one) for elite in elites)
        ]

    def _belongs(self, run: Run) -> bool:
        if run.id not in self._is_member:
            self._is_member[run.id] = Config.from_json(run.config_json).run.archipelago == self._name
        return self._is_member[run.id]

    def _news(self, run_id: str) -> list[tuple[Program, Evaluation]]:
        first = max(self._told[run_id], self._store.last_tell(run_id) + 1 - _TELLS)
        tells = [one for one in self._store.history(run_id, sys.maxsize, first) if isinstance(one, Tell)]
        self._told[run_id] = first + len(tells)
        judged = (one for tell in tells for one in tell.judged)
        pairs = ((one.candidate.program, one.evaluation) for one in judged)
        return [
            (program, found) for program, found in pairs if program and found and found.status is Status.OK
        ]
