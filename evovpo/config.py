"""The configuration of a run: one typed tree, read from a TOML file and `section.key=value` overrides.

Every value is checked when its section is built, so a `Config` that exists is a usable one. The
resolved tree is stored with each run (`Config.to_json`) and read back by `Config.from_json`.
What a problem needs (limits, objectives) is not here: it belongs to the problem's folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from evovpo.errors import ConfigError
from evovpo.options import LARGEST, Section, Tree, option, rows

SELECTIONS = ("lexicase", "dirichlet", "pareto", "map-elites", "power-law")
"""Names of the ways to select a parent."""

STRATEGIES = ("islands", "iid", "best-of-n", "sequential", "beam", "puct")
"""Names of the ways to choose what each ask starts from; all but islands are baselines and tree searches."""

ENDPOINTS = ("auto", "chat", "completions")
"""Names of the ways to ask a server for a completion."""

ENSEMBLES = ("weights", "bandit")
"""Names of the ways to choose between several models."""

PROPOSERS = ("local", "openai", "random", "scripted", "imported")
"""Names of the proposers that a run can use; `imported` is what runs of other systems have."""

PROMPT_STYLES = ("auto", "alignment", "formula", "rewrite", "diff")
"""Names of the ways to put a problem to a model."""

SANDBOX_LEVELS = ("none", "seccomp", "landlock+seccomp", "bwrap+landlock+seccomp")
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
    strategy: str = option(
        "islands",
        "What each ask starts from; all but islands are for comparisons and for small budgets.",
        choices=STRATEGIES,
    )
    beam: int = option(
        4, "Programs that strategy beam expands in a generation; more for a large budget.", low=1, high=10_000
    )
    exploration: float = option(
        1.0, "c of strategy puct; raise it where the tree keeps to one branch.", low=0.0, high=1e6
    )
    crossover_share: float = option(
        0.0,
        "Share of asks that combine two parents; for models that read two programs well.",
        low=0.0,
        high=1.0,
    )
    repair_share: float = option(
        0.0,
        "Share of asks that mend a recent failing program; raise it where many programs fail.",
        low=0.0,
        high=1.0,
    )
    attempts: int = option(
        3, "Failed answers to the same parent that a prompt may show; 0 saves prompt tokens.", low=0, high=64
    )
    notes_interval: int = option(
        0,
        "Asks between two that write down what was learned, for later prompts; 0 never does.",
        low=0,
        high=LARGEST,
    )
    novelty: float = option(
        0.0,
        "Least text distance to the island's programs; above 0 where evaluations are dear, 0 is off.",
        low=0.0,
        high=1.0,
    )
    novelty_model: str = option(
        "", "Embedding model at proposer.base_url that also judges novelty; for those who have one there."
    )
    novelty_cosine: float = option(
        0.98,
        "Likeness of embeddings from which a program is refused; lower it to refuse more.",
        low=-1.0,
        high=1.0,
    )
    restart_after: int = option(
        0,
        "Asks of an island without progress after which it starts anew; for long runs, 0 never does.",
        low=0,
        high=LARGEST,
    )
    patience: int = option(
        0,
        "Evaluations without a better program after which the run stops; 0 uses the whole budget.",
        low=0,
        high=LARGEST,
    )
    target: str = option(
        "", "Mean reward (or combined_score, where the evaluator gives one) to stop at; empty for none."
    )
    in_flight: int = option(
        8, "Asks open at a time; 1 makes a run reproducible, more keep a server busy.", low=1, high=1024
    )
    stop_when_solved: bool = option(
        True, "Stop at the first program that passes every training row; off to spend the whole budget."
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.target_value is not None and not math.isfinite(self.target_value):
            raise ConfigError(f"search.target: expected a finite number, found {self.target!r}; change it")
        if self.crossover_share + self.repair_share > 1.0:
            raise ConfigError(
                f"search.crossover_share and search.repair_share are {self.crossover_share:g} and "
                f"{self.repair_share:g}; together they are at most 1: lower one"
            )
        if self.strategy != "islands":
            for name in ("crossover_share", "repair_share", "inspirations", "restart_after"):
                if getattr(self, name):
                    raise ConfigError(
                        f"search.{name} is {getattr(self, name):g} with search.strategy {self.strategy}; "
                        "only islands know it: set it to 0, or the strategy to islands"
                    )
        if self.strategy in ("iid", "best-of-n") and self.notes_interval:
            raise ConfigError(
                f"search.notes_interval is {self.notes_interval} with search.strategy {self.strategy}, whose "
                "asks are all the same; set it to 0"
            )

    @property
    def target_value(self) -> float | None:
        """The number in `target`, or none."""
        try:
            return float(self.target) if self.target else None
        except ValueError:
            return math.nan


@dataclass(frozen=True, slots=True)
class SamplingConfig(Section):
    """How completions are sampled."""

    section: ClassVar[str] = "sampling"

    temperature: float = option(
        1.0, "Sampling temperature; the trainer must use the same, so change it for both.", above=0.0
    )
    max_tokens: int = option(
        0,
        "Completion tokens before a reply is cut; 0 fits the prompts: 160 built-in, 4096 instruction models.",
        low=0,
        high=1_000_000,
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
    endpoint: str = option(
        "auto",
        "Of a server: chat, completions (plain text), or auto: chat for prompts with a system message.",
        choices=ENDPOINTS,
    )
    ensemble: str = option(
        "weights",
        "How one of several [[models]] is chosen: by weight, or by improvement per token (a bandit).",
        choices=ENSEMBLES,
    )
    timeout_seconds: float = option(
        120.0, "Longest wait for one answer of a server; raise it for a slow or large model.", above=0.0
    )
    attempts: int = option(
        5, "How often a request is sent to a failing server; more for one that restarts.", low=1, high=1000
    )
    concurrency: int = option(
        16, "Requests that a server has at a time; lower it for one that answers 429.", low=1, high=4096
    )
    requests_per_minute: int = option(
        0, "Most requests in a minute; for providers that limit them, 0 is no limit.", low=0, high=LARGEST
    )
    tokens_per_minute: int = option(
        0,
        "Most tokens of prompts and replies in a minute; for providers that limit them, 0 is no limit.",
        low=0,
        high=LARGEST,
    )
    tolerance: float = option(
        1e-4,
        "Largest difference of a server's log-probabilities to the trainer's; 0.2 for one in bfloat16.",
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
class ModelConfig(Section):
    """One model behind a server: where it is, how it is sampled, what it costs."""

    section: ClassVar[str] = "models"

    name: str = option("", "The name that its server knows.")
    base_url: str = option("", "Address of its server's API; empty for proposer.base_url.")
    key_variable: str = option("OPENAI_API_KEY", "Environment variable that holds the key of its server.")
    weight: float = option(1.0, "Share of the asks that it gets, relative to the others.", above=0.0)
    temperature: float = option(0.0, "Sampling temperature; 0 for that of [sampling].", low=0.0)
    max_tokens: int = option(
        0, "Completion tokens before a reply is cut; 0 for those of [sampling].", low=0, high=1_000_000
    )
    top_p: float = option(
        1.0, "Nucleus sampling; below 1 nothing can be trained from its replies.", above=0.0, high=1.0
    )
    price_in: float = option(0.0, "Price of a million prompt tokens, in any currency.", low=0.0)
    price_out: float = option(0.0, "Price of a million completion tokens, in the same currency.", low=0.0)
    system: str = option("", "System message in place of the prompt's own; empty keeps that.")
    extra: str = option(
        "", 'Further fields of the request as a JSON object, for example {"reasoning_effort": "low"}.'
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if not self.name:
            raise ConfigError("models.name is empty; expected the name under which the server offers a model")
        try:
            fields = json.loads(self.extra or "{}")
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise ConfigError(f"models.extra: expected a JSON object, found {self.extra!r:.200}; change it")

    @property
    def extra_fields(self) -> dict[str, object]:
        """The fields in `extra`."""
        return dict(json.loads(self.extra or "{}"))

    @property
    def has_price(self) -> bool:
        """True if its requests cost something."""
        return self.price_in > 0 or self.price_out > 0

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Return what a request cost, or none without a price or where the server does not count."""
        if not self.has_price or prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


