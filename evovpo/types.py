"""The records shared by every part of evovpo: frozen values, no I/O, no third-party imports.

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
"""A JSON value: the type of every argument and result of a candidate."""

Rewards: TypeAlias = tuple[float, ...]
"""A reward vector of length D, each component in [0, 1], higher is better."""


class Status(StrEnum):
    """Outcome of an evaluation, including whose fault a failure is."""

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
        """True for a failure caused by the program; in training it counts as the zero vector."""
        return self not in (Status.OK, Status.SANDBOX_ERROR)


class Trust(StrEnum):
    """How far an evaluation can be trusted."""

    HIGH = "high"
    """The candidate's process never held the evaluator or the expected answers."""
    LOW = "low"
    """Candidate and evaluator shared a process, so the program may have forged its own result."""


class ParseStatus(StrEnum):
    """Result of parsing one answer slot."""

    PARSED = "parsed"
    """A program that is new in this run."""
    UNPARSED = "unparsed"
    """No program could be read from the slot, or the slot is missing."""
    DUPLICATE = "duplicate"
    """A program already proposed in this run; it gets the same reward vector."""
    REJECTED = "rejected"
    """Only in runs of earlier versions: a program rejected unevaluated as too similar to others."""


class ParentRole(StrEnum):
    """The role of a program in producing another one."""

    PARENT = "parent"
    INSPIRATION = "inspiration"
    PARTNER = "partner"
    """The second parent of a crossover."""
    JOIN_THEN = "join_then"
    JOIN_ELSE = "join_else"


class PromptKind(StrEnum):
    """Kind of request in a ticket."""

    SEED = "seed"
    """No model: the starting programs of the problem; they do not count against the budget."""
    ROOT = "root"
    """Write programs from the problem statement alone."""
    MUTATE = "mutate"
    """Improve on a parent program."""
    CROSSOVER = "crossover"
    """Combine two parent programs; the second is an inspiration of role `PARTNER`."""
    REPAIR = "repair"
    """Fix a parent program that fails."""
    NOTES = "notes"
    """Only in earlier versions: one completion, without answers, with a model's lessons for later prompts."""
    JOIN = "join"
    """No model: the ticket contains the joined programs to evaluate."""
    SHORTEN = "shorten"
    """No model: shorter variants of a solution; they do not count against the budget."""

    @property
    def is_free(self) -> bool:
        """True if the programs of the ticket do not count against the budget."""
        return self in (PromptKind.SEED, PromptKind.SHORTEN)


class PolicyEventKind(StrEnum):
    """Kind of event in the life of a policy version."""

    PUBLISHED = "published"
    """Written to disk, verified against the trainer's log-probabilities, and stored."""
    SERVED = "served"
    """The version became the one that searches use."""
    ROLLED_BACK = "rolled_back"
    """As `SERVED`, but an older version replaced a newer one."""
    REFUSED = "refused"
    """Not served: it differed from the trained weights, a server rejected it, or it was clearly worse."""
    FAILED = "failed"
    """Training or publication ended before a version existed."""

    @property
    def is_serving(self) -> bool:
        """True if searches use the version of this event from then on."""
        return self in (PolicyEventKind.SERVED, PolicyEventKind.ROLLED_BACK)

    @property
    def ends_training(self) -> bool:
        """True if the training of this event is finished."""
        return self is not PolicyEventKind.PUBLISHED


MEMORISED = "memorised"
"""Shown instead of `RunStatus.SOLVED` if the best program is wrong on a held-out row."""


