"""Searches string tasks with `evovpo.search`, joins included, and a model; many tasks at once.

A search ends at the first program that is right on all training rows, or when its budget is spent. The task
is solved if the answer, shortened as at the end of a run, is right on its held-out rows too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.joining import join_language
from evovpo.config import SearchConfig
from evovpo.judging.evaluator import Evaluator
from evovpo.judging.measure import JudgedAnswer
from evovpo.proposers.sampler import Completion, SampleRequest, Weights, sample
from evovpo.runs.group import GroupJudge
from evovpo.search.search import SearchState
from evovpo.types import Problem, Prompt, PromptKind, Rollout, Sampling
from trainer.domains.strings.string_family import StringFamily
from trainer.domains.task_search import AT_ONCE, Searched, TaskSearch, task_seed


@dataclass
class _StringSearch:
    """The search of one task."""

    search: SearchState
    judge: GroupJudge
    evaluator: Evaluator
    answers: list[JudgedAnswer] = field(default_factory=list)
    tokens: int = 0

    def tell(self, prompt: Prompt, rollouts: Sequence[Rollout | None]) -> None:
        """Judge the replies to a ticket (None for a ticket that carries its programs) and tell the search."""
        found = self.judge.find_at_once(prompt, rollouts)
        for tell in self.judge.tells(prompt, rollouts, found):
            self.search.tell(tell)
            if prompt.kind is PromptKind.SHORTEN:
                continue
            zeros = (0.0,) * len(self.search.problem.objectives)
            for one in tell.judged:
                rewards = zeros if one.evaluation is None else one.evaluation.rewards
                program = one.candidate.program
                self.answers.append(JudgedAnswer(None if program is None else program.id, rewards))

    def searched(self) -> Searched:
        """Return the result of the search, with a shortened answer."""
        while (prompt := self.search.shorten()) is not None:
            self.tell(prompt, [None])
        best, after = self.search.best, None
        if self.search.is_solved and best and all(self.evaluator.evaluate_heldout(best.program)):
            after = next(number for number, one in enumerate(self.answers, 1) if one.is_right)
        return Searched(self.answers, self.tokens, after)


def search_strings(
    model: Any, domain: StringFamily, tasks: Sequence[Problem], how: TaskSearch, seed: int
) -> list[Searched]:
    """Search tasks with the model's current weights; the same seed gives the same searches."""
    config = SearchConfig(evaluations=how.evaluations, rollouts=how.rollouts, joins=how.joins)
    weights, ends = Weights(model), model.generation_config.eos_token_id
    end_ids = (ends,) if isinstance(ends, int) else tuple(ends)
    running = []
    for number, task in enumerate(tasks):
        name, own = f"strings {number}", task_seed(seed, number)
        search = SearchState(task, config, ExpressionFormat(task), name, own, join_language(task))
        evaluator = Evaluator(task, domain.sandbox)
        running.append(_StringSearch(search, GroupJudge(search, evaluator.evaluate), evaluator))
    open_ones = running
    while asked := [
        (one, prompt)
        for one in open_ones
        if not one.search.is_solved and (prompt := one.search.ask()) is not None
    ]:
        open_ones = [one for one, _ in asked]
        for first in range(0, len(asked), AT_ONCE):
            part = asked[first : first + AT_ONCE]
            of_model = [(one, prompt) for one, prompt in part if prompt.has_model]
            requests = [_request(domain, prompt, how) for _, prompt in of_model]
            for (one, prompt), found in zip(of_model, sample(weights, requests, end_ids), strict=True):
                one.tokens += sum(len(completion.token_ids) for completion in found)
                one.tell(prompt, [_rollout(domain, prompt, *reply) for reply in enumerate(found)])
            for one, prompt in part:
                if not prompt.has_model:
                    one.tell(prompt, [None])
    return [one.searched() for one in running]


def _request(domain: StringFamily, prompt: Prompt, how: TaskSearch) -> SampleRequest:
    ids = domain.encode("".join(message.content for message in prompt.messages))
    indices = tuple(range(prompt.rollouts))
    return SampleRequest(ids, prompt.seed, indices, how.temperature, domain.max_tokens(prompt.answers))


def _rollout(domain: StringFamily, prompt: Prompt, index: int, reply: Completion) -> Rollout:
    text = domain.decode(reply.token_ids)
    return Rollout(
        f"{prompt.id}-{index}", prompt.id, index, 0, text, reply.token_ids, reply.logprobs, None, Sampling(),
        "stop", 0.0,
    )  # fmt: skip
