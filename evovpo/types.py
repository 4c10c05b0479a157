"""The records that every part of evovpo exchanges: frozen values, no I/O, no third-party imports.

Dimension letters, used as suffixes wherever there is more than one dimension:
`P` prompts, `G` rollouts in a group, `M` answers in a rollout, `D` reward components,
`N` training rows, `T` tokens.
"""

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value that survives JSON unchanged; what candidates receive and return."""

Rewards: TypeAlias = tuple[float, ...]
"""A reward vector of length D, each component in [0, 1], higher is better."""


class Status(StrEnum):
    """Outcome of an evaluation, which also tells whose fault a failure is."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASH = "crash"
    FORBIDDEN = "forbidden"
    OUTPUT_LIMIT = "output_limit"
    BAD_OUTPUT = "bad_output"
    SANDBOX_ERROR = "sandbox_error"

    @property
    def is_candidate_fault(self) -> bool:
        """True for a failure that the program caused; it trains as the zero vector."""
        return self not in (Status.OK, Status.SANDBOX_ERROR)


class Trust(StrEnum):
    """How far an evaluation can be trusted."""

    HIGH = "high"
    """The candidate's process never held the evaluator or the expected answers."""
    LOW = "low"
    """Candidate and evaluator ran in one process: a program may have forged its own judgement."""


class ParseStatus(StrEnum):
    """Result of parsing one answer slot."""

    PARSED = "parsed"
    """A program that this run had not seen."""
    UNPARSED = "unparsed"
    """No program could be read from the slot, or the slot is missing."""
    DUPLICATE = "duplicate"
    """A program that this run had already proposed; it has the vector of its twin."""
    REJECTED = "rejected"
    """A program refused before evaluation, for example as not novel."""


class ParentRole(StrEnum):
    """The role of a program in making another."""

    PARENT = "parent"
    INSPIRATION = "inspiration"
    PARTNER = "partner"
    """The second parent of a crossover."""
    JOIN_THEN = "join_then"
    JOIN_ELSE = "join_else"


class PromptKind(StrEnum):
    """What a ticket asks for."""

    SEED = "seed"
    """No model: the problem's starting programs; they do not count against the budget."""
    ROOT = "root"
    """Write programs from the problem alone."""
    MUTATE = "mutate"
    """Improve on a parent program."""
    CROSSOVER = "crossover"
    """Combine two parent programs; the second is an inspiration of role `PARTNER`."""
    REPAIR = "repair"
    """Mend a parent program that fails."""
    NOTES = "notes"
    """Write down what was learned so far: one completion without answers, shown in later prompts."""
    JOIN = "join"
    """No model: the ticket itself carries the joined programs to judge."""
    SHORTEN = "shorten"
    """No model: shorter variants of a solution; they do not count against the budget."""

    @property
    def is_free(self) -> bool:
        """True where what a ticket carries does not count against the budget."""
        return self in (PromptKind.SEED, PromptKind.SHORTEN)


class PolicyEventKind(StrEnum):
    """What happened to a policy version."""

    PUBLISHED = "published"
    """Written, compared with the trainer's own log-probabilities, and stored."""
    SERVED = "served"
    """From now on the version that searches follow."""
    ROLLED_BACK = "rolled_back"
    """As `SERVED`, but an older version in place of a newer one."""
    REFUSED = "refused"
    """Not served: it differed from what was trained, a server would not take it, or it was clearly worse."""
    FAILED = "failed"
    """A training or a publication ended before there was a version."""

    @property
    def is_serving(self) -> bool:
        """True for an event after which searches follow its version."""
        return self in (PolicyEventKind.SERVED, PolicyEventKind.ROLLED_BACK)

    @property
    def ends_training(self) -> bool:
        """True for an event after which the training that it names has nothing left to do."""
        return self is not PolicyEventKind.PUBLISHED


MEMORISED = "memorised"
"""In place of `RunStatus.SOLVED` for a run whose program is wrong on some held-out row."""


