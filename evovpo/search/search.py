"""The search: `ask` returns prompts, and `tell` takes evaluated replies in any order.

Random numbers derive only from the run's seed and the prompt's sequence number. So the same calls of `ask`
and `tell` always lead to the same state, and a stored run can be replayed.
"""

from collections import defaultdict

import numpy as np

from evovpo.config import SearchConfig
from evovpo.prompts.replies import idea_of
from evovpo.prompts.request import PromptFormat, PromptRequest, ShownProgram, choose_rows
from evovpo.search.joins import JoinLanguage, Joins
from evovpo.search.memory import Failures
from evovpo.search.population import Insertion, InsertionStatus, Member, Population
from evovpo.search.standing import Standing
from evovpo.search.strategies import Reply, make_strategy
from evovpo.search.tickets import Tickets
from evovpo.search.ways import Plan
from evovpo.types import (
    Evaluation,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Prompt,
    PromptKind,
    Status,
    Tell,
)

_MAY_JOIN = (InsertionStatus.IMPROVED, InsertionStatus.NEW_CELL)
BEFORE_FEEDBACK = 8


class SearchState:
    """The state of one search, changed by `ask` and `tell`.

    The budget `config.evaluations` is a number of candidates. Every answer in every completion counts, and so
    does every join, a program made from two others without a model. Joins are made only if `config.joins` is
    true and a join `language` is given. Prompt ids derive from `run_id`, and random choices from `seed`.
    """

    def __init__(
        self,
        problem: Problem,
        config: SearchConfig,
        prompt_format: PromptFormat,
        run_id: str = "",
        seed: int = 0,
        language: JoinLanguage | None = None,
    ) -> None:
        self.standing = Standing(problem, config, prompt_format)
        self.run_id = run_id
        self._seed = seed
        # Public attributes are read by reports and tests, and not changed from outside.
        self.tickets = Tickets(run_id)
        # Strategies other than islands keep one sub-population, for reports.
        islands = config.islands if config.strategy == "islands" else 1
        self.population = Population(problem, islands, config.elites)
        self._failures = Failures(self.standing, islands)
        self.language = language
        self._formats = [(0, prompt_format)]
        self._strategy = make_strategy(self.population, self._failures, self.standing)
        self._shortened: set[str] = set()
        self._joins = Joins(self.standing, language if self._strategy.has_memory else None)

    @property
    def is_ready(self) -> bool:
        """True if `ask` may be called now, False if it must wait for more replies."""
        config, proposed = self.standing.config, self.standing.proposed
        kept, given_out = self._joins.unspent, self.tickets.reserved
        of_an_ask = self._rollouts * config.answers
        waits = kept > 0 and config.evaluations - given_out - of_an_ask < kept
        waits |= proposed == 0 and given_out + of_an_ask > config.evaluations // BEFORE_FEEDBACK
        return not (waits and given_out > proposed)

    @property
    def _rollouts(self) -> int:
        return self.standing.config.rollouts or self.standing.prompt_format.rollouts

    def format_of(self, prompt: Prompt) -> PromptFormat:
        """Return the prompt format that made a prompt and parses the replies to this prompt."""
        return next(made_by for first, made_by in reversed(self._formats) if first <= prompt.sequence)

    def go_on(self, config: SearchConfig, prompt_format: PromptFormat) -> None:
        """Use new settings, and restart the count of evaluations without progress (`config.patience`).

        Settings in `runs.request.FIXED` must not change.
        """
        self.standing.go_on(config, prompt_format)
        self._formats.append((len(self.tickets), prompt_format))

    def evaluation(self, program_id: str) -> Evaluation | None:
        shown = self.standing.programs.get(program_id)
        return None if shown is None else shown.evaluation

    def ask(self) -> Prompt | None:
        """Return the next prompt, or None when the budget is used up. Call `ask` only if `is_ready` is true.

        Most prompts are for a model. The caller samples `prompt.rollouts` completions of `prompt.messages`,
        and passes each to `tell` as a separate reply with `prompt.answers` candidates. The other prompts,
        such as the first, contain programs (`prompt.proposals`) and need no model. The caller evaluates these
        programs, and passes them to `tell` as one `Tell` whose `rollout` is None.
        """
        rng, standing = self._generator(), self.standing
        if not self.tickets:
            seeds = standing.problem.seeds
            return self.tickets.issue(PromptKind.SEED, rng, standing.tells, answers=0, proposals=seeds)
        remaining = standing.config.evaluations - self.tickets.reserved
        if remaining <= 0:
            return None
        joins = self._joins.take(remaining)
        if joins:
            programs = tuple(join.program for join in joins)
            return self.tickets.issue(
                PromptKind.JOIN, rng, standing.tells, joins, answers=0, proposals=programs
            )
        plan = self._strategy.plan(rng, self._generator)
        answers = min(standing.config.answers, remaining)
        rollouts = min(self._rollouts, remaining // answers)
        return self._prompt(plan, rng, rollouts, answers)

    def shorten(self) -> Prompt | None:
        """Return a prompt with new, shorter variants of the best program, or None.

        The result is None if the best program does not pass all rows, or has no new variants. Call `shorten`
        at the end of a run. The variants do not count against the budget.
        """
        standing = self.standing
        if not standing.is_solved or standing.best is None or self.language is None:
            return None
        program = standing.best.program
        variants = [one for one in self.language.shorter(program.source) if one.id not in standing.programs]
        if program.id in self._shortened or not variants:
            return None
        self._shortened.add(program.id)
        rng = self._generator()
        return self.tickets.issue(
            *(PromptKind.SHORTEN, rng, standing.tells),
            answers=0,
            parents=(Parent(program.id, ParentRole.PARENT),),
            proposals=tuple(variants),
        )

    def take_over(self, prompt: Prompt) -> None:
        """Use a stored prompt of an earlier evovpo version as the next prompt, instead of calling `ask`."""
        self.tickets.take_over(prompt)
        self._joins.count(prompt)

    def _generator(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, len(self.tickets), *stream])

    def tell(self, tell: Tell) -> list[Insertion]:
        """Apply one evaluated reply, and return the outcomes of offering its new programs to the islands.

        Replies may come in any order. A repeated reply changes nothing. Raises `SearchError`, and changes
        nothing, if the prompt is unknown, the reply does not fit the prompt, or a reward vector has the wrong
        length.
        """
        ticket = self.tickets[tell.prompt_id]
        prompt = ticket.prompt
        standing = self.standing
        if not ticket.accept(tell, standing.problem):
            return []
        standing.count(prompt, len(tell.judged))
        insertions: list[Insertion] = []
        offspring: list[Member] = []
        gain, parent = 0.0, standing.programs.get(prompt.parent_id or "")
        for judged in tell.judged:
            program, evaluation = judged.candidate.program, judged.evaluation
            is_new = judged.candidate.parse_status is ParseStatus.PARSED
            if is_new and program and evaluation and evaluation.rewards:
                standing.take(program, evaluation, parent, idea_of(judged.candidate.text))
                home = None if prompt.sequence == 0 else prompt.island
                member, found = self.population.insert(program, evaluation, home)
                gain = max(gain, self.population.gain)
                if any(one.status in _MAY_JOIN for one in found):
                    self._joins.offer(member, self.population.elites.values())
                insertions += found
                if evaluation.status is Status.OK or prompt.kind is PromptKind.SEED:
                    offspring.append(member)
        if self._strategy.has_memory:
            self._failures.learn(prompt, tell, None if parent is None else parent.evaluation)
        self._strategy.observe(Reply(prompt, offspring, gain))
        return insertions

    def _prompt(self, plan: Plan, rng: np.random.Generator, rollouts: int, answers: int) -> Prompt:
        standing, made_by = self.standing, self.standing.prompt_format
        chance = self._generator(4)  # stream 1 is for strategies
        parents = list(filter(standing.can_show, (*plan.parents, *self._others(plan))))
        shown = defaultdict[ParentRole, list[ShownProgram]](list)
        for item in parents:
            shown[item.role].append(standing.programs[item.program_id])
        parent = next(iter(shown[ParentRole.PARENT]), None)
        attempts = () if parent is None else self._failures.attempts(parent.program.id)
        rows = choose_rows(len(standing.problem.train), made_by.max_rows, rng, plan.only)
        request = PromptRequest(
            answers,
            kind=PromptKind.ROOT if parent is None else plan.kind,
            parent=parent,
            partner=next(iter(shown[ParentRole.PARTNER]), None),
            inspirations=tuple(shown[ParentRole.INSPIRATION]),
            attempts=tuple(attempts),
            rows=rows,
            draw=int(chance.integers(2**31)),
        )
        return self.tickets.issue(
            request.kind,
            rng,
            standing.tells,
            island=plan.island,
            parents=tuple(parents),
            messages=made_by.messages(standing.problem, request),
            rollouts=rollouts,
            answers=answers,
            way=plan.way,
        )

    def _others(self, plan: Plan) -> list[Parent]:
        most = self.standing.prompt_format.others if plan.kind is PromptKind.MUTATE else 0
        if not most:
            return []
        members = self.population.islands[plan.island].members
        ids = (member.program_id for member in members if member.is_ok)
        others = [program_id for program_id in ids if program_id != plan.parents[0].program_id]
        return [Parent(one, ParentRole.INSPIRATION) for one in others[:most]]
