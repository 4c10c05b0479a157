"""Searches many string tasks at once with `evovpo.search` and a model.

A search ends when the budget is spent or a program is right on all training rows. Such a program is then
shortened. The task is solved if the shortened program is also right on the held-out rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.joining import join_language
from evovpo.config import SearchConfig
from evovpo.judging.evaluator import Evaluator
from evovpo.judging.measure import JudgedAnswer
from evovpo.proposers.sampler import Completion, SampleRequest
from evovpo.runs.group import GroupJudge
from evovpo.search.search import SearchState
from evovpo.types import Problem, Prompt, PromptKind, Rollout
from trainer.domains.strings.string_family import StringFamily
from trainer.domains.task_search import Searched, TaskSearch, as_rollout, run_searches, task_seed


@dataclass
class _StringSearch:
    domain: StringFamily
    search: SearchState
    evaluator: Evaluator
    temperature: float
    answers: list[JudgedAnswer] = field(default_factory=list)
    tokens: int = 0

    def ask(self) -> Prompt | None:
        return None if self.search.standing.is_solved else self.search.ask()

    def request(self, prompt: Prompt) -> SampleRequest:
        return SampleRequest(
            self.domain.encode("".join(message.content for message in prompt.messages)), prompt.seed,
            tuple(range(prompt.rollouts)), self.temperature, self.domain.max_tokens(prompt.answers),
        )  # fmt: skip

    def tell(self, prompt: Prompt, completions: Sequence[Completion]) -> None:
        self.tokens += sum(len(completion.token_ids) for completion in completions)
        rollouts: list[Rollout | None] = [
            as_rollout(prompt, index, one, self.domain.decode(one.token_ids))
            for index, one in enumerate(completions)
        ]
        judge = GroupJudge(self.search, self.evaluator.evaluate)
        replies = rollouts or [None]
        for tell in judge.tells(prompt, replies, judge.find_at_once(prompt, replies)):
            self.search.tell(tell)
            if prompt.kind is PromptKind.SHORTEN:
                continue
            zeros = (0.0,) * len(self.search.standing.problem.objectives)
            for one in tell.judged:
                rewards = zeros if one.evaluation is None else one.evaluation.rewards
                program = one.candidate.program
                self.answers.append(JudgedAnswer(None if program is None else program.id, rewards))

    def searched(self) -> Searched:
        while (prompt := self.search.shorten()) is not None:
            self.tell(prompt, [])
        best, after = self.search.standing.best, None
        if self.search.standing.is_solved and best and all(self.evaluator.evaluate_heldout(best.program)):
            after = next(number for number, one in enumerate(self.answers, 1) if one.is_right)
        return Searched(self.answers, self.tokens, after)


def search_strings(
    model: Any, domain: StringFamily, tasks: Sequence[Problem], how: TaskSearch, seed: int
) -> list[Searched]:
    config = SearchConfig(evaluations=how.evaluations, rollouts=how.rollouts, joins=how.joins)
    searches = []
    for number, task in enumerate(tasks):
        name, own = f"strings {number}", task_seed(seed, number)
        search = SearchState(task, config, ExpressionFormat(task), name, own, join_language(task))
        searches.append(_StringSearch(domain, search, Evaluator(task, domain.sandbox), how.temperature))
    run_searches(model, searches)
    return [one.searched() for one in searches]
