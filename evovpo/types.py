"""The records shared by all parts of evovpo: immutable values, without I/O and third-party imports.

The name of an array with several dimensions ends with its shape: `rewards_G_M_D` has shape (G, M, D). P is
the number of prompts, G of rollouts in a group, M of answers in a rollout, D of reward components, N of
training rows, and T of tokens.
"""

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A JSON value: the type of every argument and result of a candidate."""

Rewards: TypeAlias = tuple[float, ...]
"""A reward vector: D components in [0, 1], higher is better."""


class Status(StrEnum):
    """Outcome of an evaluation."""

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
        """True for a failure caused by the program. In training, the program then has rewards of zero."""
        return self not in (Status.OK, Status.SANDBOX_ERROR)


class Trust(StrEnum):
    """How far an evaluation can be trusted."""

    HIGH = "high"
    """The candidate's process never held the evaluator or the expected answers."""
    LOW = "low"
    """Candidate and evaluator shared a process, so the program may have forged its own result."""


class ParseStatus(StrEnum):
    """Result of parsing one answer of a completion."""

    PARSED = "parsed"
    """A program that is new in this run."""
    UNPARSED = "unparsed"
    """No program could be read from the answer, or the answer is missing."""
    DUPLICATE = "duplicate"
    """A program that was proposed before in this run. The answer gets the program's earlier evaluation."""
    REJECTED = "rejected"
    """Only in runs of earlier versions: not evaluated, because the program was too similar to others."""


class ParentRole(StrEnum):
    """The role of a program from which another program was made."""

    PARENT = "parent"
    INSPIRATION = "inspiration"
    PARTNER = "partner"
    JOIN_THEN = "join_then"
    JOIN_ELSE = "join_else"


class PromptKind(StrEnum):
    """The kind of a `Prompt`."""

    SEED = "seed"
    """Without a model: the starting programs of the problem, which do not count against the budget."""
    ROOT = "root"
    """Write programs from the problem statement alone."""
    MUTATE = "mutate"
    """Improve a parent program."""
    CROSSOVER = "crossover"
    """Combine two parent programs; the second has the role `PARTNER`."""
    REPAIR = "repair"
    """Fix a parent program that fails."""
    NOTES = "notes"
    """Only in runs of earlier versions: a model writes lessons for later prompts instead of answers."""
    JOIN = "join"
    """Without a model: joined programs, each made from two parent programs."""
    SHORTEN = "shorten"
    """Without a model: shorter variants of a solution, which do not count against the budget."""

    @property
    def is_free(self) -> bool:
        return self in (PromptKind.SEED, PromptKind.SHORTEN)


class PolicyEventKind(StrEnum):
    """The kind of an event of a policy version."""

    PUBLISHED = "published"
    """Written to disk, verified against the trainer's log-probabilities, and stored."""
    SERVED = "served"
    """From this event on, searches use the version."""
    ROLLED_BACK = "rolled_back"
    """As `SERVED`, but an older version replaced a newer one."""
    REFUSED = "refused"
    """Not served: clearly worse than its parent, refused by a server, or unlike the trained weights."""
    FAILED = "failed"
    """Training or publication failed before a version existed."""

    @property
    def is_serving(self) -> bool:
        return self in (PolicyEventKind.SERVED, PolicyEventKind.ROLLED_BACK)


MEMORISED = "memorised"
"""Text shown instead of `RunStatus.SOLVED` if the best program is wrong on a held-out row."""


class RunStatus(StrEnum):
    """Status of a run. A `RUNNING` run without a live process was interrupted."""

    RUNNING = "running"
    SOLVED = "solved"
    EXHAUSTED = "exhausted"
    STOPPED = "stopped"
    """Ended before all evaluations were used: target reached, no progress, or no tokens or money left."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
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
    """Address space in MiB, in addition to what the fork-server uses before the program starts."""
    result_bytes: int = 1 << 20
    log_bytes: int = 64 << 10
    open_files: int = 64
    stack_mb: int = 64
    threads: int = 0
    processes: int = 0
    """An evaluation may have `threads` + `processes` threads and processes besides its first thread. Both
    limits apply only to evaluators that import the candidate."""
    disk_mb: int = 64


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
    """Source text of a program; `id` is by default a hash of the text."""

    source: str
    id: str = field(default="")

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", content_id(self.source))


@dataclass(frozen=True, slots=True)
class Feature:
    """An axis of the MAP-Elites grid. `name` is `length`, `score`, `reward:OBJECTIVE` or `metric:NAME`.

    `length` is the length of the source. `edges` are the inner bin edges, ascending. Without `edges`, the
    axis has `bins` equal bins between its lowest and highest value so far.
    """

    name: str
    edges: tuple[float, ...] = ()
    bins: int = 8


class EvaluatorMode(StrEnum):
    """Whether a candidate that an evaluator imports runs in the evaluator's process or in another one."""

    WHOLE = "whole"
    """Evaluator and candidate share one sandboxed process. This always works, but has low trust."""
    PROXY = "proxy"
    """The candidate has its own sandboxed process; the evaluator calls the candidate through a stub."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Conversion of one number x returned by an evaluator to one reward component.

    With declared bounds, the reward rises linearly from 0 at `low` to 1 at `high`, and is clipped. Without
    bounds (`is_soft`), it is 1/2 + atan((x - low) / (high - low)) / pi, and `low` is the initial program's
    value. If `lower_is_better` is true, the result of either formula is subtracted from 1.
    """

    name: str
    low: float
    high: float
    lower_is_better: bool = False
    is_soft: bool = False


