"""The definition of a loop, which alternates searches with a model and trainings of this model.

The id of a loop is a hash of its definition. The ids of the loop's runs begin with this id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config, RunConfig
from evovpo.errors import ConfigError
from evovpo.problem.suites import SuiteEntry
from evovpo.runs.request import RunRequest
from evovpo.types import Problem, content_id
from trainer.config import TrainConfig
from trainer.learning.imitation import with_validation
from trainer.loop.probe import generated_problems
from trainer.loop.split import split_suite


@dataclass(frozen=True)
class Loop:
    """The definition of a loop; the same fields give the same id."""

    searched: tuple[Problem, ...]
    """The problems of every round; a problem with several searches per round occurs several times."""
    held_out: tuple[Problem, ...]
    """Problems for measuring training; empty if a problem of the loop does not fit the built-in format."""
    search: Config
    """Configuration of every run, except its seed."""
    train: TrainConfig
    guarded: tuple[Problem, ...] = field(default=(), kw_only=True)
    """Problems for the guard alone; if there are none, the guard uses the `held_out` problems."""

    @cached_property
    def id(self) -> str:
        problems = (problem.version for problem in (*self.searched, *self.held_out))
        # The location of the store is not part of the definition.
        search = self.search.changed(store=type(self.search.store)()).to_json()
        return content_id(search, self.train.to_json(), *problems)[:8]

    def run_id(self, round_number: int, index: int) -> str:
        return f"{self.id}-r{round_number:03d}-p{index:03d}"

    def run_ids(self, round_number: int) -> tuple[str, ...]:
        return tuple(self.run_id(round_number, index) for index in range(len(self.searched)))

    def problem_of(self, run_id: str) -> Problem:
        return self.searched[int(run_id.rpartition("-p")[2])]

    def request(self, round_number: int, index: int) -> RunRequest:
        """Return the request for the run of problem `index` in a round; each run has its own seed."""
        seed = int(content_id(str(self.search.run.seed), str(round_number), str(index)), 16) >> 1
        config = self.search.changed(run=RunConfig(seed=seed))
        return RunRequest(self.searched[index], config, run_id=self.run_id(round_number, index))


def plan_loop(
    problems: Sequence[Problem],
    search: Config,
    train: TrainConfig,
    *,
    limit: int | None = None,
    searches: int = 1,
    entries: Sequence[SuiteEntry] = (),
) -> Loop:
    """Return the definition of a loop over the problems of a suite or over one problem.

    `split_suite` chooses the held-out problems of a suite by `entries` and `train.probe.problems`. Up to
    `limit` of the other problems are searched, each `searches` times per round. If there is only one problem,
    generated problems are held out. If any problem does not fit the built-in model's format, no problem is
    held out. Raises `ConfigError` if there are no problems, or if search and training settings conflict.
    """
    if not problems:
        raise ConfigError("a loop needs at least one problem; name a problem or a suite")
    if train.probe.problems < 1:
        raise ConfigError(
            "probe.problems is 0; a loop compares versions before it uses one: hold out 1 or more, better 12"
        )
    if search.proposer.policy != "served":
        raise ConfigError(
            f"proposer.policy is {search.proposer.policy!r}; a loop searches with what it trains: "
            "leave it out, or set it to served"
        )
    search = search.changed(search={"rollouts": search.search.rollouts or 8})  # training needs groups
    if search.search.rollouts == 1:
        raise ConfigError("search.rollouts is 1; a group to train on needs 2 or more; raise it")
    faults = {problem.id: fault for problem in problems if (fault := expression_fault(problem))}
    if faults and search.proposer.name == "local":
        listed = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        raise ConfigError(
            f"a loop trains one model, and the built-in one does not write for all of these problems "
            f"({listed}); name problems on strings"
        )
    if faults:
        return Loop(tuple(problems[:limit]) * searches, (), search, train)
    if len(problems) == 1:
        return Loop(tuple(problems) * searches, generated_problems(train.probe.problems), search, train)
    searched, held_out, guarded = split_suite(problems, entries, train.probe.problems, search.run.seed)
    if train.imitate.share:
        searched = tuple(map(with_validation, searched))
    return Loop(searched[:limit] * searches, held_out, search, train, guarded=guarded)
