"""The configuration of a run: a typed, validated tree, stored with each run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field

from evovpo.config_tree import LARGEST, AboveZero, Count, NotNegative, Positive, Section, Share, Tree
from evovpo.errors import ConfigError

WayName = Literal["climb", "specialist", "explore", "combine", "repair", "fresh"]
"""Ways to ask, defined in `evovpo/search/ways.py`."""
StrategyName = Literal["islands", "iid", "best-of-n"]
GONE_STRATEGIES = ("sequential", "beam", "puct")
"""Strategies of earlier versions; their runs continue with islands."""
_GONE_VALUES = {
    ("prompt", "style", "formula"): "auto",
    **{("search", "strategy", name): "islands" for name in GONE_STRATEGIES},
}
"""Section, key and value of earlier versions -> present value."""
SandboxLevel = Literal["none", "seccomp", "landlock+seccomp", "bwrap+landlock+seccomp"]
"""Isolation levels, weakest first; a copy of the sandbox's list, to avoid importing it."""
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
STRATEGIES: tuple[str, ...] = get_args(StrategyName)


_BY_WAYS = "the search learns which kinds of prompts pay; search.ways sets fixed shares"
_CONSTANT = "its value is fixed; leave it out"
_NO_GAIN = "no measurement showed a gain; leave it out"


class SearchConfig(Section):
    gone: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("root_share", "crossover_share", "repair_share", "focus_share"), _BY_WAYS),
        **dict.fromkeys(("inspirations", "top_programs", "diverse_programs"), _BY_WAYS),
        **dict.fromkeys(("selection", "restart_after"), _BY_WAYS),
        **dict.fromkeys(("join_proposals", "join_share", "lone_row_joins_after", "exploration"), _CONSTANT),
        "learns_ways": "search.ways sets fixed shares; without it they are learned",
        "migrants": "search.migration_rate is a share of an island's programs",
        "beam": "search.strategy has islands, iid and best-of-n",
        **dict.fromkeys(("goals", "notes_interval"), _NO_GAIN),
        **dict.fromkeys(("novelty", "novelty_model", "novelty_cosine"), _NO_GAIN),
    }
    evaluations: Positive = 1000
    """Number of programs to propose; raise it for a hard problem."""
    strategy: StrategyName = "islands"
    """Search strategy; iid and best-of-n are baselines for comparisons."""
    ways: dict[WayName, NotNegative] = Field(default={})
    """Share of each kind of prompt (docs/search.md), such as {climb=0.8, fresh=0.2}; if empty, learned."""
    islands: Annotated[int, Field(ge=1, le=1024)] = 4
    """Number of sub-populations; raise it for more diversity in a long run."""
    elites: Annotated[int, Field(ge=1, le=100_000)] = 32
    """Programs kept per island; raise it for problems with many objectives."""
    migration_interval: Positive = 50
    """Number of prompts of an island between migrations; lower it to spread good programs sooner."""
    migration_rate: Share = 0.1
    """Share of an island's programs copied to the next island at each migration; 0 disables migration."""
    rollouts: Annotated[int, Field(ge=1, le=1024)] | None = None
    """G, completions per prompt; None: 8 for the built-in model and `loop`, else 1."""
    answers: Annotated[int, Field(ge=1, le=4)] = 1
    """M, answers in one completion; use 1 to solve problems, 3 to train with VPO."""
    joins: bool = True
    """Join two complementary programs with a condition; false measures the model alone."""
    attempts: Annotated[int, Field(ge=0, le=64)] = 3
    """Maximum number of failed changes shown in a prompt, next to the parent program; 0 saves tokens."""
    patience: Positive | None = None
    """Stop after this many evaluations without improvement; None uses the whole budget."""
    target: float | None = None
    """Mean reward (or combined_score, if the evaluator returns one) at which to stop."""
    in_flight: Annotated[int, Field(ge=1, le=16384)] = 8
    """Number of concurrent prompts; 1 makes a run reproducible, more keep a server busy."""
    stop_when_solved: bool = True
    """Stop at the first program that passes every training row; false uses the whole budget."""

    def check(self) -> None:
        if self.ways and not any(self.ways.values()):
            raise ConfigError("search.ways gives every way a share of 0; give one more than that")
        if self.ways and self.strategy != "islands":
            raise ConfigError(
                f"search.ways is given with search.strategy {self.strategy}; only islands choose among ways: "
                "leave it out, or set the strategy to islands"
            )