class RunStatus(StrEnum):
    """Status of a run. A run that is `RUNNING` without a living process was interrupted."""

    RUNNING = "running"
    SOLVED = "solved"
    EXHAUSTED = "exhausted"
    STOPPED = "stopped"
    """Ended before its evaluations were used: target reached, no progress, or tokens or money used up."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        """True for a run that resuming would only report."""
        return self in (RunStatus.SOLVED, RunStatus.EXHAUSTED, RunStatus.STOPPED)

    def ending(self, solved_heldout: bool | None) -> str:
        """Return it in a word for people: `memorised` for a run that is solved, but not on held-out rows."""
        return MEMORISED if self is RunStatus.SOLVED and solved_heldout is False else str(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one evaluation. The sandbox enforces every field."""

    wall_seconds: float = 10.0
    cpu_seconds: int = 10
    memory_mb: int = 512
    """Address space above what the warm server maps, in MiB."""
    result_bytes: int = 1 << 20
    log_bytes: int = 64 << 10
    """Kept of standard output and standard error together."""
    open_files: int = 64
    stack_mb: int = 64
    threads: int = 0
    processes: int = 0
    """Beyond the first. Only an evaluator that imports its candidate may have any; there they count
    together with `threads`."""
    disk_mb: int = 64
    """What such an evaluator may write into its private folder, in MiB; others write nothing."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One component of the reward vector."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One row of a programming-by-example problem: arguments and the wanted result."""

    inputs: tuple[Json, ...]
    output: Json


@dataclass(frozen=True, slots=True)
class Program:
    """Source text, identified by its content."""

    source: str
    id: str = field(default="")

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", content_id(self.source))


@dataclass(frozen=True, slots=True)
class Feature:
    """One axis of the MAP-Elites grid: `length` of the source, `reward:OBJECTIVE`, or `metric:NAME`.

    `edges` are the ascending inner bin edges; empty: learned once from the first programs, then frozen.
    """

    name: str
    edges: tuple[float, ...] = ()
    bins: int = 8


class EvaluatorMode(StrEnum):
    """Where the candidate runs when its evaluator imports it."""

    WHOLE = "whole"
    """Evaluator and candidate together in one sandboxed process: always works, low trust."""
    PROXY = "proxy"
    """The candidate alone in the sandbox, the evaluator calling its functions through a stub."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How one number that an evaluator returns becomes one reward component.

    Linear from `low` (reward 0) to `high` (reward 1), clipped. A soft one, whose range nobody declared, is
    1/2 + atan((x - low) / (high - low)) / pi. With `lower_is_better` the reward is one minus that.
    """

    name: str
    low: float
    high: float
    lower_is_better: bool = False
    is_soft: bool = False


