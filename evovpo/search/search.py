"""Ask and tell: the only object with search state. No I/O, no clock, no global randomness.

`ask` hands out tickets (`Prompt`), `tell` takes judged replies in any order. Everything that
happens follows from the order of asks and tells: randomness derives from (run seed, sequence
number of the ask), so replaying a stored history rebuilds the same state.

Islands are held here; other strategies (`evovpo/search/strategies.py`) choose the parent of an ask and leave
the rest: one population for reports, no migration, no joins.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.builtin.expression_prompts import alignment_fault
from evovpo.config import SearchConfig
from evovpo.errors import SearchError
from evovpo.prompts import Attempt, PromptFormat, Request, Shown, choose_rows
from evovpo.search.joins import Join, Joiner
from evovpo.search.novelty import text_fault
from evovpo.search.population import Grid, Insertion, InsertionStatus, Island, Member, best_member
from evovpo.search.selection import SELECTIONS, inspirations
from evovpo.search.strategies import Strategy, make_strategy
from evovpo.types import (
    Evaluation,
    Judged,
    Message,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Status,
    Tell,
    content_id,
)

_JOIN_PARTNERS = 24
"""Members that a new program is tried with; the pool is a front, so this is nearly all of it."""
_QUEUED_JOINS = 256
"""Joins that wait for their turn; the worst of more are forgotten."""

_REPAIRS = 2
"""Asks that one failing program is worth."""
_FAILING = 64
"""Failing programs of an island that wait to be repaired; older ones are forgotten."""
_NAMED = 5
"""Objectives that the reason of a failed attempt names."""
_NOTES_CHARACTERS = 4000
"""Of notes that a model wrote, what later prompts show."""
_NOTED_PROGRAMS = 3
"""Programs beside the best one that notes are made from."""

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

    __slots__ = ("joins", "neighbours", "prompt", "told")

    def __init__(self, prompt: Prompt, neighbours: Sequence[Member], joins: Sequence[Join]) -> None:
        self.prompt = prompt
        self.neighbours = neighbours
        """What lived on the island when the ticket was handed out: what its answers must be novel against."""
        self.joins = tuple(joins)
        self.told: set[int] = set()

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(index for index in range(self.prompt.rollouts) if index not in self.told)


class _Plan(NamedTuple):
    """What an ask is to show."""

    kind: PromptKind
    parent: Shown | None = None
    partner: Shown | None = None
    inspirations: tuple[Shown, ...] = ()
    only: Sequence[int] | None = None
    """Training rows that it concentrates on, or none for all."""

    @property
    def parents(self) -> list[Parent]:
        shown = [
            (self.parent, ParentRole.PARENT),
            (self.partner, ParentRole.PARTNER),
            *((item, ParentRole.INSPIRATION) for item in self.inspirations),
        ]
        return [Parent(item.program.id, role) for item, role in shown if item is not None]


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
        # A prompt that shows no program says too little where only the evaluator knows what to define.
        self._needs_program = problem.evaluator is not None
        self._strategy: Strategy | None = make_strategy(config, self._needs_program)
        self._has_memory = self._strategy is None or self._strategy.has_memory
        islands = config.islands if self._strategy is None else 1
        self._islands = [Island(index, config.elites, self._grid) for index in range(islands)]
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
        self._improved_at = 0
        self._has_target = False
        self._gains: list[float] = []
        self._seeds: list[Member] = []
        self._attempts: dict[str, deque[Attempt]] = {}
        self._recent_attempts: deque[Attempt] = deque(maxlen=config.attempts)
        self._failing: list[deque[str]] = [deque(maxlen=_FAILING) for _ in self._islands]
        self._repairs: dict[str, int] = {}
        self._stale_asks = [0] * islands
        self._restarts = 0
        self._notes = ""
        self._noted_at = 0
        has_joins = config.joins and self._strategy is None and not alignment_fault(problem)
        self._joiner = Joiner(problem) if has_joins else None
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
    def stop_reason(self) -> str:
        """Why the search should end before its budget is used: target or no progress. Empty if it goes on."""
        if self._has_target:
            return f"the target of {self._config.target} is reached"
        patience = self._config.patience
        if patience and self._proposed - self._improved_at >= patience:
            return f"no better program in {patience} evaluations"
        return ""

    @property
    def is_ready(self) -> bool:
        """False while the next ask should wait for replies to tickets that are open."""
        return self._strategy is None or self._strategy.is_ready

    @property
    def gains(self) -> Sequence[float]:
        """By how much each tell raised the best mean reward, in the order of the tells."""
        return self._gains

    @property
    def restarts(self) -> int:
        """Islands that were emptied and started anew so far."""
        return self._restarts

    @property
    def notes(self) -> str:
        """What a model wrote down last about the search; empty before."""
        return self._notes

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

    def neighbours(self, prompt_id: str) -> Sequence[Member]:
        """Return the programs that answers to a ticket must be novel against, as they were at its ask."""
        return self._ticket(prompt_id).neighbours

    def novelty_fault(self, prompt_id: str, program: Program) -> str:
        """Return why an answer to a ticket is refused by its text; empty if it may be evaluated.

        It depends on the ticket and the program alone, whenever it is asked.
        """
        return text_fault(program.source, self._ticket(prompt_id).neighbours, self._config.novelty)

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
        return self._hand_out(self._notes_ticket(rng) or self._model_ticket(remaining, rng))

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
        best_before = self._best.mean_reward if self._best else 0.0
        insertions: list[Insertion] = []
        offspring: list[Member] = []
        for judged in tell.judged:
            program, evaluation = judged.candidate.program, judged.evaluation
            if (
                judged.candidate.parse_status is ParseStatus.PARSED
                and program
                and evaluation
                and evaluation.rewards
            ):
                member = Member(program.id, program.source, evaluation.rewards, self._members)
                insertions += self._take(member, program, evaluation, prompt)
                if evaluation.status is Status.OK or prompt.kind is PromptKind.SEED:
                    offspring.append(member)
        self._gains.append((self._best.mean_reward if self._best else 0.0) - best_before)
        if prompt.kind is PromptKind.NOTES:
            assert tell.rollout is not None
            self._notes = tell.rollout.text.strip()[:_NOTES_CHARACTERS] or self._notes
        elif self._has_memory:
            self._learn_from_failures(prompt, tell)
        if self._strategy is not None and prompt.kind is not PromptKind.NOTES:
            self._strategy.observe(prompt, offspring, is_complete=not ticket.missing)
        return insertions

    def _take(
        self, member: Member, program: Program, evaluation: Evaluation, prompt: Prompt
    ) -> list[Insertion]:
        self._shown[program.id] = Shown(program, evaluation)
        self._members += 1
        if prompt.kind is PromptKind.SEED:
            self._seeds.append(member)
        passed = sum(value >= 1.0 for value in member.rewards)
        new = Best(program, evaluation, member.mean_reward, passed)
        if self._best is None or new.rank > self._best.rank:
            if self._best is None or new.rank[:2] > self._best.rank[:2]:
                self._improved_at = self._proposed
            self._best = new
        target = self._config.target_value
        self._has_target |= target is not None and reported_score(evaluation) >= target
        if self._grid.learn(member):
            for island in self._islands:
                island.fill_cells()
        homes = self._islands if prompt.kind is PromptKind.SEED else [self._islands[prompt.island]]
        insertions = [Insertion(member.program_id, island.index, island.insert(member)) for island in homes]
        for insertion in insertions:
            if insertion.status is not InsertionStatus.REJECTED:
                self._stale_asks[insertion.island] = 0
        if self._joiner and any(insertion.status is not InsertionStatus.REJECTED for insertion in insertions):
            self._queue_joins(member)
        return insertions

    def _learn_from_failures(self, prompt: Prompt, tell: Tell) -> None:
        """Keep what came to nothing: for prompts that show it, and failing programs for repair."""
        parent = _parent_of(prompt)
        is_mended = False
        for judged in tell.judged:
            reason = self._failure(judged, None if parent is None else self._shown[parent].evaluation)
            if reason and parent is not None and self._config.attempts:
                attempt = Attempt(judged.candidate.text, reason)
                own = self._attempts.setdefault(parent, deque(maxlen=self._config.attempts))
                own.append(attempt)
                self._recent_attempts.append(attempt)
            if judged.evaluation is None or judged.candidate.parse_status is not ParseStatus.PARSED:
                continue
            is_mended |= judged.evaluation.status is Status.OK
            if judged.evaluation.status.is_candidate_fault:
                for home in (
                    self._failing if prompt.kind is PromptKind.SEED else [self._failing[prompt.island]]
                ):
                    home.append(judged.evaluation.program_id)
        failing = self._failing[prompt.island]
        if prompt.kind is PromptKind.REPAIR and is_mended and parent is not None and parent in failing:
            failing.remove(parent)

    def _failure(self, judged: Judged, parent: Evaluation | None) -> str:
        """Return why an answer came to nothing, as later prompts tell it; empty if it did not."""
        candidate, evaluation = judged.candidate, judged.evaluation
        if candidate.parse_status is ParseStatus.REJECTED:
            return candidate.reason
        if candidate.parse_status is ParseStatus.UNPARSED:
            # A slot that was never written is no attempt.
            return candidate.text.strip() and (candidate.reason or "no program could be read from it")
        if (
            candidate.parse_status is ParseStatus.DUPLICATE
            or evaluation is None
            or evaluation.rewards is None
        ):
            return ""
        if evaluation.status.is_candidate_fault:
            return evaluation.feedback or str(evaluation.status)
        old = () if parent is None else parent.rewards or ()
        pairs = list(zip(self.problem.objectives, evaluation.rewards, old, strict=False))
        if not pairs or any(now > before for _, now, before in pairs):
            return ""
        worse = [objective.name for objective, now, before in pairs if now < before][:_NAMED]
        return "no better in anything" + (f", worse in {', '.join(worse)}" if worse else "")

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
        answers = min(self._config.answers, remaining)
        rollouts = min(self._config.rollouts, remaining // answers)
        number, self._model_asks = self._model_asks, self._model_asks + 1
        if self._strategy is None:
            index = number % len(self._islands)
            self._tend_islands(index)
            plan = self._island_plan(self._islands[index], rng)
        else:
            index, plan = 0, self._strategy_plan(self._strategy)
        if plan.kind is PromptKind.REPAIR and plan.parent is not None:
            program_id = plan.parent.program.id
            self._repairs[program_id] = self._repairs.get(program_id, 0) + 1
        rows = choose_rows(len(self.problem.train), rng, plan.only)
        failed = () if plan.parent is None else self._attempts.get(plan.parent.program.id, ())
        request = Request(
            answers,
            kind=plan.kind,
            parent=plan.parent,
            partner=plan.partner,
            inspirations=plan.inspirations,
            attempts=tuple(failed),
            rows=rows,
            notes=self._notes,
        )
        messages = self._format.messages(self.problem, request)
        return self._ticket_for(plan.kind, index, rng, plan.parents, messages, rollouts, answers)

    def _strategy_plan(self, strategy: Strategy) -> _Plan:
        member = strategy.choose()
        parent = None if member is None else self._showable(member, ParentRole.PARENT)
        return _Plan(PromptKind.ROOT if parent is None else PromptKind.MUTATE, parent)

    def _tend_islands(self, index: int) -> None:
        """Migrate when it is time, and start the island of the next ask anew if it is stale."""
        round_number, position = divmod(
            self._model_asks, len(self._islands) * self._config.migration_interval
        )
        if position == 0 and round_number > 0:
            self._migrate()
        self._stale_asks[index] += 1
        if 0 < self._config.restart_after < self._stale_asks[index]:
            self._restart(index)

    def _island_plan(self, island: Island, rng: np.random.Generator) -> _Plan:
        """Return what an ask of an island shows."""
        special = self._special_plan(island)
        if special is not None:
            return special
        if not island.members:
            return _Plan(PromptKind.ROOT)
        chosen = self._select(island.rewards_N_D, island.cells_N, rng)
        member = island.members[chosen]
        if rng.random() >= self._config.root_share or self._needs_program:
            parent = self._showable(member, ParentRole.PARENT)
            picks = inspirations(island.rewards_N_D, chosen, self._config.inspirations, rng)
            kind = PromptKind.ROOT if parent is None else PromptKind.MUTATE
            return _Plan(kind, parent, inspirations=self._inspiring(island, picks))
        only = None
        if rng.random() < self._config.focus_share:
            failed = [row for row, value in enumerate(member.rewards) if value < 1.0]
            if self.problem.is_by_example and 2 <= len(failed) < len(member.rewards):
                only = failed
        return _Plan(PromptKind.ROOT, only=only)

    def _special_plan(self, island: Island) -> _Plan | None:
        """Return a repair or a crossover where it is their turn and there is something to make it of."""
        repair, crossover = self._config.repair_share, self._config.crossover_share
        if repair + crossover == 0.0:
            return None
        rng = np.random.default_rng([self._seed, self._sequence, 2])
        draw = rng.random()
        if draw < repair:
            for program_id in reversed(self._failing[island.index]):
                shown = self._shown[program_id]
                if self._repairs.get(program_id, 0) < _REPAIRS and self._format.can_show(
                    self.problem, shown.program, ParentRole.PARENT
                ):
                    return _Plan(PromptKind.REPAIR, shown)
        elif draw < repair + crossover and len(island.members) > 1:
            chosen = self._select(island.rewards_N_D, island.cells_N, rng)
            picks = inspirations(island.rewards_N_D, chosen, 1 + self._config.inspirations, rng)
            parent = self._showable(island.members[chosen], ParentRole.PARENT)
            partner = self._showable(island.members[picks[0]], ParentRole.PARTNER) if picks else None
            if parent is not None and partner is not None:
                return _Plan(PromptKind.CROSSOVER, parent, partner, self._inspiring(island, picks[1:]))
        return None

    def _notes_ticket(self, rng: np.random.Generator) -> Prompt | None:
        """Return a ticket that asks for notes, if they are due and the format can show what they are about.

        It shows the best program, those that add most to it, and the last failed answers.
        """
        interval = self._config.notes_interval
        if not interval or self._model_asks - self._noted_at < interval or self._best is None:
            return None
        best = Shown(self._best.program, self._best.evaluation)
        # A format that shows no second program has no room for notes either.
        roles = (ParentRole.PARENT, ParentRole.INSPIRATION)
        if not all(self._format.can_show(self.problem, best.program, role) for role in roles):
            return None
        self._noted_at = self._model_asks
        pool = {member.program_id: member for island in self._islands for member in island.elites}
        others = [member for member in pool.values() if member.program_id != best.program.id]
        rewards_N_D = np.array([best.evaluation.rewards, *(member.rewards for member in others)])  # noqa: N806
        picks = inspirations(rewards_N_D, 0, _NOTED_PROGRAMS, rng)
        found = [self._showable(others[pick - 1], ParentRole.INSPIRATION) for pick in picks]
        plan = _Plan(PromptKind.NOTES, best, inspirations=tuple(item for item in found if item is not None))
        request = Request(
            0,
            kind=PromptKind.NOTES,
            parent=best,
            inspirations=plan.inspirations,
            attempts=tuple(self._recent_attempts),
            rows=choose_rows(len(self.problem.train), rng),
            notes=self._notes,
        )
        messages = self._format.messages(self.problem, request)
        return self._ticket_for(PromptKind.NOTES, 0, rng, plan.parents, messages)

    def _inspiring(self, island: Island, picks: Sequence[int]) -> tuple[Shown, ...]:
        found = [self._showable(island.members[pick], ParentRole.INSPIRATION) for pick in picks]
        return tuple(item for item in found if item is not None)

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
        has_novelty = self._config.novelty > 0.0 or self._config.novelty_model
        neighbours = self._islands[prompt.island].members if has_novelty else ()
        self._tickets[prompt.id] = _Ticket(prompt, neighbours, joins)
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

    def _restart(self, index: int) -> None:
        """Empty an island and found it anew with the best elite of another, or the starting programs.

        The only island that holds the best program of the run is left as it is, unless there is no other.
        """
        islands = self._islands
        others = [island for island in islands if island.index != index and island.members]
        self._stale_asks[index] = 0
        if others and self._best is not None:
            holders = [
                island.index
                for island in islands
                if any(member.program_id == self._best.program.id for member in island.members)
            ]
            if holders == [index]:
                return
        rng = np.random.default_rng([self._seed, self._sequence, 3])
        founders = self._seeds
        if others:
            founders = [best_member(others[rng.integers(len(others))].members)]
        islands[index] = Island(index, self._config.elites, self._grid)
        for founder in founders:
            islands[index].insert(founder)
        self._restarts += 1

    def _ticket(self, prompt_id: str) -> _Ticket:
        ticket = self._tickets.get(prompt_id)
        if ticket is None:
            raise SearchError(
                f"no ticket {prompt_id} was handed out by this search; "
                "tell replies to prompts that `ask` returned"
            )
        return ticket


def reported_score(evaluation: Evaluation) -> float:
    """Return the one number that a target is compared with.

    It is the `combined_score` that an evaluator of its own returned, if that is a number; else the mean
    reward.
    """
    for name, value in evaluation.metrics or ():
        if name == "combined_score" and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    rewards = evaluation.rewards or (0.0,)
    return sum(rewards) / len(rewards)


def _parent_of(prompt: Prompt) -> str | None:
    return next((parent.program_id for parent in prompt.parents if parent.role is ParentRole.PARENT), None)