class SamplingConfig(Section):
    temperature: AboveZero = 1.0
    """Sampling temperature; it must be equal in all runs used for one training."""
    max_tokens: Tokens | None = None
    """Maximum completion tokens; None: 160 for the built-in model, 16384 for instruction models."""


class ProposerConfig(Section):
    """The model that proposes programs."""

    gone: ClassVar[Mapping[str, str]] = {
        "threads": _CONSTANT,
        **dict.fromkeys(
            ("requests_per_minute", "tokens_per_minute"),
            "a server that answers 429 is asked again when it says; lower proposer.concurrency",
        ),
        "ensemble": "models are drawn by models.weight; leave it out",
    }

    name: Literal["local", "openai", "random", "scripted", "imported", "own"] = "local"
    """local: a model in this process; openai: one behind a server; random: random programs, a baseline."""
    model: str | None = None
    """Folder of your own model, or the model's name on a server; None for the built-in model."""
    policy: Annotated[
        str, Field(pattern=r"^(start|served|\d+)$"), "start, served or the number of a policy version"
    ] = "start"
    """Policy version to sample from: start (the untrained model), served (the current one), or a number."""
    base_url: str | None = None
    """URL of the server's API, http://HOST:PORT/v1 for vLLM; the key is read from OPENAI_API_KEY."""
    endpoint: Literal["auto", "chat", "completions"] = "auto"
    """Server endpoint: chat, completions (plain text), or auto (chat for prompts with a system message)."""
    timeout_seconds: AboveZero = 120.0
    """Timeout of a request; raise it for a slow or large model."""
    attempts: Annotated[int, Field(ge=1, le=1000)] = 5
    """Maximum attempts for a request that fails or returns an unusable answer."""
    patience_seconds: NotNegative = 3600.0
    """Maximum wait for a busy or failing server; with 0, only `attempts` limits the tries."""
    concurrency: Annotated[int, Field(ge=1, le=16384)] = 16
    """Maximum concurrent requests to a server; lower it for a server that answers 429."""
    tolerance: AboveZero = 1e-4
    """Maximum difference of log-probabilities between server and trainer; 0.2 for bfloat16."""