@dataclass(frozen=True, slots=True)
class EvaluatorFolder:
    """An evaluator that imports the candidate itself, in OpenEvolve's format."""

    file: str
    """Name of the Python file in the problem's folder that defines `evaluate(program_path)`."""
    mode: EvaluatorMode
    metrics: tuple[Metric, ...]
    """One for each objective, in order."""
    thresholds: tuple[float, ...] = ()
    """Of the cascade: stage i + 1 runs where stage i reached `thresholds[i - 1]`; empty: `evaluate` alone."""
    artifacts: bool = True
    """Whether artifacts that the evaluator returns become feedback."""
    left_out: tuple[str, ...] | None = None
    """Where one number alone ranks programs, OpenEvolve's `combined_score`: the metrics that its mean leaves
    out. None where reward vectors rank them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A task with D objectives, as loaded and checked from its folder.

    Exactly one of `train` (by example), `scorer_path` and `evaluator` is set. Nothing that selects, stops or
    prompts may read `heldout`.
    """

    id: str
    version: str
    """Hash over everything in the folder that can change a judgement."""
    statement: str
    entry: str
    """Name of the function that a program must define; empty where the evaluator knows it."""
    parameters: tuple[str, ...]
    """Parameter names of the entry function, in order."""
    objectives: tuple[Objective, ...]
    seeds: tuple[Program, ...]
    limits: Limits = Limits()
    train: tuple[Example, ...] = ()
    heldout: tuple[Example, ...] = ()
    scorer_path: str | None = None
    features: tuple[Feature, ...] = ()
    folder: str | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    """Which objectives a trainer takes as one component, the mean of a group: every objective is in one
    group; empty means that each is a component of its own. Search and store never read it."""
    suffix: str = ".py"
    """File ending of programs, with the dot; `/` for programs that are folders
    (`evovpo/prompts/bundles.py`)."""
    evaluator: EvaluatorFolder | None = None
    validation: tuple[Example, ...] = ()
    """Rows taken from the training rows of a by-example problem: no search sees them, and a program is only
    imitated if it is right on them."""

    @property
    def is_by_example(self) -> bool:
        """True for a programming-by-example problem, where objective i is training row i."""
        return self.scorer_path is None and self.evaluator is None

    @property
    def has_one_score(self) -> bool:
        """True if one number alone ranks programs, and all others are only shown."""
        return self.evaluator is not None and self.evaluator.left_out is not None

    @property
    def trust(self) -> Trust:
        """How far judgements of this problem can be believed."""
        whole = self.evaluator is not None and self.evaluator.mode is EvaluatorMode.WHOLE
        return Trust.LOW if whole else Trust.HIGH


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt: role is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A program that took part in making a prompt or a candidate, with its part."""

    program_id: str
    role: ParentRole


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ticket that `ask` hands out; without a model its single reply is `proposals`."""

    id: str
    run_id: str
    sequence: int
    """Position in the order of asks, from 0; randomness derives from (run seed, sequence)."""
    tells_before: int
    """Number of tells applied before this ask; replay needs it."""
    kind: PromptKind
    island: int = 0
    parents: tuple[Parent, ...] = ()
    messages: tuple[Message, ...] = ()
    rollouts: int = 1
    """G: completions to sample."""
    answers: int = 1
    """M: answers asked for in each completion."""
    seed: int = 0
    """Seed for sampling this prompt; rollout i of the same prompt and policy is reproducible."""
    proposals: tuple[Program, ...] = ()
    way: str = ""
    """The way to ask that chose what it shows (`evovpo.search.ways`); empty where there is no choice."""

    @property
    def slots(self) -> int:
        """Candidates that this ticket takes from the budget."""
        if self.kind.is_free:
            return 0
        return len(self.proposals) if self.kind is PromptKind.JOIN else self.rollouts * self.answers

    @property
    def parent_id(self) -> str | None:
        """The program that it shows for improvement, if there is one."""
        return next((p.program_id for p in self.parents if p.role is ParentRole.PARENT), None)

    @property
    def has_model(self) -> bool:
        """True for a ticket that a model answers, rather than one that carries its own programs."""
        return self.kind is not PromptKind.JOIN and not self.kind.is_free


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings; the stored log-probabilities are those of this very distribution."""

    temperature: float = 1.0
    max_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion by one policy version: reply number `index` to its prompt."""

    id: str
    prompt_id: str
    index: int
    policy_version: int
    text: str
    token_ids: tuple[int, ...] | None
    """Completion token ids (T), or None where the backend does not give them."""
    logprobs: tuple[float, ...] | None
    """Natural-log probabilities (T) under `sampling`, or None."""
    prompt_token_ids: tuple[int, ...] | None
    sampling: Sampling
    finish_reason: str
    """`stop` (end token), `length` (limit reached) or what the server said."""
    seconds: float
    """Wall-clock seconds of the request, divided by the rollouts that shared it."""
    model: str = ""
    """Which of several models wrote it, by the name that its server knows; empty where there is one."""


