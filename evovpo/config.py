"""The configuration of a run: one typed tree, read from a TOML file and `section.key=value` overrides.

Every value is checked when its section is built, so a `Config` that exists is a usable one. The
resolved tree is stored with each run (`Config.to_json`) and read back by `Config.from_json`.
What a problem needs (limits, objectives) is not here: it belongs to the problem's folder.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field

from evovpo.config_tree import LARGEST, AboveZero, Count, NotNegative, Positive, Section, Share, Tree
from evovpo.errors import ConfigError

WayName = Literal["climb", "specialist", "explore", "combine", "repair", "fresh"]
"""The ways to ask, in `evovpo/search/ways.py`."""
StrategyName = Literal["islands", "iid", "best-of-n"]
GONE_STRATEGIES = ("sequential", "beam", "puct")
"""Strategies of earlier versions; their runs go on with islands."""
_GONE_VALUES = {
    ("prompt", "style", "formula"): "auto",
    **{("search", "strategy", name): "islands" for name in GONE_STRATEGIES},
}
"""Section, key and value of earlier versions -> the value of today."""
SandboxLevel = Literal["none", "seccomp", "landlock+seccomp", "bwrap+landlock+seccomp"]
"""Names of the isolation levels, weakest first; the sandbox's own list, without importing it."""
STRATEGIES: tuple[str, ...] = get_args(StrategyName)


def _numbers(text: str) -> str:
    """Return a text of finite numbers with commas between them; raises `ValueError` for any other."""
    if not all(math.isfinite(float(part)) for part in text.split(",") if part.strip()):
        raise ValueError
    return text


def amounts(text: str) -> dict[str, float]:
    """Return what `name=amount,name=amount` says; raises `ValueError` for any other text."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    found = {name.strip(): float(amount) for name, _, amount in parts}
    if not all(name and math.isfinite(amount) and amount >= 0 for name, amount in found.items()):
        raise ValueError
    return found


def _amounts(text: str) -> str:
    amounts(text)
    return text


def _object(text: str) -> str:
    """Return a text that is a JSON object, or empty; raises `ValueError` for any other."""
    if not isinstance(json.loads(text or "{}"), dict):
        raise ValueError
    return text


_BY_WAYS = "the search learns which way to ask pays; search.ways sets their shares at first"
_CONSTANT = "its value is fixed; leave it out"


class SearchConfig(Section):
    """How the population is searched."""

    gone: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("root_share", "crossover_share", "repair_share", "focus_share"), _BY_WAYS),
        **dict.fromkeys(("inspirations", "top_programs", "diverse_programs"), _BY_WAYS),
        **dict.fromkeys(("selection", "restart_after"), _BY_WAYS),
        **dict.fromkeys(("join_proposals", "join_share", "lone_row_joins_after", "exploration"), _CONSTANT),
        "migrants": "search.migration_rate is a share of an island's programs",
        "beam": "search.strategy has islands, iid and best-of-n",
        "goals": "no measurement showed a gain; leave it out",
        "novelty_model": "novelty is judged by text: search.novelty",
        "novelty_cosine": "novelty is judged by text: search.novelty",
    }
    evaluations: Positive = 1000
    """Budget in proposed candidates; raise it for a hard problem."""
    strategy: StrategyName = "islands"
    """What each ask starts from; all but islands are for comparisons and for small budgets."""
    ways: dict[WayName, NotNegative] = Field(default={})
    """Shares of the ways to ask at first, such as {climb=0.8, fresh=0.2}; empty for the usual ones."""
    learns_ways: bool = True
    """Shift asks to the ways that brought most lately; off keeps the shares, for comparisons."""
    islands: Annotated[int, Field(ge=1, le=1024)] = 4
    """Sub-populations; more keep more variety in a long run, 1 is plain search."""
    elites: Annotated[int, Field(ge=1, le=100_000)] = 32
    """Programs that an island keeps; raise it for problems with many objectives."""
    migration_interval: Positive = 50
    """Asks of an island between migrations; lower it to make islands alike sooner."""
    migration_rate: Share = 0.1
    """Share of an island's programs that are copied to the next at each migration; 0 keeps them apart."""
    rollouts: Annotated[int, Field(ge=1, le=1024)] | None = None
    """G, completions sampled for one prompt; None: 8 for the built-in model and `loop`, else 1."""
    answers: Annotated[int, Field(ge=1, le=4)] = 1
    """M, answers asked for in one completion; 3 for a run that VPO trains from, 1 solves more."""
    joins: bool = True
    """Join complementary programs under one condition; switch off to measure the model alone."""
    attempts: Annotated[int, Field(ge=0, le=64)] = 3
    """Failed answers to the same parent that a prompt may show; 0 saves prompt tokens."""
    notes_interval: Count = 0
    """Asks between two that write down what was learned, for later prompts; 0 never does."""
    novelty: Share = 0.0
    """Least text distance to the island's programs; above 0 where evaluations are dear, 0 is off."""
    patience: Count = 0
    """Evaluations without a better program after which the run stops; 0 uses the whole budget."""
    target: Annotated[str, Field(pattern="^[^,]*$"), AfterValidator(_numbers), "a finite number"] = ""
    """Mean reward (or combined_score, where the evaluator gives one) to stop at; empty for none."""
    in_flight: Annotated[int, Field(ge=1, le=16384)] = 8
    """Asks open at a time; 1 makes a run reproducible, more keep a server busy."""
    stop_when_solved: bool = True
    """Stop at the first program that passes every training row; off to spend the whole budget."""

    def check(self) -> None:
        if self.ways and not any(self.ways.values()):
            raise ConfigError("search.ways gives every way a share of 0; give one more than that")
        if self.ways and self.strategy != "islands":
            raise ConfigError(
                f"search.ways is given with search.strategy {self.strategy}; only islands choose among ways: "
                "leave it out, or set the strategy to islands"
            )
        if self.strategy in ("iid", "best-of-n") and self.notes_interval:
            raise ConfigError(
                f"search.notes_interval is {self.notes_interval} with search.strategy {self.strategy}, whose "
                "asks are all the same; set it to 0"
            )

    @property
    def target_value(self) -> float | None:
        """The number in `target`, or none."""
        return float(self.target) if self.target else None


