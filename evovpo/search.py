"""Ask and tell: the only object with search state. No I/O, no clock, no global randomness.

`ask` hands out tickets (`Prompt`), `tell` takes judged replies in any order. Everything that
happens follows from the order of asks and tells: randomness derives from (run seed, sequence
number of the ask), so replaying a stored history rebuilds the same state.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.config import SearchConfig
from evovpo.errors import SearchError
from evovpo.joins import Join, Joiner
from evovpo.population import Grid, Insertion, InsertionStatus, Island, Member
from evovpo.prompts import PromptFormat, Request, Shown, alignment_fault, choose_rows
from evovpo.selection import SELECTIONS, inspirations
from evovpo.types import (
    Evaluation,
    Message,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Tell,
    content_id,
)

_JOIN_PARTNERS = 24
"""Members that a new program is tried with; the pool is a front, so this is nearly all of it."""
_QUEUED_JOINS = 256
"""Joins that wait for their turn; the worst of more are forgotten."""

_QueuedJoin = tuple[tuple[int, ...], str, Join]
"""Priority (lower first), id of its program, and the join: a heap entry."""


class Best(NamedTuple):
    """The best program so far: most mean reward, then most passed, then shortest, then first."""

    program: Program
    evaluation: Evaluation
    mean_reward: float
    passed: int
    """Objectives at full reward."""

    @property
    def rank(self) -> tuple[float, int, int]:
        """What a better program has more of."""
        return (self.mean_reward, self.passed, -len(self.program.source))


class _Ticket:
    """An ask and which of its replies were told."""

    __slots__ = ("joins", "prompt", "told")

    def __init__(self, prompt: Prompt, joins: Sequence[Join] = ()) -> None:
        self.prompt = prompt
        self.joins = tuple(joins)
        self.told: set[int] = set()

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(index for index in range(self.prompt.rollouts) if index not in self.told)


class Search:
    """The state of one run, driven by `ask` and `tell`.

    `budget` counts proposed candidates: every slot of every ticket of a model, and joins.
    """

    def __init__(
        self, problem: Problem, config: SearchConfig, prompt_format: PromptFormat, run_id: str, seed: int
    ) -> None:
        self.problem = problem
        self.run_id = run_id
        self._config = config
        self._format = prompt_format
        self._seed = seed
        names = [objective.name for objective in problem.objectives]
        self._grid = Grid(problem.features, names)
        self._islands = [Island(index, config.elites, self._grid) for index in range(config.islands)]
        self._select = SELECTIONS[config.selection]
        self._tickets: dict[str, _Ticket] = {}
        self._sequence = 0
        self._model_asks = 0
        self._tells = 0
        self._reserved = 0
        self._proposed = 0
        self._joined = 0
        self._shown: dict[str, Shown] = {}
        self._members = 0
        self._best: Best | None = None
        self._joiner = Joiner(problem) if config.joins and not alignment_fault(problem) else None
        self._joins_given_out = 0
        self._join_queue: list[_QueuedJoin] = []
        self._lone_row_joins: list[_QueuedJoin] = []
        self._queued: set[str] = set()

    @property
    def tells(self) -> int:
        """Tells applied so far."""
        return self._tells

    @property
    def proposed(self) -> int:
        """Candidates told so far; what the budget counts."""
        return self._proposed

    @property
    def joined(self) -> int:
        """Joins among the candidates told so far."""
        return self._joined

    @property
    def best(self) -> Best | None:
        """The best program so far, none before the first tell."""
        return self._best

    @property
    def is_solved(self) -> bool:
        """True if some program has full reward on every objective."""
        return self._best is not None and self._best.passed == len(self.problem.objectives)

    @property
    def islands(self) -> tuple[Island, ...]:
        """The sub-populations, for reports and tests; not to be changed from outside."""
        return tuple(self._islands)

    @property
    def open_tickets(self) -> list[tuple[Prompt, tuple[int, ...]]]:
        """Every ticket that lacks replies, oldest first, with the reply indices it lacks."""
        return [(ticket.prompt, ticket.missing) for ticket in self._tickets.values() if ticket.missing]

    def evaluation(self, program_id: str) -> Evaluation | None:
        """Return the judgement of a program that this run has proposed, or none."""
        shown = self._shown.get(program_id)
        return None if shown is None else shown.evaluation

    def program(self, program_id: str) -> Program | None:
        """Return a program that this run has proposed and judged, or none."""
        shown = self._shown.get(program_id)
        return None if shown is None else shown.program

    def join_parents(self, prompt_id: str) -> list[tuple[Parent, ...]]:
        """Return the parents of each proposal of a join ticket."""
        joins = self._ticket(prompt_id).joins
        return [
            (Parent(j.then_id, ParentRole.JOIN_THEN), Parent(j.else_id, ParentRole.JOIN_ELSE)) for j in joins
        ]

    def ask(self) -> Prompt | None:
        """Return the next ticket, or none when the budget is given out."""
        remaining = self._config.evaluations - self._reserved
        rng = np.random.default_rng([self._seed, self._sequence])
        if self._sequence == 0:
            return self._hand_out(self._ticket_for(PromptKind.SEED, 0, rng, proposals=self.problem.seeds))
        if remaining <= 0:
            return None
        joins = self._pop_joins(remaining)
        if joins:
            prompt = self._ticket_for(PromptKind.JOIN, 0, rng, proposals=[join.program for join in joins])
            self._joins_given_out += len(joins)
            return self._hand_out(prompt, joins)
        return self._hand_out(self._model_ticket(remaining, rng))

    def tell(self, tell: Tell) -> list[Insertion]:
        """Apply one judged reply and return what became of its programs.

        Replies may come in any order; telling the same reply twice changes nothing. Raises
        `SearchError` for an unknown ticket, a reply that does not fit it, or a vector of the wrong length;
        then nothing is applied.
        """
        ticket = self._ticket(tell.prompt_id)
        prompt = ticket.prompt
        index = 0 if tell.rollout is None else tell.rollout.index
        if index in ticket.told:
            return []
        if not 0 <= index < prompt.rollouts:
            raise SearchError(
                f"reply {index} was told to prompt {prompt.id}, which asked for {prompt.rollouts}"
            )
        is_model_reply = tell.rollout is not None
        if is_model_reply != prompt.has_model:
            raise SearchError(
                f"prompt {prompt.id} is a {prompt.kind} ticket; its replies come "
                + ("without a rollout" if is_model_reply else "each with the rollout that a model wrote")
            )
        expected = prompt.answers if is_model_reply else len(prompt.proposals)
        if len(tell.judged) != expected:
            raise SearchError(
                f"reply {index} to prompt {prompt.id} has {len(tell.judged)} candidates, expected "
                f"{expected}: one for each slot, also for one without a program"
            )
        for judged in tell.judged:
            rewards = None if judged.evaluation is None else judged.evaluation.rewards
            if rewards is not None and len(rewards) != len(self.problem.objectives):
                raise SearchError(
                    f"a reward vector of {len(rewards)} components was told; "
                    f"problem '{self.problem.id}' has {len(self.problem.objectives)} objectives"
                )
        ticket.told.add(index)
        self._tells += 1
        if prompt.kind is not PromptKind.SEED:
            self._proposed += len(tell.judged)
        if prompt.kind is PromptKind.JOIN:
            self._joined += len(tell.judged)
        insertions: list[Insertion] = []
        for judged in tell.judged:
            program, evaluation = judged.candidate.program, judged.evaluation
            if (
                judged.candidate.parse_status is ParseStatus.PARSED
                and program
                and evaluation
                and evaluation.rewards
            ):
                insertions += self._take(program, evaluation, prompt)
        return insertions

    def _take(self, program: Program, evaluation: Evaluation, prompt: Prompt) -> list[Insertion]:
        assert evaluation.rewards is not None
        self._shown[program.id] = Shown(program, evaluation)
        member = Member(program.id, program.source, evaluation.rewards, self._members)
        self._members += 1
        mean = sum(member.rewards) / len(member.rewards)
        passed = sum(value >= 1.0 for value in member.rewards)
        new = Best(program, evaluation, mean, passed)
        if self._best is None or new.rank > self._best.rank:
            self._best = new
        if self._grid.learn(member):
            for island in self._islands:
                island.fill_cells()
        homes = self._islands if prompt.kind is PromptKind.SEED else [self._islands[prompt.island]]
        insertions = [Insertion(member.program_id, island.index, island.insert(member)) for island in homes]
        if self._joiner and any(insertion.status is not InsertionStatus.REJECTED for insertion in insertions):
            self._queue_joins(member)
        return insertions

    def _queue_joins(self, member: Member) -> None:
        """Look for joins of a new member with the elites of every island that would be the best program."""
        assert self._joiner is not None
        best = 0 if self._best is None else self._best.passed
        partners = {m.program_id: m for island in self._islands for m in island.elites}
        partners.pop(member.program_id, None)
        nearest = heapq.nsmallest(
            _JOIN_PARTNERS, partners.values(), key=lambda m: (-sum(m.rewards), len(m.source), m.order)
        )
        for join in self._joiner.joins(member, nearest, self._config.join_proposals, above=best):
            if join.program.id in self._queued or join.program.id in self._shown:
                continue
            self._queued.add(join.program.id)
            priority = (-join.passed, -min(join.smaller_side, 2), len(join.program.source))
            # A condition that singles out one row explains nothing; such joins wait for the end.
            queue = self._lone_row_joins if join.smaller_side < 2 else self._join_queue
            heapq.heappush(queue, (priority, join.program.id, join))
        for queue in (self._join_queue, self._lone_row_joins):
            if len(queue) > _QUEUED_JOINS:
                queue[:] = heapq.nsmallest(_QUEUED_JOINS, queue)

    def _pop_joins(self, remaining: int) -> list[Join]:
        """Return the joins to propose now: better than the best so far, within their share of the budget."""
        if self._reserved >= self._config.evaluations * self._config.lone_row_joins_after:
            while self._lone_row_joins:
                heapq.heappush(self._join_queue, self._lone_row_joins.pop())
        share = int(self._config.evaluations * self._config.join_share)
        room = min(self._config.join_proposals, remaining, share - self._joins_given_out)
        best = 0 if self._best is None else self._best.passed
        chosen: list[Join] = []
        while self._join_queue and len(chosen) < room:
            join = heapq.heappop(self._join_queue)[2]
            if join.passed > best and join.program.id not in self._shown:
                chosen.append(join)
        return chosen

    def _model_ticket(self, remaining: int, rng: np.random.Generator) -> Prompt:
        island = self._islands[self._model_asks % len(self._islands)]
        self._model_asks += 1
        round_number, position = divmod(
            self._model_asks, len(self._islands) * self._config.migration_interval
        )
        if position == 0 and round_number > 0:
            self._migrate()
        answers = min(self._config.answers, remaining)
        rollouts = min(self._config.rollouts, remaining // answers)
        parent, shown_inspirations, only = None, [], None
        if island.members:
            chosen = self._select(island.rewards_N_D, island.cells_N, rng)
            member = island.members[chosen]
            if rng.random() >= self._config.root_share:
                parent = self._showable(member, ParentRole.PARENT)
                picks = inspirations(island.rewards_N_D, chosen, self._config.inspirations, rng)
                found = [self._showable(island.members[pick], ParentRole.INSPIRATION) for pick in picks]
                shown_inspirations = [item for item in found if item is not None]
            elif rng.random() < self._config.focus_share:
                failed = [row for row, value in enumerate(member.rewards) if value < 1.0]
                if self.problem.is_by_example and 2 <= len(failed) < len(member.rewards):
                    only = failed
        rows = choose_rows(len(self.problem.train), rng, only)
        messages = self._format.messages(
            self.problem,
            Request(answers, parent=parent, inspirations=tuple(shown_inspirations), rows=rows),
        )
        parents = [] if parent is None else [Parent(parent.program.id, ParentRole.PARENT)]
        parents += [Parent(item.program.id, ParentRole.INSPIRATION) for item in shown_inspirations]
        kind = PromptKind.ROOT if parent is None else PromptKind.MUTATE
        return self._ticket_for(kind, island.index, rng, parents, messages, rollouts, answers)

    def _showable(self, member: Member, role: ParentRole) -> Shown | None:
        """Return the program as a prompt shows it, or none if the format cannot show it in this part."""
        shown = self._shown[member.program_id]
        return shown if self._format.can_show(self.problem, shown.program, role) else None

    def _ticket_for(
        self,
        kind: PromptKind,
        island: int,
        rng: np.random.Generator,
        parents: Sequence[Parent] = (),
        messages: Sequence[Message] = (),
        rollouts: int = 1,
        answers: int = 0,
        proposals: Sequence[Program] = (),
    ) -> Prompt:
        return Prompt(
            id=content_id(self.run_id, str(self._sequence)),
            run_id=self.run_id,
            sequence=self._sequence,
            tells_before=self._tells,
            kind=kind,
            island=island,
            parents=tuple(parents),
            messages=tuple(messages),
            rollouts=rollouts,
            answers=answers,
            seed=int(rng.integers(2**31)),
            proposals=tuple(proposals),
        )

    def _hand_out(self, prompt: Prompt, joins: Sequence[Join] = ()) -> Prompt:
        self._tickets[prompt.id] = _Ticket(prompt, joins)
        self._sequence += 1
        self._reserved += prompt.slots
        return prompt

    def _migrate(self) -> None:
        """Copy the first-chosen elites of every island to the next one in the ring."""
        rng = np.random.default_rng([self._seed, self._sequence, 1])
        moving: list[list[Member]] = []
        for island in self._islands:
            pool = island.members
            count = min(self._config.migrants, len(pool))
            picks = {self._select(island.rewards_N_D, island.cells_N, rng) for _ in range(count)}
            moving.append([pool[pick] for pick in sorted(picks)])
        for island, members in zip(self._islands, [moving[-1], *moving[:-1]], strict=True):
            for member in members:
                island.insert(member)

    def _ticket(self, prompt_id: str) -> _Ticket:
        ticket = self._tickets.get(prompt_id)
        if ticket is None:
            raise SearchError(
                f"no ticket {prompt_id} was handed out by this search; "
                "tell replies to prompts that `ask` returned"
            )
        return ticket