@dataclass(frozen=True, slots=True)
class EvaluatorFolder:
    """An evaluator in OpenEvolve's format: Python code that imports the candidate itself."""

    file: str
    mode: EvaluatorMode
    metrics: tuple[Metric, ...]
    thresholds: tuple[float, ...] = ()
    """Stage i + 1 runs if stage i reached `thresholds[i - 1]`. Without thresholds only `evaluate` runs."""
    artifacts: bool = True
    """True if artifacts returned by the evaluator become feedback."""
    left_out: tuple[str, ...] | None = None
    """Metrics excluded from a mean. As in OpenEvolve, the mean ranks programs without a `combined_score`.
    None if reward vectors rank programs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A task with D objectives, loaded from a folder and checked.

    Exactly one of `train` (by example), `scorer_path` and `evaluator` is set. Selection, stopping and
    prompts must never read `heldout`.
    """

    id: str
    version: str
    """Hash of everything in the folder that can change an evaluation."""
    statement: str
    entry: str
    """Name of the function that a program must define; empty if only the evaluator knows the name."""
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
    """Groups of objectives for training. The mean of a group is one component. Each objective is in one
    group. Without groups, every objective is a component. The search and the store never read the groups."""
    suffix: str = ".py"
    """File suffix of programs, with the dot; `/` if programs are folders (`evovpo/prompts/bundles.py`)."""
    evaluator: EvaluatorFolder | None = None
    validation: tuple[Example, ...] = ()
    """Rows split off from the training rows of a by-example problem. The search never sees these rows.
    Training by imitation uses only programs that are right on these rows."""

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
        whole = self.evaluator is not None and self.evaluator.mode is EvaluatorMode.WHOLE
        return Trust.LOW if whole else Trust.HIGH


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt, with role `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A program from which a prompt or a candidate was made, and the role of this program."""

    program_id: str
    role: ParentRole


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, also called a ticket: messages for a model, or programs (`proposals`) that need no model."""

    id: str
    run_id: str
    sequence: int
    """Position among the tickets of the run, from 0. Random numbers derive from (run seed, sequence)."""
    tells_before: int
    """Number of calls of `tell` before this ticket was made, needed for replay."""
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
    """Name of the way (`evovpo.search.ways.WAYS`) that chose the shown programs; empty for no way."""

    @property
    def slots(self) -> int:
        if self.kind.is_free:
            return 0
        return len(self.proposals) if self.kind is PromptKind.JOIN else self.rollouts * self.answers

    @property
    def parent_id(self) -> str | None:
        return next((p.program_id for p in self.parents if p.role is ParentRole.PARENT), None)

    @property
    def has_model(self) -> bool:
        """True if a model answers the prompt; false if the prompt already contains programs."""
        return self.kind is not PromptKind.JOIN and not self.kind.is_free


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings. Stored log-probabilities refer to the distribution that these settings define."""

    temperature: float = 1.0
    max_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a prompt by a policy version. `index` numbers the replies to the prompt from 0."""

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
    """Wall-clock seconds of the request, divided by the number of rollouts in the request."""
    model: str = ""
    """Name of the model on its server, if there are several models; empty if there is one."""


class CallOutcome(StrEnum):
    """The outcome of one request to a model server."""

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
    model: str
    outcome: CallOutcome
    reason: str
    """Reason for the failure, for example `http 429` or `timeout`; empty for `ok`."""
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer in a rollout, or one program of a prompt that needs no model."""

    id: str
    prompt_id: str
    rollout_id: str | None
    """None for a program that no model wrote."""
    slot: int
    """Position of the answer in the completion or ticket, from 0."""
    parse_status: ParseStatus
    program: Program | None = None
    """None if no program could be read from the answer."""
    token_span: tuple[int, int] | None = None
    """Half-open range of this answer's tokens in the rollout, or None if unknown."""
    parents: tuple[Parent, ...] = ()
    text: str = ""
    reason: str = ""
    """Why no program could be read; later prompts show this reason to the model."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of evaluating a program on one version of a problem."""

    program_id: str
    problem_version: str
    status: Status
    rewards: Rewards | None
    """D components: zeros for a fault of the candidate, None for a `sandbox_error`."""
    feedback: str
    """Reason for a failure, or remarks of scorer or evaluator; untrusted text of limited length."""
    seconds: float
    isolation: str
    """Sandbox level of the evaluation, for example `landlock+seccomp`, then any opened permissions."""
    outputs: tuple[Json, ...] | None = None
    """Output of the program for each case, if the problem keeps outputs for prompts."""
    metrics: tuple[tuple[str, Json], ...] | None = None
    """Raw metrics in the evaluator's order, with non-finite numbers as text; None without metrics."""
    trust: Trust = Trust.HIGH

    @property
    def mean_reward(self) -> float:
        """Mean of the reward components; 0 without rewards."""
        rewards = self.rewards or (0.0,)
        return sum(rewards) / len(rewards)

    @property
    def passed(self) -> int:
        """Number of components with reward 1. In by-example problems these are the training rows passed."""
        return sum(value >= 1.0 for value in self.rewards or ())

    def __post_init__(self) -> None:
        for index, value in enumerate(self.rewards or ()):
            if not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise ValueError(f"reward component {index} is {value!r}; rewards lie in [0, 1]")


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate with its evaluation (None if the candidate has no program)."""

    candidate: Candidate
    evaluation: Evaluation | None
    executed: bool
    """True if the program was run for this reply; false if an earlier evaluation was reused."""


@dataclass(frozen=True, slots=True)
class Tell:
    """One evaluated reply to a prompt, which is applied and stored as a whole."""

    prompt_id: str
    rollout: Rollout | None
    """None for a ticket without a model."""
    judged: tuple[JudgedCandidate, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The evaluated rollouts (completions) of one prompt: the input of a trainer."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    rewards_G_M_D: tuple[tuple[Rewards, ...], ...]
    """M may differ between rollouts. Missing and unparsed answers, and repeats in a rollout, have zeros."""
    valid_G: tuple[bool, ...]
    """False for a rollout excluded from the group because of a persistent sandbox fault."""
    programs_G_M: tuple[tuple[str | None, ...], ...] = ()
    """Ids of the programs, also of repeated programs; None for an unreadable answer. Empty if not loaded."""


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A version of the policy (the trained model): a complete model folder. Version 0 is the start model."""

    number: int
    parent: int | None
    path: str
    trained_through: str | None = None
    """Id of the last prompt in the training data of this version, or None."""
    config_hash: str = ""
    """Id of the training that made this version, hashed from settings and data; empty for a start model."""
    metrics: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    """An event of a policy version. Searches use the version of the latest event with `kind.is_serving`."""

    number: int | None
    """Version number; None for a failure before a version existed. Some refused versions are not stored."""
    kind: PolicyEventKind
    detail: str = ""
    at: str = ""
    """ISO 8601, UTC, written by the store; for display only, never for decisions."""
    training_id: str | None = None
    """Id of the training that this event is about. The store replaces None by the version's training."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training on stored runs: its data, start version and configuration."""

    id: str
    objective: str
    config_json: str
    """The trainer's resolved configuration."""
    start_version: int
    runs: tuple[str, ...]
    """Ids of the runs that provided the groups, in order."""
    after: tuple[str | None, ...]
    """For each run, the prompt id of the last group that earlier trainings used; None to use all groups."""
    through: tuple[str | None, ...]
    """For each run, the prompt id of the last group that was complete when training started, or None."""
    seed: int
    created_at: str
    """ISO 8601, UTC; for people, never for decisions."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Statistics of one optimiser step. Most are means over the groups of the step.

    `entropy`, `kl`, `clip_share` and `loss` are means over the trained tokens, before the weights change.
    """

    training_id: str
    step: int
    set_score: float
    """Weighted reward of a completion's best answer, as a mean over random weightings, in [0, 1]."""
    pool_score: float
    """As `set_score`, but for the best of all answers in a group."""
    mean_reward: float
    """Mean over the components and answers of a group; unreadable and repeated answers count as zeros."""
    pass_rate: float
    """Share of answers with every component equal to 1."""
    diversity: float
    """Mean L1 distance between the reward vectors of two answers of a group."""
    distinct_programs: float
    entropy: float
    """Entropy of the next token, in nats."""
    kl: float
    """KL divergence to the start model, in nats per token (k3 estimate, Schulman 2020)."""
    clip_share: float
    """Share of tokens whose importance ratio was clipped or truncated."""
    zero_spread_share: float
    """Share of groups that give no training signal, because all completions have the same score."""
    staleness: float
    """Mean number of trainings between the version that sampled a rollout and the start version."""
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
    """Maximum number of proposed candidates, according to the latest settings of the run (`RunPart`)."""
    config_json: str
    status: RunStatus
    created_at: str
    """ISO 8601, UTC; for people, never for decisions."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run with one configuration. Resuming the run with other settings begins a new part."""

    asks_before: int
    tells_before: int
    config_json: str


def content_id(*parts: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of the given texts, each preceded by its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]