class RunStatus(StrEnum):
    """Status of a run. A `RUNNING` run without a live process was interrupted."""

    RUNNING = "running"
    SOLVED = "solved"
    EXHAUSTED = "exhausted"
    STOPPED = "stopped"
    """Ended with evaluations left: target reached, no progress, or token or money budget used up."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        """True if there is nothing to resume."""
        return self in (RunStatus.SOLVED, RunStatus.EXHAUSTED, RunStatus.STOPPED)

    def ending(self, solved_heldout: bool | None) -> str:
        """Return the status for display: `memorised` if the run is solved, but not on held-out rows."""
        return MEMORISED if self is RunStatus.SOLVED and solved_heldout is False else str(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one evaluation, all enforced by the sandbox."""

    wall_seconds: float = 10.0
    cpu_seconds: int = 10
    memory_mb: int = 512
    """Address space in MiB, in addition to the warm server's."""
    result_bytes: int = 1 << 20
    log_bytes: int = 64 << 10
    """Maximum stored bytes of standard output and standard error together."""
    open_files: int = 64
    stack_mb: int = 64
    threads: int = 0
    processes: int = 0
    """Additional processes; `threads` add to this limit. Only for evaluators that import the candidate."""
    disk_mb: int = 64
    """Maximum MiB in the private folder of an evaluator that imports the candidate; others write no files."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One component of the reward vector."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One row of a programming-by-example problem: arguments and expected result."""

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

    `edges` are the ascending inner bin edges; if empty, they are learned once from the first programs.
    """

    name: str
    edges: tuple[float, ...] = ()
    bins: int = 8


class EvaluatorMode(StrEnum):
    """Where a candidate runs if its evaluator imports it."""

    WHOLE = "whole"
    """Evaluator and candidate in one sandboxed process: always works, low trust."""
    PROXY = "proxy"
    """The candidate in a sandboxed process of its own; the evaluator calls its functions through a stub."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Conversion of one number returned by an evaluator to one reward component.

    Linear from `low` (reward 0) to `high` (reward 1), clipped. A soft metric (without declared bounds) is
    1/2 + atan((x - low) / (high - low)) / pi. With `lower_is_better` the reward is 1 minus that value.
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
    """One metric for each objective, in order."""
    thresholds: tuple[float, ...] = ()
    """Cascade: stage i + 1 runs if stage i reached `thresholds[i - 1]`; empty to call `evaluate` only."""
    artifacts: bool = True
    """True if artifacts returned by the evaluator become feedback."""
    left_out: tuple[str, ...] | None = None
    """Metrics excluded from the mean that replaces a missing `combined_score`, if this score alone ranks
    programs, as in OpenEvolve. None if reward vectors rank programs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A task with D objectives, as loaded and checked from its folder.

    Exactly one of `train` (by example), `scorer_path` and `evaluator` is set. Selection, stopping and
    prompts must never read `heldout`.
    """

    id: str
    version: str
    """Hash of everything in the folder that can change an evaluation."""
    statement: str
    entry: str
    """Name of the function that a program must define; empty if only the evaluator knows it."""
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
    """Each objective is in exactly one group; in training, the mean of a group is one component.
    Empty if every objective is its own component. Search and store never read it."""
    suffix: str = ".py"
    """File suffix of programs, with the dot; `/` if programs are folders (`evovpo/prompts/bundles.py`)."""
    evaluator: EvaluatorFolder | None = None
    validation: tuple[Example, ...] = ()
    """Rows split off from the training rows of a by-example problem: the search never sees them, and only
    programs that are right on them are used for imitation."""

    @property
    def is_by_example(self) -> bool:
        """True for a programming-by-example problem, where objective i is training row i."""
        return self.scorer_path is None and self.evaluator is None

    @property
    def has_one_score(self) -> bool:
        """True if a single number ranks programs, and all other metrics are only displayed."""
        return self.evaluator is not None and self.evaluator.left_out is not None

    @property
    def trust(self) -> Trust:
        """How far evaluations of this problem can be trusted."""
        whole = self.evaluator is not None and self.evaluator.mode is EvaluatorMode.WHOLE
        return Trust.LOW if whole else Trust.HIGH


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt, with role `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A program, with its role, from which a prompt or a candidate was made."""

    program_id: str
    role: ParentRole


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ticket returned by `ask`; a ticket without a model has the single reply `proposals`."""

    id: str
    run_id: str
    sequence: int
    """Position in the order of asks, from 0; randomness derives from (run seed, sequence)."""
    tells_before: int
    """Number of tells applied before this ask, needed for replay."""
    kind: PromptKind
    island: int = 0
    parents: tuple[Parent, ...] = ()
    messages: tuple[Message, ...] = ()
    rollouts: int = 1
    """G: number of completions to sample."""
    answers: int = 1
    """M: number of answers requested in each completion."""
    seed: int = 0
    """Sampling seed, which makes rollout i of the same prompt and policy reproducible."""
    proposals: tuple[Program, ...] = ()
    way: str = ""
    """Name of the way to ask (`evovpo.search.ways`) that chose the shown programs; empty if none did."""

    @property
    def slots(self) -> int:
        """Number of candidates that count against the budget."""
        if self.kind.is_free:
            return 0
        return len(self.proposals) if self.kind is PromptKind.JOIN else self.rollouts * self.answers

    @property
    def parent_id(self) -> str | None:
        """Id of the program to improve, or None."""
        return next((p.program_id for p in self.parents if p.role is ParentRole.PARENT), None)

    @property
    def has_model(self) -> bool:
        """True if a model answers the ticket; false if the ticket contains its own programs."""
        return self.kind is not PromptKind.JOIN and not self.kind.is_free


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings; they define the distribution to which stored log-probabilities refer."""

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
    """Completion token ids (T), or None if the backend does not return them."""
    logprobs: tuple[float, ...] | None
    """Natural-log probabilities (T) under `sampling`, or None."""
    prompt_token_ids: tuple[int, ...] | None
    sampling: Sampling
    finish_reason: str
    """`stop` (end token), `length` (limit reached) or another reason given by the server."""
    seconds: float
    """Wall-clock seconds of the request, divided by its number of rollouts."""
    model: str = ""
    """Name of the model on its server, if there are several models; empty if there is one."""


class CallOutcome(StrEnum):
    """How one request to a model server ended."""

    OK = "ok"
    RETRIED = "retried"
    """Failed and sent again."""
    FAILED = "failed"
    """Failed on the last attempt."""


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
    """Reason for the failure, for example `http 429` or `timeout`; empty for `ok`."""
    prompt_tokens: int | None
    """Token count reported by the server, or None."""
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
    """None if no program could be read from the slot."""
    token_span: tuple[int, int] | None = None
    """Half-open range of this answer's tokens in the rollout, or None if unknown."""
    parents: tuple[Parent, ...] = ()
    text: str = ""
    """The slot's text as written."""
    reason: str = ""
    """Reason for a missing program, shown to the model in later prompts."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of a program on a problem version."""

    program_id: str
    problem_version: str
    status: Status
    rewards: Rewards | None
    """D components: zeros for a fault of the candidate, None for a `sandbox_error`."""
    feedback: str
    """Reason for a failure, of limited length; untrusted text."""
    seconds: float
    isolation: str
    """Sandbox level of the evaluation, for example `landlock+seccomp`."""
    outputs: tuple[Json, ...] | None = None
    """Output of the program for each case, if the problem keeps outputs for prompts."""
    metrics: tuple[tuple[str, Json], ...] | None = None
    """Raw metrics in the evaluator's order, or None if it returns none; non-finite numbers as text."""
    trust: Trust = Trust.HIGH

    @property
    def mean_reward(self) -> float:
        """Mean of the reward components; 0 without rewards."""
        rewards = self.rewards or (0.0,)
        return sum(rewards) / len(rewards)

    @property
    def passed(self) -> int:
        """Number of components with reward 1; in by-example problems, of training rows passed."""
        return sum(value >= 1.0 for value in self.rewards or ())

    def __post_init__(self) -> None:
        for index, value in enumerate(self.rewards or ()):
            if not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise ValueError(f"reward component {index} is {value!r}; rewards lie in [0, 1]")


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate with its evaluation (None if the slot has no program)."""

    candidate: Candidate
    evaluation: Evaluation | None
    executed: bool
    """True if the sandbox ran the program for this tell; false for duplicates and stored evaluations."""


@dataclass(frozen=True, slots=True)
class Tell:
    """One evaluated reply to a ticket, applied as a unit and stored in one transaction."""

    prompt_id: str
    rollout: Rollout | None
    """None for a join ticket."""
    judged: tuple[JudgedCandidate, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The evaluated rollouts of one prompt: the input of a trainer."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    rewards_G_M_D: tuple[tuple[Rewards, ...], ...]
    """Ragged in M; a missing, unparsed or repeated answer is a zero row."""
    valid_G: tuple[bool, ...]
    """False for a rollout excluded from the group because of a persistent sandbox fault."""
    programs_G_M: tuple[tuple[str | None, ...], ...] = ()
    """Program ids, including repeated ones; None where no program could be read. Empty if not loaded."""


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A proposer with a complete model folder, ready to be served; number 0 is the start model."""

    number: int
    parent: int | None
    path: str
    trained_through: str | None = None
    """Id of the last prompt in its training data, or None."""
    config_hash: str = ""
    """Id of its training, a hash of configuration and data; empty for a start model."""
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """An event in the life of a policy version; the latest serving event tells which version is served."""

    number: int | None
    """Version number; None for a failure before a version existed. Some refused versions are not stored."""
    kind: PolicyEventKind
    detail: str = ""
    """Reason, for display."""
    at: str = ""
    """ISO 8601, UTC, written by the store; for display only, never for decisions."""
    training_id: str | None = None
    """Id of the training that this event ended, or else of the version's own, which the store can look up."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training from logs: its data, start version and configuration."""

    id: str
    objective: str
    config_json: str
    """The trainer's resolved configuration."""
    start_version: int
    """Number of the policy version that training started from."""
    runs: tuple[str, ...]
    """Ids of the runs that provided the groups, in order."""
    after: tuple[str | None, ...]
    """For each run, the prompt of the last group used by earlier trainings, or None to use all groups."""
    through: tuple[str | None, ...]
    """For each run, the prompt of the last complete group at the start, or None if there was no group."""
    seed: int
    created_at: str
    """ISO 8601, UTC; for people, never for decisions."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Statistics of one optimiser step: means over all groups it received.

    Entropy, KL, shares and loss are over the trained tokens, under the weights before the step.
    """

    training_id: str
    step: int
    """From 0."""
    set_score: float
    """Expected best reward of a chain's answers over random weightings, in [0, 1]."""
    pool_score: float
    """Expected best reward of all answers of a group, as in `set_score`."""
    mean_reward: float
    """Mean reward component over all answers of a group; unreadable and repeated answers are zeros."""
    pass_rate: float
    """Share of answers with every component equal to 1."""
    diversity: float
    """Mean L1 distance between the reward vectors of two answers of a group."""
    distinct_programs: float
    """Number of different programs in a group."""
    entropy: float
    """Entropy of the next token, in nats."""
    kl: float
    """KL divergence to the start model, in nats per token (k3 estimate, Schulman 2020)."""
    clip_share: float
    """Share of tokens whose importance ratio was clipped or truncated."""
    zero_spread_share: float
    """Share of groups without training signal because all chains have the same score."""
    staleness: float
    """Mean number of policy versions between a rollout's version and the start version."""
    loss: float
    grad_norm: float
    """Gradient norm before clipping."""
    groups: int
    """Number of groups trained on."""
    tokens: int
    """Number of completion tokens trained on."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """One search: its problem, configuration and status."""

    id: str
    problem_id: str
    problem_version: str
    seed: int
    evaluations: int
    """Budget: maximum number of proposed candidates, as set in the latest part of the run (`RunPart`)."""
    config_json: str
    status: RunStatus
    created_at: str
    """ISO 8601, UTC; for people, never for decisions."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run with its own settings; the first part starts with the run."""

    asks_before: int
    tells_before: int
    config_json: str


def content_id(*parts: str) -> str:
    """Return a 16-hex-digit id of the given texts (SHA-256, length-prefixed)."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]