class SamplingConfig(Section):
    """How completions are sampled."""

    temperature: AboveZero = 1.0
    """Sampling temperature; the trainer must use the same, so change it for both."""
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Completion tokens before a reply is cut; 0 fits the prompts: 160 built-in, 4096 instruction models."""


class ProposerConfig(Section):
    """Who proposes programs."""

    name: Literal["local", "openai", "random", "scripted", "imported", "own"] = "local"
    """A model in this process, one behind an OpenAI-compatible server, or random programs as a baseline."""
    model: str = ""
    """Model folder of your own, empty for the built-in one; of a server, the name it has there."""
    policy: Annotated[
        str, Field(pattern=r"^(start|served|\d+)$"), "start, served or the number of a policy version"
    ] = "start"
    """What to sample from: start (that model), served (follows what training publishes) or a number."""
    base_url: str = ""
    """Address of the server's API, for vLLM http://HOST:PORT/v1; its key is in OPENAI_API_KEY."""
    endpoint: Literal["auto", "chat", "completions"] = "auto"
    """Of a server: chat, completions (plain text), or auto: chat for prompts with a system message."""
    ensemble: Literal["weights", "bandit"] = "weights"
    """How one of several [[models]] is chosen: by weight, or by improvement per token (a bandit)."""
    timeout_seconds: AboveZero = 120.0
    """Longest wait for one answer of a server; raise it for a slow or large model."""
    attempts: Annotated[int, Field(ge=1, le=1000)] = 5
    """How often a request is sent whose answers cannot be used, and at least to a server that fails."""
    patience_seconds: NotNegative = 3600.0
    """How long a busy, failing or dead server is waited for; longer for nights, 0 ends a run at once."""
    concurrency: Annotated[int, Field(ge=1, le=16384)] = 16
    """Requests that a server has at a time; lower it for one that answers 429."""
    requests_per_minute: Count = 0
    """Most requests in a minute; for providers that limit them, 0 is no limit."""
    tokens_per_minute: Count = 0
    """Most tokens of prompts and replies in a minute; for providers that limit them, 0 is no limit."""
    tolerance: AboveZero = 1e-4
    """Largest difference of a server's log-probabilities to the trainer's; 0.2 for one in bfloat16."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """Torch threads; 0 leaves them to the environment, 1 is best on a busy machine."""


class ModelConfig(Section):
    """One model behind a server: where it is, how it is sampled, what it costs."""

    @classmethod
    def section(cls) -> str:
        """Return the name of the tuple of all models."""
        return "models"

    name: str = ""
    """The name that its server knows."""
    base_url: str = ""
    """Address of its server's API; empty for proposer.base_url."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the key of its server."""
    weight: AboveZero = 1.0
    """Share of the asks that it gets, relative to the others."""
    temperature: NotNegative = 0.0
    """Sampling temperature; 0 for that of [sampling]."""
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Completion tokens before a reply is cut; 0 for those of [sampling]."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Nucleus sampling; below 1 nothing can be trained from its replies."""
    price_in: NotNegative = 0.0
    """Price of a million prompt tokens, in any currency."""
    price_out: NotNegative = 0.0
    """Price of a million completion tokens, in the same currency."""
    system: str = ""
    """System message in place of the prompt's own; empty keeps that."""
    extra: Annotated[str, AfterValidator(_object), "a JSON object"] = ""
    """Further fields of the request as a JSON object, for example {"reasoning_effort": "low"}."""

    def check(self) -> None:
        if not self.name:
            raise ConfigError("models.name is empty; expected the name under which the server offers a model")

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


