"""A prompt format, a problem and a loop so plain that every step of a search can be followed by hand.

A program is one line of text: its rewards, then anything, as `0.5 1.0 # name`. A line that begins with
`fail` is a program that fails, one that begins with `bad` is no program.
"""

import copy
from collections.abc import Mapping, Sequence
from random import Random

from judging import evaluation, judged

from evovpo.config import SearchConfig
from evovpo.prompts.request import Answer, PromptRequest
from evovpo.proposers import text_rollout
from evovpo.runs.replay import replay
from evovpo.search.population import Insertion
from evovpo.search.search import SearchState
from evovpo.types import (
    Evaluation,
    Message,
    Objective,
    ParentRole,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Sampling,
    Status,
    Tell,
)

PLAIN = Problem(
    id="plain",
    version="plain-1",
    statement="Write two numbers.",
    entry="",
    parameters=(),
    objectives=(Objective("left"), Objective("right")),
    seeds=(Program("0.1 0.1 # seed"), Program("0.2 0.2 # better seed")),
    scorer_path="score.py",
)
START, WORSE_START = PLAIN.seeds[1], PLAIN.seeds[0]


class PlainFormat:
    """Keeps what it was asked to show; a completion is one answer a line."""

    reply_tokens = 256
    max_rows = 7
    rollouts = 1

    def __init__(
        self,
        shows: Sequence[ParentRole] = tuple(ParentRole),
        others: int = 0,
        ways: Mapping[str, float] | None = None,
    ) -> None:
        self.requests: list[PromptRequest] = []
        self.others, self.ways = others, ways or {}
        self._shows = shows

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return one message that names all that is shown."""
        self.requests.append(request)
        shown = [
            None if item is None else item.program.source
            for item in (request.parent, request.partner, *request.inspirations)
        ]
        return (Message("user", repr((str(request.kind), shown, request.attempts))),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        return role in self._shows

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        lines = rollout.text.split("\n")[:answers]
        found = [
            Answer(line, None, None, "it is bad" if line.startswith("bad!") else "")
            if not line or line.startswith("bad")
            else Answer(line, Program(line), None)
            for line in lines
        ]
        return found + [Answer("", None, None)] * (answers - len(found))


def judge(program: Program) -> Evaluation:
    """Return the rewards that a program begins with; one that is no numbers fails."""
    fails = program.source.startswith("fail")
    rewards = (0.0, 0.0) if fails else tuple(map(float, program.source.split()[:2]))
    status = Status.ERROR if fails else Status.OK
    feedback = f"{program.source} went wrong" if fails else ""
    return evaluation(program.id, PLAIN.version, rewards, status, feedback=feedback)


def random_text(rng: Random) -> str:
    """Return an answer: mostly a program, some that fail, some that are none."""
    kind = rng.choice(["ok"] * 4 + ["fail", "bad!"])
    if kind != "ok":
        return f"{kind} {rng.random()}"
    return f"{rng.random():.2f} {rng.random():.2f} # {rng.randrange(10**6)}"


class PlainLoop:
    """Asks and tells by hand; `requests` is what each prompt was made of.

    Unless the changes say otherwise there is one island, and every ask improves the best program.
    """

    def __init__(
        self, format_: PlainFormat | None = None, problem: Problem = PLAIN, seed: int = 0, **changes: object
    ) -> None:
        settings: dict[str, object] = {"evaluations": 1000, "islands": 1, **changes}
        if settings.get("strategy", "islands") == "islands":
            settings.setdefault("ways", {"climb": 1.0})
        self.config = SearchConfig().changed(**settings)  # type: ignore[arg-type]
        self.format = format_ or PlainFormat()
        self.search = SearchState(problem, self.config, self.format, "run", seed)
        self.history: list[Prompt | Tell] = []

    @property
    def requests(self) -> list[PromptRequest]:
        return self.format.requests

    def ask(self) -> Prompt:
        """Return the next ticket of a model, after telling the starting programs."""
        prompt = self.search.ask()
        assert prompt is not None
        self.history.append(prompt)
        if prompt.kind is PromptKind.SEED:
            self._apply(judged(self.search, prompt, None, judge))
            return self.ask()
        return prompt

    def tell(self, prompt: Prompt, text: str, index: int = 0) -> list[Insertion]:
        rollout = text_rollout(prompt, index, text, Sampling())
        return self._apply(judged(self.search, prompt, rollout, judge))

    def step(self, *texts: str) -> Prompt:
        """Ask, and tell a group of completions."""
        prompt = self.ask()
        for index, text in enumerate(texts):
            self.tell(prompt, text, index)
        return prompt

    def run_shuffled(self, rng: Random) -> None:
        """Use up the budget with random answers, in replies that come in any order."""
        waiting: list[tuple[Prompt, int]] = []
        prompt: Prompt | None = self.ask()
        while prompt is not None or waiting:
            if prompt is not None:
                waiting += [(prompt, index) for index in range(prompt.rollouts)]
            while len(waiting) > 8 or (waiting and prompt is None):
                ticket, index = waiting.pop(rng.randrange(len(waiting)))
                self.tell(
                    ticket, "\n".join(random_text(rng) for _ in range(ticket.answers)) or "noted", index
                )
            prompt = None if prompt is None else self.search.ask()
            if prompt is not None:
                self.history.append(prompt)

    def rebuilt(self) -> SearchState:
        """Return the search that the history makes again, every prompt compared and every answer read."""
        search = SearchState(self.search.standing.problem, self.config, copy.deepcopy(self.format), "run", 0)
        replay(search, self.history, reads_again=True)
        return search

    @property
    def tells(self) -> list[Tell]:
        return [event for event in self.history if isinstance(event, Tell)]

    def parents(self, prompt: Prompt) -> list[tuple[str, ParentRole]]:
        """Return the sources of the programs that a prompt shows, each with its part."""
        found = []
        for parent in prompt.parents:
            program = self.search.standing.programs[parent.program_id].program
            found.append((program.source, parent.role))
        return found

    def _apply(self, tell: Tell) -> list[Insertion]:
        self.history.append(tell)
        return self.search.tell(tell)
