"""Searches mazes with `evovpo.search` and a maze model, many mazes at once, in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from evovpo.config import SearchConfig
from evovpo.judging.measure import JudgedAnswer
from evovpo.prompts.request import Answer, PromptRequest
from evovpo.proposers.sampler import Completion, SampleRequest
from evovpo.search.search import SearchState
from evovpo.types import (
    Candidate,
    Evaluation,
    JudgedCandidate,
    Message,
    Objective,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    Rollout,
    Status,
    Tell,
)
from trainer.domains.maze.generator import Maze
from trainer.domains.maze.maze_family import MazeFamily
from trainer.domains.task_search import Searched, TaskSearch, as_rollout, run_searches, task_seed


class _Format:
    """A placeholder, because `MazeFamily` writes the prompts. A prompt shows at most one parent."""

    reply_tokens, max_rows, rollouts, others = 0, 0, 12, 0
    ways: ClassVar[Mapping[str, float]] = {}

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        return ()

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        return role is ParentRole.PARENT

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        return ""

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        return []


@dataclass
class _MazeSearch:
    maze: Maze
    domain: MazeFamily
    search: SearchState
    temperature: float
    routes: list[JudgedAnswer] = field(default_factory=list)
    tokens: int = 0

    def ask(self) -> Prompt | None:
        return self.search.ask()

    def request(self, prompt: Prompt) -> SampleRequest:
        shown = self.search.standing.programs.get(prompt.parent_id or "")
        moves = None if shown is None else shown.program.source
        return SampleRequest(
            self.domain.prompt_ids(self.maze, 1, moves), prompt.seed, tuple(range(prompt.rollouts)),
            self.temperature, self.domain.max_tokens(1),
        )  # fmt: skip

    def tell(self, prompt: Prompt, completions: Sequence[Completion]) -> None:
        if not prompt.has_model:
            self.search.tell(Tell(prompt.id, None, ()))
        for index, completion in enumerate(completions):
            self.tokens += len(completion.token_ids)
            found = self.domain.judge(self.maze, completion.token_ids, 1)
            self.routes += found
            judged = tuple(self._judged(prompt, index, one) for one in found)
            self.search.tell(Tell(prompt.id, as_rollout(prompt, index, completion), judged))

    def _judged(self, prompt: Prompt, index: int, found: JudgedAnswer) -> JudgedCandidate:
        name = f"{prompt.id}-{index}"
        if found.key is None:
            slot = Candidate(name, prompt.id, name, 0, ParseStatus.UNPARSED)
            return JudgedCandidate(slot, None, executed=False)
        program = Program(found.key)
        known = self.search.evaluation(program.id)
        status = ParseStatus.PARSED if known is None else ParseStatus.DUPLICATE
        judgement = known or Evaluation(program.id, "", Status.OK, found.rewards, "", 0.0, "")
        slot = Candidate(name, prompt.id, name, 0, status, program)
        return JudgedCandidate(slot, judgement, executed=known is None)


def search_mazes(
    model: Any, domain: MazeFamily, mazes: Sequence[Maze], how: TaskSearch, seed: int
) -> list[Searched]:
    config = SearchConfig(
        evaluations=how.evaluations, rollouts=how.rollouts, joins=False, stop_when_solved=False
    )
    objectives = tuple(Objective(name) for name in domain.components)
    problem = Problem("maze", "", "", "", (), objectives, (), scorer_path="")
    searches = []
    for number, maze in enumerate(mazes):
        search = SearchState(problem, config, _Format(), f"maze {number}", task_seed(seed, number))
        searches.append(_MazeSearch(maze, domain, search, how.temperature))
    run_searches(model, searches)
    return [Searched(one.routes, one.tokens, solved_after(one.routes)) for one in searches]


def solved_after(routes: Sequence[JudgedAnswer]) -> int | None:
    """Return the number of routes until two of them together have reward 1 in every component, or None."""
    right_N_D = np.array([route.rewards for route in routes]) >= 1.0
    for last, right_D in enumerate(right_N_D):
        if (right_N_D[: last + 1] | right_D).all(axis=1).any():
            return last + 1
    return None
