"""What cannot be run here: a discrete-event simulation of searches on many GPUs and evaluators, with SimPy.

    python tests/bench/fleet.py --gpus 64 --evaluators 1000 --json

What decides is real: each searcher is a `Search`, asked and told in the order and under the limits of
`evovpo/runs/driver.py`: as many asks open, and as many groups being judged, as `--in-flight` says; groups
told in the order in which they arrived; the next ask waits a moment for what is being judged. What an ask and
the telling of a group cost, rows included, is measured first on this machine in processor time, unless
`--costs` gives it. Simulated are the servers, with `--slots` requests on a GPU at a time, whose times are
lognormal around a median; the evaluators, whose times follow a Pareto law with index `--tail` up to 60 times
the mean; and failures of both, halfway, after which the work begins anew. A program's reward vector follows
from that of the program its prompt shows, so that a search that knows more finds more.

`evaluations_per_second` counts candidates told; `searcher_busy` is the share of time in which the searchers
ask, tell and commit; `staleness_median` is how many groups were told between the ask of a group and its own
tell: what it cannot know. A policy that is published every V groups is that number over V versions old.
`tests/bench/fleet_checked.py` compares with real runs and draws the pictures of docs/scale.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
from collections import deque
from collections.abc import Callable, Generator
from random import Random
from typing import Any, ClassVar, NamedTuple

import simpy
from search_cost import PROBLEM, measured_costs

from evovpo.config import SearchConfig
from evovpo.prompts.request import Answer, Request
from evovpo.proposers import rollout_id
from evovpo.runs.driver import _PATIENCE_SECONDS
from evovpo.search.search import Search
from evovpo.types import (
    Candidate,
    Evaluation,
    Judged,
    Message,
    Objective,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    Rollout,
    Sampling,
    Status,
    Tell,
    content_id,
)

ROWS = 16
"""Components of a reward vector."""
TASK = dataclasses.replace(
    PROBLEM,
    id="fleet",
    scorer_path="score.py",
    train=(),
    objectives=tuple(map(Objective, map(str, range(ROWS)))),
)
GAIN, LOSS = 0.02, 0.02
"""Chances that a component that fails passes in a changed program, and the reverse."""
SLOTS = 8 * SearchConfig().answers
"""Programs that a prompt asks for."""


class Names:
    """The least prompt format: a completion is the names of its programs, one a line."""

    reply_tokens, max_rows, rollouts, others = 100, 10, 8, 0
    ways: ClassVar[dict[str, float]] = {}

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        return (Message("user", request.parent.program.source if request.parent else "write"),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        return True

    def answers(self, problem: Problem, rollout: Rollout, answers: int, parent: Any = None) -> list[Answer]:
        return [Answer(line, Program(line), None) for line in rollout.text.splitlines()]


class Costs(NamedTuple):
    """Seconds of the searcher's process: an ask, and telling all replies to a prompt; with their rows."""

    ask: float
    group: float