@dataclass(frozen=True, slots=True)
class BudgetConfig(Section):
    """What a run may spend on requests to servers; when it is used up the run stops, and can be shown."""

    section: ClassVar[str] = "budget"

    tokens: int = option(
        0, "Tokens of prompts and replies; for who pays by the token, 0 is no limit.", low=0, high=LARGEST
    )
    money: float = option(
        0.0, "In the currency of the prices in [[models]]; 0 is no limit.", low=0.0, high=1e12
    )


@dataclass(frozen=True, slots=True)
class SandboxConfig(Section):
    """How untrusted programs are run."""

    section: ClassVar[str] = "sandbox"

    minimum_level: str = option(
        "landlock+seccomp",
        "Weakest isolation accepted: raise it where programs must not even see that a file exists, lower it "
        "where the machine offers less and the programs are trusted that far (docs/sandbox.md).",
        choices=SANDBOX_LEVELS,
    )
    workers: int = option(
        0,
        "Programs run at a time; 0 is the number of cores, fewer leave room for the model.",
        low=0,
        high=1024,
    )
    executor: str = option(
        "local",
        "Where programs run: local, ray (a cluster here, or that of RAY_ADDRESS) or ray://HOST:PORT; for "
        "suites too large for one machine.",
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.executor not in ("local", "ray") and not self.executor.startswith("ray://"):
            raise ConfigError(
                f"sandbox.executor: expected local, ray or ray://HOST:PORT, found {self.executor!r}; "
                "change it"
            )


@dataclass(frozen=True, slots=True)
class EvaluatorConfig(Section):
    """How evaluators that import the candidate themselves (OpenEvolve's format) are run and read."""

    section: ClassVar[str] = "evaluator"

    mode: str = option(
        "whole",
        "whole: evaluator and candidate share a sandboxed process; proxy: the candidate is apart, for trust.",
        choices=("whole", "proxy"),
    )
    metrics: str = option(
        "", "TOML file with bounds of metrics; empty for metrics.toml beside the evaluator, if there is one."
    )
    timeout_seconds: float = option(
        300.0, "Longest evaluation, all stages together; lower it to lose less to endless loops.", above=0.0
    )
    memory_mb: int = option(
        4096,
        "Address space of an evaluation in MiB; raise it for large data or models.",
        low=64,
        high=LARGEST,
    )
    processes: int = option(
        64,
        "Processes and threads of one evaluation; raise it for evaluators that start many.",
        low=1,
        high=65_536,
    )
    cascade: bool = option(
        True, "Run evaluate_stage1 and the following where they exist; off to always run evaluate."
    )
    thresholds: str = option(
        "0.5, 0.75, 0.9",
        "What a stage must reach for the next to run; lower them if good programs stop early.",
    )
    artifacts: bool = option(
        True, "Show models what evaluators return as artifacts; off where it gives answers away."
    )
    artifact_bytes: int = option(
        2000, "Most bytes of artifacts in a feedback; raise it for models with room.", low=0, high=20480
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        try:
            is_usable = all(map(math.isfinite, self.cascade_thresholds))
        except ValueError:
            is_usable = False
        if not is_usable:
            raise ConfigError(
                f"evaluator.thresholds: expected finite numbers with commas between them, found "
                f"{self.thresholds!r}; change it"
            )

    @property
    def cascade_thresholds(self) -> tuple[float, ...]:
        """The numbers in `thresholds`: what stage 1, 2, ... must reach."""
        return tuple(float(part) for part in self.thresholds.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class PromptConfig(Section):
    """How problems are put to instruction models; the built-in model's own format has no settings."""

    section: ClassVar[str] = "prompt"

    style: str = option(
        "auto",
        "alignment, formula: of the built-in models; rewrite: whole programs; diff: edits; auto: what fits.",
        choices=PROMPT_STYLES,
    )
    templates: str = option(
        "", "Folder with templates of your own, which override those of the package one by one."
    )
    feedback_characters: int = option(
        1500,
        "Most characters shown of what judging a program gave; raise it for models with room.",
        low=100,
        high=1_000_000,
    )
    attempt_characters: int = option(
        600, "Most characters shown of an earlier answer that came to nothing.", low=100, high=1_000_000
    )
    program_characters: int = option(
        40_000,
        "Longest program taken from an answer, so that prompts that show it keep their size.",
        low=100,
        high=LARGEST,
    )


@dataclass(frozen=True, slots=True)
class StoreConfig(Section):
    """Where everything that happens is kept."""

    section: ClassVar[str] = "store"

    url: str = option("sqlite:///evovpo.db", "SQLAlchemy URL; a PostgreSQL one for runs on several machines.")

    @property
    def files(self) -> tuple[Path, ...]:
        """SQLite files of the store, there or not, which no program may read; none of another database."""
        scheme, separator, database = self.url.partition(":///")
        if not (separator and scheme.startswith("sqlite") and database):
            return ()
        file = database.partition("?")[0]
        return tuple(Path(file + ending).resolve() for ending in ("", "-wal", "-shm", "-journal"))


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
    evaluator: EvaluatorConfig = EvaluatorConfig()
    prompt: PromptConfig = PromptConfig()
    store: StoreConfig = StoreConfig()
    run: RunConfig = RunConfig()
    budget: BudgetConfig = BudgetConfig()
    models: tuple[ModelConfig, ...] = rows(
        ModelConfig, "One for each of several models, or for one that proposer.model cannot describe."
    )

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"models.name: {twice[0]!r} is there {names.count(twice[0])} times; replies are told apart "
                "by it: keep one of them and add up the weights"
            )
        if self.models and self.proposer.model:
            raise ConfigError(
                f"proposer.model is {self.proposer.model!r} and there are [[models]] ({', '.join(names)}); "
                "give one of the two"
            )
        if self.budget.money and not any(model.has_price for model in self.models):
            raise ConfigError(
                f"budget.money is {self.budget.money:g} and no model has a price; set price_in and price_out "
                "in [[models]]"
            )


def load_config(
    path: Path | None,
    overrides: Sequence[str] = (),
    base: Mapping[str, object] | None = None,
    origin: str = "base settings",
) -> Config:
    """Return the defaults, changed by `base`, by the TOML file at `path`, then by `section.key=value` texts.

    What comes later wins. `base` has sections and keys as a file has them, and `origin` is what errors call
    it. Raises `ConfigError`, naming the file or override, for a file that cannot be read, an unknown section
    or key (with the nearest known name), and a value of the wrong type or out of range.
    """
    return Config.load(path, overrides, base, origin)
