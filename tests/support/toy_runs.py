"""A small problem, programs for it and a plain synchronous loop, for tests of the search and around it."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from random import Random

import judging
from scripted_proposer import ScriptedProposer

from evovpo.builtin.chain import join_chain
from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.grammar import render
from evovpo.builtin.strings.joining import join_language
from evovpo.builtin.strings.sampler import Sampler
from evovpo.config import SearchConfig
from evovpo.proposers import text_rollout
from evovpo.runs.replay import search_seed
from evovpo.search.population import Insertion, Member
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    Example,
    Limits,
    Objective,
    Problem,
    Program,
    Prompt,
    Rewards,
    Rollout,
    Sampling,
    Tell,
    content_id,
)

ROWS = (
    ("Lovelace, Ada", "Ada Lovelace"),
    ("Turing, Alan", "Alan Turing"),
    ("Hopper, Grace", "Grace Hopper"),
    ("Plato", "PLATO"),
    ("Sappho", "SAPPHO"),
    ("Homer", "HOMER"),
)
"""With a comma: first name first; without: capitals. No single branch does both."""

PROBLEM = Problem(
    id="names",
    version="names-1",
    statement="First name first; single names in capitals.",
    entry="solve",
    parameters=("name",),
    objectives=tuple(Objective(f"row-{number}") for number in range(1, len(ROWS) + 1)),
    seeds=(Program("def solve(name):\n    return name\n"),),
    limits=Limits(wall_seconds=5.0, cpu_seconds=5, memory_mb=128),
    train=tuple(Example((name,), wanted) for name, wanted in ROWS),
    heldout=(Example(("Noether, Emmy",), "Emmy Noether"), Example(("Euclid",), "EUCLID")),
)
HARD = dataclasses.replace(
    PROBLEM,
    id="hard-names",
    version="hard-names-1",
    objectives=(*PROBLEM.objectives, Objective("row-7"), Objective("row-8")),
    train=(*PROBLEM.train, Example(("x",), "24 letters of ABC: never"), Example(("y, z",), "nor this :-)")),
)
"""The same with two rows that nothing solves, so that a run uses its whole budget."""
SWAP = "x0.partition(', ')[2] + ' ' + x0.partition(', ')[0]"
"""Solves the rows with a comma; `x0.upper()` solves the others."""

CONFIG = SearchConfig(evaluations=200, islands=2, rollouts=2, answers=2, migration_interval=3, in_flight=1)


def source(expression: str) -> str:
    """Return the program of an expression over `x0`."""
    return expressions.to_source(expression, "solve", ("name",))


def random_expressions(seed: int, count: int) -> list[str]:
    """Return different canonical expressions of the built-in grammar over one argument."""
    sampler = Sampler(Random(seed), [[name] for name, _ in ROWS])
    found: dict[str, None] = {}
    while len(found) < count:
        expression = expressions.canonical(render(sampler.program()))
        if expression is not None:
            found.setdefault(expression)
    return list(found)


def hashed_rewards(text: str, count: int) -> Rewards:
    """Return a vector that follows from the program: about a third of the rows passed, never all."""
    digits = [int(digit, 16) for digit in content_id(text)]
    return (0.0, *(float(digit < 6) for digit in digits[1:count]))


def member(text: str, rewards: Sequence[float], order: int = 0) -> Member:
    return Member(content_id(text), text, tuple(map(float, rewards)), order)


def evaluation(text: str, rewards: Sequence[float] | None, version: str = "names-1") -> Evaluation:
    """Return a judgement; without rewards it is a sandbox fault."""
    return judging.evaluation(content_id(text), version, rewards)


class Loop:
    """Asks and tells without a driver, a store or a sandbox: the judge is a function of the source.

    `judged` lists every source that the judge was called for; `insertions` what each tell came to.
    """

    def __init__(
        self,
        config: SearchConfig = CONFIG,
        seed: int = 0,
        problem: Problem = HARD,
        judge: Callable[[str], Evaluation] | None = None,
        run: str = "run",
    ) -> None:
        self.problem = problem
        self.format = ExpressionFormat(problem)
        self.search = SearchState(
            problem, config, self.format, run, search_seed(problem, seed), join_language(problem)
        )
        self.judged: list[str] = []
        self.asked: list[Prompt] = []
        self.told: list[Tell] = []
        self.insertions: list[list[Insertion]] = []
        self._judge = judge or (
            lambda text: evaluation(text, hashed_rewards(text, len(problem.train)), problem.version)
        )

    def ask(self) -> Prompt:
        """Return the next ticket; fails if there is none."""
        prompt = self.search.ask()
        assert prompt is not None
        self.asked.append(prompt)
        return prompt

    def reply(self, prompt: Prompt, index: int, texts: Sequence[str]) -> Tell:
        """Return the judged reply of a model that wrote these expressions, as the search stands now."""
        rollout = text_rollout(prompt, index, "⟦sep⟧".join(texts) + "⟦end⟧", Sampling())
        return judging.judged(self.search, prompt, rollout, self._noted)

    def proposals(self, prompt: Prompt) -> Tell:
        """Return the judged reply to a seed or join ticket."""
        return judging.judged(self.search, prompt, None, self._noted)

    def tell(self, tell: Tell) -> list[Insertion]:
        """Tell a reply and keep what became of it."""
        inserted = self.search.tell(tell)
        self.told.append(tell)
        self.insertions.append(inserted)
        return inserted

    def step(self, write: Callable[[Prompt, int], Sequence[str]]) -> bool:
        """Ask once and tell all replies, which `write(prompt, reply number)` gives; false at the end."""
        prompt = self.search.ask()
        if prompt is None:
            return False
        self.asked.append(prompt)
        if prompt.proposals:
            self.tell(self.proposals(prompt))
        else:
            for index in range(prompt.rollouts):
                self.tell(self.reply(prompt, index, write(prompt, index)))
        return True

    def run(self, write: Callable[[Prompt, int], Sequence[str]]) -> None:
        while self.step(write):
            pass

    def _noted(self, program: Program) -> Evaluation:
        self.judged.append(program.source)
        return self._judge(program.source)


def random_writer(seed: int, pool: int = 400, also: Sequence[str] = ()) -> Callable[[Prompt, int], list[str]]:
    """Return a model that draws from a fixed pool of expressions; some of its answers are no programs."""
    expressions = [*also, *random_expressions(seed, pool)]

    def write(prompt: Prompt, index: int) -> list[str]:
        rng = Random(f"{prompt.sequence}:{index}")
        return [rng.choice(expressions) if rng.random() < 0.9 else "1 +" for _ in range(prompt.answers)]

    return write


def toy_script() -> Callable[[Prompt, int], str]:
    """Return completions for a `ScriptedProposer`: random programs, among them halves of the solution."""
    write = random_writer(
        0, pool=80, also=[SWAP, "x0.upper()", "x0[::-1]", "int(x0)", "x0.split(', ')[-1]"] * 2
    )
    return lambda prompt, index: join_chain(write(prompt, index))


class Shuffled(ScriptedProposer):
    """Replies after an irregular number of turns, so that groups come back in another order."""

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        for _ in range(Random(prompt.seed).randrange(40)):
            await asyncio.sleep(0)
        return await super().propose(prompt, indices, sampling)


def population(search: SearchState) -> object:
    """Return everything that a population is, for comparisons."""
    people = search.population
    return [
        [
            (island.index, [(m.program_id, m.rewards, m.order) for m in island.members])
            for island in people.islands
        ],
        [(cell, m.program_id, people.visits[cell]) for cell, m in sorted(people.cells.items())],
        people.leader and (people.leader.program_id, people.home),
    ]


def told(store: Store, run: str) -> list[Prompt | Tell]:
    """Return the history of a run without what differs from one machine or schedule to the next."""
    events: list[Prompt | Tell] = []
    for event in store.history(run):
        if isinstance(event, Tell):
            rollout = event.rollout and dataclasses.replace(event.rollout, seconds=0.0)
            judged = []
            for one in event.judged:
                found = one.evaluation and dataclasses.replace(one.evaluation, seconds=0.0)
                judged.append(dataclasses.replace(one, executed=False, evaluation=found))
            event = Tell(event.prompt_id, rollout, tuple(judged))
        events.append(event)
    return events


class OneByOne(Store):
    """Stores each reply of a group in a transaction of its own, so that a group can be cut off in between."""

    def add_tells(self, run_id: str, tells: Sequence[Tell], order: int) -> list[bool]:
        return [self.add_tell(run_id, tell, position) for position, tell in enumerate(tells, order)]

    def add_tell(self, run_id: str, tell: Tell, order: int) -> bool:
        return super().add_tells(run_id, [tell], order)[0]