class BudgetConfig(Section):
    """What a run may spend on requests to servers; when it is used up the run stops, and can be shown."""

    tokens: Count = 0
    """Tokens of prompts and replies; for who pays by the token, 0 is no limit."""
    money: Annotated[float, Field(ge=0.0, le=1e12)] = 0.0
    """In the currency of the prices in [[models]]; 0 is no limit."""


class SandboxConfig(Section):
    """How untrusted programs are run."""

    minimum_level: SandboxLevel = "landlock+seccomp"
    """Weakest isolation accepted: raise it where programs must not even see that a file exists, lower it
    where the machine offers less and the programs are trusted that far (docs/sandbox.md).
    """
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    """Programs run at a time; 0 is the number of cores, fewer leave room for the model."""
    executor: Annotated[str, Field(pattern=r"^(local|ray|ray://.*)$"), "local, ray or ray://HOST:PORT"] = (
        "local"
    )
    """Where programs run: local, ray (a cluster here, or that of RAY_ADDRESS) or ray://HOST:PORT; for suites
    too large for one machine.
    """
    resources: Annotated[
        str, AfterValidator(_amounts), "amounts such as num_cpus=2,num_gpus=0.5,memory=4e9"
    ] = ""
    """What a task of Ray takes of its machine, in Ray's names, or names of your own that its machines offer;
    for evaluations that need more than a core, a GPU, or a machine with something. Memory is in bytes.
    """


class EvaluatorConfig(Section):
    """How evaluators that import the candidate themselves (OpenEvolve's format) are run and read."""

    mode: Literal["whole", "proxy"] = "whole"
    """whole: evaluator and candidate share a sandboxed process; proxy: the candidate is apart, for trust."""
    metrics: str = ""
    """TOML file that makes objectives of metrics; empty for metrics.toml beside the evaluator, if any."""
    initial_program: str = ""
    """File or folder of the initial program; empty for the one of the usual name in the project."""
    allow: str = ""
    """What the evaluator may have, with commas: env=NAME, read=PATH, write=PATH, path=FOLDER, network, gpu,
    cwd=FOLDER, sandbox=off (docs/sandbox.md); for evaluators that need it and are trusted that far.
    """
    timeout_seconds: AboveZero = 300.0
    """Longest evaluation, all stages together; lower it to lose less to endless loops."""
    memory_mb: Annotated[int, Field(ge=64, le=LARGEST)] = 4096
    """Address space of an evaluation in MiB; raise it for large data or models."""
    processes: Annotated[int, Field(ge=1, le=65_536)] = 64
    """Processes and threads of one evaluation; raise it for evaluators that start many."""
    cascade: bool = True
    """Run evaluate_stage1 and the following where they exist; off to always run evaluate."""
    thresholds: Annotated[str, AfterValidator(_numbers), "finite numbers with commas between them"] = (
        "0.5, 0.75, 0.9"
    )
    """What a stage must reach for the next to run; lower them if good programs stop early."""
    judges: Annotated[str, AfterValidator(_object), "a JSON object"] = ""
    """Models that score programs too, from `use_llm_feedback` of OpenEvolve; empty for none."""
    artifacts: bool = True
    """Show models what evaluators return as artifacts; off where it gives answers away."""
    artifact_bytes: Annotated[int, Field(ge=0, le=20480)] = 2000
    """Most bytes of artifacts in a feedback; raise it for models with room."""

    @property
    def cascade_thresholds(self) -> tuple[float, ...]:
        """The numbers in `thresholds`: what stage 1, 2, ... must reach."""
        return tuple(float(part) for part in self.thresholds.split(",") if part.strip())