class ModelConfig(Section):
    """A model behind a server: address, sampling and price."""

    gone: ClassVar[Mapping[str, str]] = {
        "top_p": "write extra = {top_p = 0.9}",
        **dict.fromkeys(("price_in", "price_out"), "write price = [PROMPT, COMPLETION]"),
    }

    @classmethod
    def section(cls) -> str:
        return "models"

    name: str = ""
    """Name of the model on its server."""
    base_url: str | None = None
    """URL of its server's API; None for proposer.base_url."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable with the API key of its server."""
    weight: AboveZero = 1.0
    """Relative share of the prompts that this model gets."""
    temperature: AboveZero | None = None
    """Sampling temperature; None for sampling.temperature."""
    max_tokens: Tokens | None = None
    """Maximum completion tokens; None for sampling.max_tokens."""
    price: tuple[NotNegative, NotNegative] | None = None
    """[a, b]: prices of a million prompt and completion tokens; None: those of genai-prices, in dollars."""
    system: str | None = None
    """System message that replaces the prompt's."""
    extra: dict[str, Any] = Field(default={})
    """Additional request fields, such as {reasoning_effort = "low"}. With the field top_p, runs cannot be
    used for training."""

    def check(self) -> None:
        if not self.name:
            raise ConfigError("models.name is empty; expected the name under which the server offers a model")

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Return the cost of a request, or None if the price or a token count is unknown."""
        if self.price is None or prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.price[0] + completion_tokens * self.price[1]) / 1e6


class BudgetConfig(Section):
    """Spending limits for model servers; a run stops at the first limit reached."""

    tokens: Positive | None = None
    """Maximum number of prompt and completion tokens of a run."""
    money: Annotated[float, Field(gt=0.0, le=1e12)] | None = None
    """Maximum cost in the currency of the prices in [[models]]."""


class SandboxConfig(Section):
    """Isolation and execution of untrusted programs."""

    minimum_level: SandboxLevel = "landlock+seccomp"
    """Minimum isolation. Raise it to hide even the existence of files; lower it for trusted programs if the
    machine does not support this level (docs/sandbox.md).
    """
    workers: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of programs run in parallel; None: one per core, lower it to leave cores for the model."""
    executor: Annotated[str, Field(pattern=r"^(local|ray|ray://.*)$"), "local, ray or ray://HOST:PORT"] = (
        "local"
    )
    """Where programs run: local, ray (a local cluster, or that of RAY_ADDRESS) or ray://HOST:PORT; use Ray
    for suites too large for one machine.
    """
    resources: dict[str, NotNegative] = Field(default={})
    """Ray resources per task, such as {num_cpus = 2, num_gpus = 0.5, memory = 4e9} (memory in
    bytes), or custom ones; for evaluations that need several cores, a GPU, or a certain machine.
    """


class EvaluatorConfig(Section):
    """Evaluators in OpenEvolve's format, which import the candidate themselves."""

    gone: ClassVar[Mapping[str, str]] = {
        "cascade": "leave evaluator.thresholds empty to run evaluate alone",
        "artifact_bytes": _CONSTANT,
    }

    mode: Literal["whole", "proxy"] = "whole"
    """whole: evaluator and candidate share a process; proxy: separate processes, for trusted results."""
    metrics: str | None = None
    """TOML file that maps metrics to objectives; None uses metrics.toml next to the evaluator, if present."""
    initial_program: str | None = None
    """File or folder of the initial program; None uses the standard name in the project."""
    allow: tuple[str, ...] = ()
    """Permissions of a trusted evaluator: env=NAME, read=PATH, write=PATH, path=FOLDER, network, gpu,
    cwd=FOLDER, sandbox=off (docs/sandbox.md).
    """
    timeout_seconds: AboveZero = 300.0
    """Timeout of an evaluation over all stages; lower it if many programs loop forever."""
    memory_mb: Annotated[int, Field(ge=64, le=LARGEST)] = 4096
    """Maximum address space of an evaluation in MiB; raise it for large data or models."""
    processes: Annotated[int, Field(ge=1, le=65_536)] = 64
    """Maximum processes and threads of an evaluation; raise it for evaluators that start many."""
    thresholds: tuple[float, ...] = (0.5, 0.75, 0.9)
    """Scores needed to reach evaluate_stage2, evaluate_stage3, ...; lower them if good programs fail."""
    arguments: dict[str, Any] = Field(default={})
    """Keyword arguments of evaluate(), for evaluators that need more than the program's path."""
    judges: dict[str, Any] = Field(default={})
    """Models that also score programs (OpenEvolve's `use_llm_feedback`)."""
    artifacts: bool = True
    """Show evaluators' artifacts in prompts; false if they reveal answers."""


class PromptConfig(Section):
    """Prompts for instruction models; the built-in model's format has no settings."""

    gone: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("feedback_characters", "attempt_characters", "program_characters"), _CONSTANT
    )

    style: Literal["auto", "alignment", "rewrite", "diff"] = "auto"
    """alignment: the built-in model's format; rewrite: whole programs; diff: edits; auto chooses."""
    templates: str | None = None
    """Folder of templates that replace the package's templates of the same name."""
    openevolve: dict[str, Any] | None = None
    """OpenEvolve `prompt` section from which prompts are built; None uses our templates."""
    enforce_blocks: bool = True
    """Allow changes only inside EVOLVE-BLOCKs, if present."""


