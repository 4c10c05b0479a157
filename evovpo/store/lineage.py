"""How a program came about: the candidates that brought it and its ancestors into a run."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_, select

from evovpo.errors import StoreError
from evovpo.store.database import Database, reading
from evovpo.store.records import candidates_where
from evovpo.store.tables import candidates, programs, prompts, tells
from evovpo.types import Candidate, Parent, ParentRole, ParseStatus, Program, PromptKind

_IDS_PAGE = 500
"""Ids in one IN list: below the bound parameters that any database allows."""


class LineageStep(NamedTuple):
    """A candidate and the programs that it was made from, with the part each played."""

    candidate: Candidate
    parents: tuple[tuple[ParentRole, Program], ...]


class Lineages(Database):
    """The ancestors of programs."""

    @reading
    def lineage(self, connection: Connection, run_id: str, program_id: str) -> list[LineageStep]:
        """Return how a program came about: its candidate in the run, then its ancestors' back to the seeds.

        Nearest generation first; each step holds the programs that it was made from. Inspirations are
        in it but not followed. Empty for a seed. Raises StoreError for an unknown program.
        """
        if connection.scalar(select(programs.c.id).where(programs.c.id == program_id)) is None:
            raise StoreError(f"no program {program_id} is stored; expected the full id of one")
        steps: list[tuple[Candidate, tuple[Parent, ...]]] = []
        seen = {program_id}
        wanted = [program_id]
        while wanted:
            generation = _origins(connection, run_id, wanted)
            wanted = []
            for candidate in generation:
                steps.append((candidate, candidate.parents))
                for parent in candidate.parents:
                    if parent.role is not ParentRole.INSPIRATION and parent.program_id not in seen:
                        seen.add(parent.program_id)
                        wanted.append(parent.program_id)
        named = {parent.program_id for _, parents in steps for parent in parents}
        sources: dict[str, Program] = {}
        for page in _pages(sorted(named)):
            for row in connection.execute(select(programs).where(programs.c.id.in_(page))):
                sources[row.id] = Program(row.source, row.id)
        return [
            LineageStep(candidate, tuple((parent.role, sources[parent.program_id]) for parent in parents))
            for candidate, parents in steps
        ]


def _origins(connection: Connection, run_id: str, program_ids: Sequence[str]) -> list[Candidate]:
    """Return for each program the candidate that was new to the run with it, in the order of the programs.

    A seed has none, also when it was proposed again: neither its ticket nor a duplicate is its origin.
    """
    first: dict[str, Candidate] = {}
    seeds = select(prompts.c.id).where(prompts.c.run_id == run_id, prompts.c.kind == PromptKind.SEED)
    for page in _pages(program_ids):
        told = select(candidates.c.position).where(
            candidates.c.run_id == run_id, candidates.c.program_id.in_(page)
        )
        where = and_(tells.c.run_id == run_id, tells.c.position.in_(told), tells.c.prompt_id.not_in(seeds))
        for _, candidate in candidates_where(connection, where):
            if candidate.program is not None and candidate.parse_status is ParseStatus.PARSED:
                first.setdefault(candidate.program.id, candidate)
    return [first[program_id] for program_id in program_ids if program_id in first]


def _pages(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _IDS_PAGE] for start in range(0, len(values), _IDS_PAGE))
