"""How a program came about: the candidates that brought it and its ancestors into a run."""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, select

from evovpo.errors import StoreError
from evovpo.store.database import Database, reading
from evovpo.store.records import candidates_where
from evovpo.store.tables import candidates, programs, prompts, tells
from evovpo.types import Candidate, ParentRole, ParseStatus, PromptKind

_IDS_PAGE = 500
"""Ids in one IN list: below the bound parameters that any database allows."""


class Lineages(Database):
    """The ancestors of programs."""

    @reading
    def lineage(self, connection: Connection, run_id: str, program_id: str) -> list[Candidate]:
        """Return how a program came about: its candidate in the run, then its ancestors' back to the seeds.

        Nearest generation first. Inspirations are among the parents but not followed. Empty for a seed.
        Raises StoreError for an unknown program.
        """
        if connection.scalar(select(programs.c.id).where(programs.c.id == program_id)) is None:
            raise StoreError(f"no program {program_id} is stored; expected the full id of one")
        steps: list[Candidate] = []
        seen = {program_id}
        wanted = [program_id]
        while wanted:
            generation = _origins(connection, run_id, wanted)
            steps += generation
            wanted = []
            for parent in (parent for candidate in generation for parent in candidate.parents):
                if parent.role is not ParentRole.INSPIRATION and parent.program_id not in seen:
                    seen.add(parent.program_id)
                    wanted.append(parent.program_id)
        return steps


def _origins(connection: Connection, run_id: str, program_ids: Sequence[str]) -> list[Candidate]:
    """Return for each program the candidate that was new to the run with it, in the order of the programs.

    A seed has none, also when it was proposed again: neither its ticket nor a duplicate is its origin.
    """
    first: dict[str, Candidate] = {}
    seeds = select(prompts.c.id).where(prompts.c.run_id == run_id, prompts.c.kind == PromptKind.SEED)
    for start in range(0, len(program_ids), _IDS_PAGE):
        page = program_ids[start : start + _IDS_PAGE]
        told = select(candidates.c.position).where(
            candidates.c.run_id == run_id, candidates.c.program_id.in_(page)
        )
        where = and_(tells.c.run_id == run_id, tells.c.position.in_(told), tells.c.prompt_id.not_in(seeds))
        for _, candidate in candidates_where(connection, where):
            if candidate.program is not None and candidate.parse_status is ParseStatus.PARSED:
                first.setdefault(candidate.program.id, candidate)
    return [first[program_id] for program_id in program_ids if program_id in first]