class Fleet(NamedTuple):
    """What there is, and how long it takes."""

    gpus: int
    evaluators: int
    slots: int = 8
    """Requests on a GPU at a time."""
    searchers: int = 1
    in_flight: int = 0
    """Asks open at a time, of each searcher; 0: twice what the GPUs take at a time, at most 1024."""
    sampling: float = 10.0
    """Median seconds of a request."""
    judging: float = 1.0
    """Mean seconds of an evaluation."""
    tail: float = 1.5
    """Index of the Pareto law; 0: every request takes as long as any other, and so do evaluations."""
    failures: float = 0.01
    """Share of requests, and of evaluations, that fail halfway."""
    is_lock_step: bool = False
    """Nothing is asked before all is told that was asked."""

    @property
    def open_asks(self) -> int:
        """Asks open at a time, of each searcher."""
        return self.in_flight or min(1024, max(1, 2 * self.gpus * self.slots // self.searchers))

    def request_seconds(self, name: str) -> float:
        """Return how long the request of this name takes, with what failed before."""
        rng, spread = Random(f"request {name}"), 0.4 * bool(self.tail)
        return self._with_failures(lambda: self.sampling * math.exp(spread * rng.gauss(0, 1)), rng)

    def judging_seconds(self, name: str) -> float:
        """Return how long the evaluation of this name takes, with what failed before."""
        rng = Random(f"evaluation {name}")
        least = self.judging * (self.tail - 1) / self.tail if self.tail else 0.0

        def once() -> float:
            return min(least * rng.paretovariate(self.tail), 60 * self.judging) if self.tail else self.judging

        return self._with_failures(once, rng)

    def _with_failures(self, once: Callable[[], float], rng: Random) -> float:
        seconds = once()
        while rng.random() < self.failures:
            seconds += rng.random() * once()
        return seconds


class Outcome(NamedTuple):
    evaluations_per_second: float
    """After the first fifth of the groups, which it takes to start; so is the next."""
    searcher_busy: float
    staleness_median: float
    best_mean_reward: float
    gpus_busy: float
    evaluators_busy: float
    seconds: float
    """Of the whole run."""


def names_of(prompt: Prompt, index: int) -> list[str]:
    """Return the programs of a reply: names that nobody gave before."""
    return [f"{prompt.run_id}.{prompt.sequence}.{index}.{slot}" for slot in range(prompt.answers)]


def judgement(search: Search, program: Program, parent_id: str | None) -> Evaluation:
    """Return a vector like that of the program shown, some components of which changed."""
    rng, shown = Random(program.source), search.evaluation(parent_id or "")
    before = (shown.rewards if shown is not None else None) or (0.0,) * ROWS
    rewards = tuple(float(rng.random() >= LOSS) if old else float(rng.random() < GAIN) for old in before)
    return Evaluation(program.id, TASK.version, Status.OK, rewards, "", 0.0, "none")


def rollout_of(prompt: Prompt, index: int) -> Rollout:
    """Return the reply of a model."""
    text = "\n".join(names_of(prompt, index))
    key = rollout_id(prompt.id, index)
    return Rollout(key, prompt.id, index, 0, text, None, None, None, Sampling(), "stop", 0.0)


def replies(search: Search, prompt: Prompt) -> list[Tell]:
    """Return the judged replies to a prompt."""
    told = []
    for index in range(prompt.rollouts if prompt.has_model else 1):
        rollout = rollout_of(prompt, index) if prompt.has_model else None
        programs = prompt.proposals or [Program(name) for name in names_of(prompt, index)]
        owner = prompt.id if rollout is None else rollout.id
        judged = []
        for slot, program in enumerate(programs):
            key = None if rollout is None else rollout.id
            which = content_id(owner, str(slot)), prompt.id, key, slot, ParseStatus.PARSED, program
            found = judgement(search, program, prompt.parent_id)
            judged.append(Judged(Candidate(*which, parents=prompt.parents), found, True))
        told.append(Tell(prompt.id, rollout, tuple(judged)))
    return told


@dataclasses.dataclass
class Group:
    prompt: Prompt
    told_before: int
    at: float = 0.0
    is_judged: bool = False


class Searcher:
    """The loop of `Driver` in simulated time."""

    def __init__(self, world: World, search: Search) -> None:
        self.world, self.search = world, search
        self.replied: list[Group] = []
        self.arrived: deque[Group] = deque()
        self.asked = self.waiting = self.told = 0
        self.steps = 1
        self.busy = 0.0
        self.marks: list[tuple[float, int, float]] = []
        """After each group: when, candidates told, seconds worked."""
        self.staleness: list[int] = []
        self.bell = world.env.event()

    def ring(self) -> None:
        """Wake the loop."""
        if not self.bell.triggered:
            self.bell.succeed()

    def work(self, seconds: float) -> simpy.Event:
        self.busy += seconds
        return self.world.env.timeout(seconds)

    def patience(self) -> float:
        """Return for how many seconds more the next ask waits for the first group that arrived."""
        return max(0.0, self.arrived[0].at + _PATIENCE_SECONDS - self.world.env.now) if self.arrived else 0.0

    def may_ask(self) -> bool:
        most = self.world.fleet.open_asks
        if self.world.fleet.is_lock_step:
            return self.asked < self.steps * most
        return self.waiting < most and len(self.arrived) < most and self.patience() <= 1e-9

    def run(self) -> Generator[simpy.Event, Any, None]:
        env, costs = self.world.env, self.world.costs
        while True:
            while self.may_ask() and (prompt := self.search.ask()) is not None:
                self.asked += 1
                yield self.work(costs.ask)
                group = Group(prompt, self.told)
                if prompt.has_model:
                    self.waiting += 1
                    env.process(self.world.sample(self, group))
                else:
                    yield env.process(self.world.judge(self, group))
                    yield self.tell(group)
            if not (self.waiting or self.arrived):
                if self.search.tickets.reserved >= self.search.config.evaluations:
                    return
                self.steps += 1
                continue
            if not (self.replied or (self.arrived and self.arrived[0].is_judged)):
                patience = self.patience()
                yield env.any_of([self.bell, *([env.timeout(patience)] if patience > 1e-9 else [])])
            self.bell = env.event()
            for group in sorted(self.replied, key=lambda one: one.prompt.sequence):
                self.waiting -= 1
                group.at = env.now
                self.arrived.append(group)
                env.process(self.world.judge(self, group))
            self.replied.clear()
            while self.arrived and self.arrived[0].is_judged:
                yield self.tell(self.arrived.popleft())

    def tell(self, group: Group) -> simpy.Event:
        for reply in replies(self.search, group.prompt):
            self.search.tell(reply)
        if group.prompt.has_model:
            self.staleness.append(self.told - group.told_before)
        self.told += 1
        self.marks.append((self.world.env.now, self.search.proposed, self.busy))
        return self.work(self.world.costs.group * max(1, group.prompt.slots) / SLOTS)


class World:
    """GPUs, evaluators and searchers in simulated time."""

    def __init__(self, fleet: Fleet, costs: Costs, evaluations: int, seed: int) -> None:
        self.env, self.fleet, self.costs = simpy.Environment(), fleet, costs
        self.servers = simpy.Resource(self.env, fleet.gpus * fleet.slots)
        self.evaluators = simpy.Resource(self.env, fleet.evaluators)
        self.sampled = self.judged = 0.0
        searches = [new_search(evaluations // fleet.searchers, seed + at) for at in range(fleet.searchers)]
        self.searchers = [Searcher(self, search) for search in searches]

    def sample(self, searcher: Searcher, group: Group) -> Generator[simpy.Event, Any, None]:
        with self.servers.request() as slot:
            yield slot
            seconds = self.fleet.request_seconds(f"{group.prompt.run_id}.{group.prompt.sequence}")
            self.sampled += seconds
            yield self.env.timeout(seconds)
        searcher.replied.append(group)
        searcher.ring()

    def judge(self, searcher: Searcher, group: Group) -> Generator[simpy.Event, Any, None]:
        prompt = group.prompt
        names = [name for index in range(prompt.rollouts) for name in names_of(prompt, index)]
        names = [program.source for program in prompt.proposals] or names
        yield self.env.all_of([self.env.process(self.evaluate(name)) for name in names])
        group.is_judged = True
        if searcher.arrived and searcher.arrived[0] is group:
            searcher.ring()

    def evaluate(self, name: str) -> Generator[simpy.Event, Any, None]:
        with self.evaluators.request() as slot:
            yield slot
            seconds = self.fleet.judging_seconds(name)
            self.judged += seconds
            yield self.env.timeout(seconds)


def new_search(evaluations: int, seed: int) -> Search:
    config = SearchConfig(evaluations=evaluations, joins=False, stop_when_solved=False)
    return Search(TASK, config, Names(), f"run-{seed}", seed)


def simulate(fleet: Fleet, costs: Costs, evaluations: int, seed: int = 0) -> Outcome:
    """Return what a fleet comes to in so many evaluations."""
    world = World(fleet, costs, evaluations, seed)
    for searcher in world.searchers:
        world.env.process(searcher.run())
    world.env.run()
    took, searchers = world.env.now, world.searchers
    spans = [(one.marks[len(one.marks) // 5], one.marks[-1]) for one in searchers]
    return Outcome(
        sum((last[1] - first[1]) / (last[0] - first[0]) for first, last in spans),
        statistics.fmean((last[2] - first[2]) / (last[0] - first[0]) for first, last in spans),
        statistics.median(stale for one in searchers for stale in one.staleness),
        max(one.search.best.evaluation.mean_reward for one in searchers if one.search.best),
        world.sampled / took / world.servers.capacity,
        world.judged / took / fleet.evaluators,
        took,
    )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="Simulate a search on many GPUs and evaluators.")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--evaluators", type=int, default=4)
    for name, default in list(Fleet._field_defaults.items())[:-1]:
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--lock-step", action="store_true", help="ask only when all is told")
    parser.add_argument("--evaluations", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costs", metavar="ASK,GROUP", help="seconds of the searcher, not measured")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    costs = Costs(*(map(float, options.costs.split(",")) if options.costs else measured_costs()))
    values = {name: getattr(options, name) for name in Fleet._fields if hasattr(options, name)}
    fleet = Fleet(**values, is_lock_step=options.lock_step)
    outcome = simulate(fleet, costs, options.evaluations, options.seed)
    found = {**outcome._asdict(), "costs": costs._asdict()}
    print(json.dumps(found, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
