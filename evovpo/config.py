"""The configuration of a run: one typed tree, read from a TOML file and `section.key=value` overrides.

Every value is checked when its section is built, so a `Config` that exists is a usable one. The
resolved tree is stored with each run (`Config.to_json`) and read back by `Config.from_json`.
What a problem needs (limits, objectives) is not here: it belongs to the problem's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from evovpo.errors import ConfigError
from evovpo.options import LARGEST, Section, Tree, option

SELECTIONS = ("lexicase", "dirichlet", "pareto", "map-elites", "power-law")
"""Names of the ways to select a parent."""

PROPOSERS = ("local", "openai", "random", "scripted")
"""Names of the proposers that a run can use."""

SANDBOX_LEVELS = ("landlock+seccomp", "bwrap+landlock+seccomp")
"""Names of the isolation levels, weakest first; the sandbox's own list, without importing it."""


@dataclass(frozen=True, slots=True)
class SearchConfig(Section):
    """How the population is searched."""

    section: ClassVar[str] = "search"

    evaluations: int = option(
        1000, "Budget in proposed candidates; raise it for a hard problem.", low=1, high=LARGEST
    )
    islands: int = option(
        4, "Sub-populations; more keep more variety in a long run, 1 is plain search.", low=1, high=1024
    )
    rollouts: int = option(
        8,
        "G, completions sampled for one prompt; whoever trains from the run sets the group size.",
        low=1,
        high=1024,
    )
    answers: int = option(
        1,
        "M, answers asked for in one completion; 3 for a run that VPO trains from, 1 solves more.",
        low=1,
        high=4,
    )
    selection: str = option(
        "lexicase", "How a parent is chosen; for those who compare selection methods.", choices=SELECTIONS
    )
    root_share: float = option(
        0.5,
        "Share of asks that show no parent; raise it where the model solves from scratch.",
        low=0.0,
        high=1.0,
    )
    inspirations: int = option(
        0,
        "Further programs shown beside the parent; for large models with room in the prompt.",
        low=0,
        high=64,
    )
    elites: int = option(
        32, "Archive size of an island; raise it for problems with many objectives.", low=1, high=100_000
    )
    migration_interval: int = option(
        10,
        "Asks of an island between migrations; lower it to make islands alike sooner.",
        low=1,
        high=LARGEST,
    )
    migrants: int = option(
        2, "Programs that move at each migration; 0 keeps the islands apart.", low=0, high=100_000
    )
    joins: bool = option(
        True, "Join complementary programs under one condition; switch off to measure the model alone."
    )
    join_proposals: int = option(
        8, "Most programs in one join ticket; lower it for a small budget.", low=1, high=10_000
    )
    join_share: float = option(
        0.1, "Largest share of the budget that joins may take; lower it if joins memorise.", low=0.0, high=1.0
    )
    lone_row_joins_after: float = option(
        0.5,
        "Share of the budget after which a join may single out one row; 1 forbids such joins.",
        low=0.0,
        high=1.0,
    )
    focus_share: float = option(
        0.25,
        "Share of parentless asks that show only rows the chosen program fails; 0 shows all rows.",
        low=0.0,
        high=1.0,
    )
    in_flight: int = option(
        8, "Asks open at a time; 1 makes a run reproducible, more keep a server busy.", low=1, high=1024
    )
    stop_when_solved: bool = option(
        True, "Stop at the first program that passes every training row; off to spend the whole budget."
    )


@dataclass(frozen=True, slots=True)
class SamplingConfig(Section):
    """How completions are sampled."""

    section: ClassVar[str] = "sampling"

    temperature: float = option(
        1.0, "Sampling temperature; the trainer must use the same, so change it for both.", above=0.0
    )
    max_tokens: int = option(
        160, "Completion tokens before a chain is cut; raise it for longer programs.", low=1, high=1_000_000
    )


@dataclass(frozen=True, slots=True)
class ProposerConfig(Section):
    """Who proposes programs."""

    section: ClassVar[str] = "proposer"

    name: str = option(
        "local",
        "A model in this process, one behind an OpenAI-compatible server, or random programs as a baseline.",
        choices=PROPOSERS,
    )
    model: str = option(
        "",
        "Model folder of your own, empty for the built-in one; of a server, the name it has there.",
    )
    policy: str = option(
        "start",
        "What to sample from: start (that model), served (follows what training publishes) or a number.",
    )
    base_url: str = option(
        "", "Address of the server's API, for vLLM http://HOST:PORT/v1; its key is in OPENAI_API_KEY."
    )
    timeout_seconds: float = option(
        120.0, "Longest wait for one answer of a server; raise it for a slow or large model.", above=0.0
    )
    attempts: int = option(
        5, "How often a request is sent to a failing server; more for one that restarts.", low=1, high=1000
    )
    tolerance: float = option(
        1e-4,
        "Largest difference of a server's log-probabilities to the trainer's; 0.1 for one in bfloat16.",
        above=0.0,
    )
    threads: int = option(
        0, "Torch threads; 0 leaves them to the environment, 1 is best on a busy machine.", low=0, high=1024
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.policy not in ("start", "served") and not self.policy.isdecimal():
            raise ConfigError(
                f"proposer.policy: expected start, served or the number of a policy version, found "
                f"{self.policy!r}; change it"
            )


@dataclass(frozen=True, slots=True)
class SandboxConfig(Section):
    """How untrusted programs are run."""

    section: ClassVar[str] = "sandbox"

    minimum_level: str = option(
        "landlock+seccomp",
        "Weakest isolation accepted; raise it where programs must not even see that a file exists.",
        choices=SANDBOX_LEVELS,
    )
    workers: int = option(
        0,
        "Programs run at a time; 0 is the number of cores, fewer leave room for the model.",
        low=0,
        high=1024,
    )


@dataclass(frozen=True, slots=True)
class StoreConfig(Section):
    """Where everything that happens is kept."""

    section: ClassVar[str] = "store"

    url: str = option("sqlite:///evovpo.db", "SQLAlchemy URL; a PostgreSQL one for runs on several machines.")


@dataclass(frozen=True, slots=True)
class RunConfig(Section):
    """What tells one run from another with the same settings."""

    section: ClassVar[str] = "run"

    seed: int = option(
        0, "Source of all randomness; change it for an independent repetition.", low=0, high=LARGEST
    )


@dataclass(frozen=True, slots=True)
class Config(Tree):
    """The whole configuration, resolved and checked."""

    search: SearchConfig = SearchConfig()
    sampling: SamplingConfig = SamplingConfig()
    proposer: ProposerConfig = ProposerConfig()
    sandbox: SandboxConfig = SandboxConfig()
    store: StoreConfig = StoreConfig()
    run: RunConfig = RunConfig()


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Return the defaults, changed by the TOML file at `path` (if any), then by `section.key=value` texts.

    A later override wins over an earlier one. Raises `ConfigError`, naming the file or override, for a
    file that cannot be read, an unknown section or key (with the nearest known name), and a value of
    the wrong type or out of range.
    """
    return Config.load(path, overrides)