class StoreConfig(Section):
    """The database of runs."""

    url: str = "sqlite:///evovpo.db"
    """SQLAlchemy URL; PostgreSQL for runs on several machines."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The possible SQLite files of the store, to be hidden from programs; empty for other databases."""
        scheme, separator, database = self.url.partition(":///")
        if not (separator and scheme.startswith("sqlite") and database):
            return ()
        file = database.partition("?")[0]
        return tuple(Path(file + ending).resolve() for ending in ("", "-wal", "-shm", "-journal"))


class RunConfig(Section):
    """Seed and origin of a run."""

    gone: ClassVar[Mapping[str, str]] = {
        "archipelago": "a search is one process: raise search.in_flight and sandbox.workers for more speed",
        "programs": "name them after the run in run.origin",
    }
    seed: Count = 0
    """Random seed; change it for an independent repetition."""
    origin: tuple[str, ...] = ()
    """Run whose programs are used as further starting programs (--from): [RUN], or [RUN, PROGRAM, ...]."""


class Config(Tree):
    """The whole configuration, resolved and validated."""

    search: SearchConfig = SearchConfig()
    sampling: SamplingConfig = SamplingConfig()
    proposer: ProposerConfig = ProposerConfig()
    sandbox: SandboxConfig = SandboxConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    prompt: PromptConfig = PromptConfig()
    store: StoreConfig = StoreConfig()
    run: RunConfig = RunConfig()
    budget: BudgetConfig = BudgetConfig()
    models: tuple[ModelConfig, ...] = ()
    """Several models, or one with settings that [proposer] lacks."""

    @classmethod
    def _build(cls, tree: Mapping[str, Any]) -> Self:
        proposer = (
            {"name": "openai"} if tree.get("models") or tree.get("proposer", {}).get("base_url") else {}
        )
        return super()._build({**tree, "proposer": proposer | dict(tree.get("proposer", {}))})

    @classmethod
    def of_today(cls, data: Any) -> Any:
        """Return the stored settings of an older version as settings of this version."""
        for (section, key, value), today in _GONE_VALUES.items():
            part = data.get(section) if isinstance(data, dict) else None
            if isinstance(part, dict) and part.get(key) == value:
                part[key] = today
        if isinstance(data, dict):
            evaluator, run = data.get("evaluator", {}), data.get("run", {})
            if evaluator.get("cascade") is False:
                evaluator["thresholds"] = []
            origin, ids, judges = run.get("origin"), run.get("programs") or (), evaluator.get("judges")
            if "programs" in run:
                run["origin"] = [origin, *(ids.split(",") if isinstance(ids, str) else ids)] if origin else []
            judging = judges.get("models", ()) if isinstance(judges, dict) else ()
            for model in (*data.get("models", ()), *judging):
                _update_model(model)
        return super().of_today(data)

    def check(self) -> None:
        names = [model.name for model in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"models.name: {twice[0]!r} is there {names.count(twice[0])} times; replies are identified "
                "by it: keep one of them and add up the weights"
            )
        if self.models and self.proposer.model and names != [self.proposer.model]:
            raise ConfigError(
                f"proposer.model is {self.proposer.model!r} and there are [[models]] ({', '.join(names)}); "
                "give one of the two"
            )


def _update_model(model: dict[str, Any]) -> None:
    top_p, prices = model.pop("top_p", 1.0), [model.pop(key, 0.0) for key in ("price_in", "price_out")]
    if top_p != 1.0:
        extra = model.get("extra") or {}
        model["extra"] = {**(json.loads(extra) if isinstance(extra, str) else extra), "top_p": top_p}
    if any(prices):
        model["price"] = prices