class PromptConfig(Section):
    """How problems are put to instruction models; the built-in model's own format has no settings."""

    style: Literal["auto", "alignment", "rewrite", "diff"] = "auto"
    """alignment: the built-in model's; rewrite: whole programs; diff: edits; auto: what fits."""
    templates: str = ""
    """Folder with templates of your own, which override those of the package one by one."""
    openevolve: Annotated[str, AfterValidator(_object), "a JSON object"] = ""
    """`prompt` section of an OpenEvolve configuration whose templates make the prompts; empty for ours."""
    enforce_blocks: bool = True
    """Where a program has EVOLVE-BLOCKs only these may change; off where all of it may."""
    feedback_characters: Annotated[int, Field(ge=100, le=1_000_000)] = 1500
    """Most characters shown of what judging a program gave; raise it for models with room."""
    attempt_characters: Annotated[int, Field(ge=100, le=1_000_000)] = 600
    """Most characters shown of an earlier answer that came to nothing."""
    program_characters: Annotated[int, Field(ge=100, le=LARGEST)] = 40_000
    """Longest program taken from an answer, so that prompts that show it keep their size."""


class StoreConfig(Section):
    """Where everything that happens is kept."""

    url: str = "sqlite:///evovpo.db"
    """SQLAlchemy URL; a PostgreSQL one for runs on several machines."""

    @property
    def files(self) -> tuple[Path, ...]:
        """SQLite files of the store, there or not, which no program may read; none of another database."""
        scheme, separator, database = self.url.partition(":///")
        if not (separator and scheme.startswith("sqlite") and database):
            return ()
        file = database.partition("?")[0]
        return tuple(Path(file + ending).resolve() for ending in ("", "-wal", "-shm", "-journal"))


class RunConfig(Section):
    """What tells one run from another with the same settings."""

    seed: Count = 0
    """Source of all randomness; change it for an independent repetition."""
    origin: str = ""
    """Run whose best programs are starting programs too (--from); empty for the problem's own alone."""
    programs: str = ""
    """These programs by id, with commas between; chosen as the run starts."""
    archipelago: str = ""
    """Name of a search in several processes: runs of one store and problem with the same name take over each
    other's programs, as islands do; empty for a run by itself."""


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
    models: tuple[ModelConfig, ...] = ()
    """One for each of several models, or for one that proposer.model cannot describe."""

    @classmethod
    def of_today(cls, data: Any) -> Any:
        """Return stored settings without what older versions had and this one has not."""
        for (section, key, value), today in _GONE_VALUES.items():
            part = data.get(section) if isinstance(data, dict) else None
            if isinstance(part, dict) and part.get(key) == value:
                part[key] = today
        return super().of_today(data)

    def check(self) -> None:
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
        if self.run.archipelago and self.search.strategy != "islands":
            raise ConfigError(
                f"run.archipelago is {self.run.archipelago!r} with search.strategy {self.search.strategy}; "
                "only islands take over programs of other runs: leave it out, or set the strategy to islands"
            )
        if self.budget.money and not any(model.has_price for model in self.models):
            raise ConfigError(
                f"budget.money is {self.budget.money:g} and no model has a price; set price_in and price_out "
                "in [[models]]"
            )