class CallOutcome(StrEnum):
    """How one request to a model server ended."""

    OK = "ok"
    RETRIED = "retried"
    """It failed, and was sent again."""
    FAILED = "failed"
    """It failed for the last time."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model server and its outcome."""

    run_id: str
    prompt_id: str
    attempt: int
    """From 1."""
    model: str
    outcome: CallOutcome
    reason: str
    """Why it failed, for example `http 429` or `timeout`; empty for `ok`."""
    prompt_tokens: int | None
    """Tokens as counted by the server, or None if it does not count them."""
    completion_tokens: int | None
    cost: float | None
    """Cost in the currency of the configured prices, or None without prices."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer slot of a rollout (or of a join ticket)."""

    id: str
    prompt_id: str
    rollout_id: str | None
    """None for a join, which no model wrote."""
    slot: int
    """Position in the chain, from 0."""
    parse_status: ParseStatus
    program: Program | None = None
    """None when nothing could be read from the slot."""
    token_span: tuple[int, int] | None = None
    """Half-open range of the rollout's tokens that wrote this answer, or None if unknown."""
    parents: tuple[Parent, ...] = ()
    text: str = ""
    """The slot's text as written."""
    reason: str = ""
    """Why it has no program or was rejected, as later prompts tell the model."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The judgement of a program on a problem version."""

    program_id: str
    problem_version: str
    status: Status
    rewards: Rewards | None
    """D components, or None for a `sandbox_error`; a candidate's fault has zeros."""
    feedback: str
    """Why it failed, capped; untrusted text."""
    seconds: float
    isolation: str
    """Sandbox level that was in force, for example `landlock+seccomp`."""
    outputs: tuple[Json, ...] | None = None
    """What the program returned per case, where the problem keeps outputs for prompts."""
    metrics: tuple[tuple[str, Json], ...] | None = None
    """Raw metrics of an evaluator that returns its own, in order; numbers that are not finite as text."""
    trust: Trust = Trust.HIGH

    @property
    def mean_reward(self) -> float:
        """Mean component; 0 without rewards."""
        rewards = self.rewards or (0.0,)
        return sum(rewards) / len(rewards)

    @property
    def passed(self) -> int:
        """Components at full reward; by example these are training rows."""
        return sum(value >= 1.0 for value in self.rewards or ())

    def __post_init__(self) -> None:
        for index, value in enumerate(self.rewards or ()):
            if not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise ValueError(f"reward component {index} is {value!r}; rewards lie in [0, 1]")


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate with its evaluation; None if the slot has no program."""

    candidate: Candidate
    evaluation: Evaluation | None
    executed: bool
    """True if the sandbox ran it for this tell; false for duplicates and stored judgements."""


@dataclass(frozen=True, slots=True)
class Tell:
    """One reply to a ticket, judged: the unit that is applied, and stored in one transaction."""

    prompt_id: str
    rollout: Rollout | None
    """None for a join ticket."""
    judged: tuple[JudgedCandidate, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The judged rollouts of one prompt: what a trainer reads."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    rewards_G_M_D: tuple[tuple[Rewards, ...], ...]
    """Ragged in M; a missing, unparsed or repeated answer is a zero row."""
    valid_G: tuple[bool, ...]
    """False for a rollout that a persisting sandbox fault took out of the group."""
    programs_G_M: tuple[tuple[str | None, ...], ...] = ()
    """Program ids, repeated ones too; None where no program could be read. Empty if not loaded."""


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A proposer that can be served, whose folder is complete; number 0 is the start model."""

    number: int
    parent: int | None
    path: str
    trained_through: str | None = None
    """Id of the last prompt that it was trained on, or None."""
    config_hash: str = ""
    """Id of the training that made it, which hashes configuration and data; empty for a start model."""
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """Something that happened to a policy version; the latest serving one says which is served."""

    number: int | None
    """The version, or None for a failure before there was one. A refused version has no row."""
    kind: PolicyEventKind
    detail: str = ""
    """Why, for people."""
    at: str = ""
    """ISO 8601, UTC, written by the store; for people, never for decisions."""
    training_id: str | None = None
    """The training that it ended, or that made the version; the store knows it of a version with a row."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training from logs: what it read, where it started and how."""

    id: str
    objective: str
    config_json: str
    """The trainer's resolved configuration."""
    start_version: int
    """Number of the policy version whose weights it began with."""
    runs: tuple[str, ...]
    """Ids of the runs whose groups it read, in order."""
    after: tuple[str | None, ...]
    """Per run, the prompt of the last group that it left to earlier trainings, or None for all."""
    through: tuple[str | None, ...]
    """Per run, the prompt of the last complete group when it began, or None if there was no group."""
    seed: int
    created_at: str
    """ISO 8601, UTC; for people, never for decisions."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """The figures of one optimiser step: means over all groups that it looked at.

    Entropy, KL, shares and loss are of the tokens it trained on, under the weights before the step.
    """

    training_id: str
    step: int
    """From 0."""
    set_score: float
    """Expected best reward of a chain's answers over random weightings, in [0, 1]."""
    pool_score: float
    """The same over all answers of a group."""
    mean_reward: float
    """Mean component over all answers of a group, unreadable and repeated ones as zeros."""
    pass_rate: float
    """Share of answers with every component equal to 1."""
    diversity: float
    """Mean L1 distance between the reward vectors of two answers of a group."""
    distinct_programs: float
    """Different programs in a group."""
    entropy: float
    """Of the next token, in nats."""
    kl: float
    """KL divergence to the start model, in nats per token (k3 estimate, Schulman 2020)."""
    clip_share: float
    """Share of tokens whose importance ratio was clipped or truncated."""
    zero_spread_share: float
    """Share of groups without training signal, because all their chains have the same score."""
    staleness: float
    """Policy versions between a rollout's and the start version, mean over rollouts."""
    loss: float
    grad_norm: float
    """Before clipping."""
    groups: int
    """Groups trained on."""
    tokens: int
    """Completion tokens trained on."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """One search: its problem, configuration and status."""

    id: str
    problem_id: str
    problem_version: str
    seed: int
    evaluations: int
    """Budget: the number of proposed candidates, in the latest part of the run (`RunPart`)."""
    config_json: str
    status: RunStatus
    created_at: str
    """ISO 8601, UTC; for people, never for decisions."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run with its own settings; the first part begins with the run."""

    asks_before: int
    tells_before: int
    config_json: str


def content_id(*parts: str) -> str:
    """Return a 16-hex-digit identifier of the given texts (SHA-256, length-prefixed)."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]
