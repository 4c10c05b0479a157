"""A stored run whose every text attacks the page that shows it, for the tests of that page."""

from evovpo.config import Config
from evovpo.store import Store
from evovpo.types import (
    Candidate,
    Evaluation,
    Example,
    JudgedCandidate,
    Message,
    Objective,
    Parent,
    ParentRole,
    ParseStatus,
    PolicyEvent,
    PolicyEventKind,
    PolicyVersion,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Status,
    Tell,
)

ATTACKS = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "<svg onload='window.hacked = 3'><text>big</text></svg>",
    "</script></style></pre><iframe srcdoc='<script>top.hacked = 4</script>'></iframe>",
    "javascript:window.hacked=5",
    ":onclick",
    "__proto__",
    "constructor",
    "{{ hacked }} ${window.hacked = 6}",
    "\u202e\u2066right to left\u2069 \x1b[31m \x00 \ud800 \u2028",
    "https://example.com/leak.png",
)
"""Each would change a page that took it for markup, for a key, or for what steers the text around it."""
LONG = "x" * 10_000_000
RUN_ID = "attacked"
SLASHED = "../../etc/passwd?x=1#y"
"""Part of a problem's name: no file may be found by it."""

_NAMES = tuple(Objective(name, name) for name in ATTACKS)
_EVERYTHING = "\n".join(ATTACKS)
PROBLEM = Problem(
    id=f"{ATTACKS[0]}{SLASHED}",
    version="v1",
    statement=_EVERYTHING,
    entry="solve",
    parameters=("text",),
    objectives=_NAMES,
    seeds=(Program(f'"""{_EVERYTHING}"""'),),
    train=tuple(Example((attack,), attack) for attack in ATTACKS),
)


def write_attacks(store: Store) -> None:
    """Store the run, two programs of it, and a policy version whose every text is an attack too."""
    seed, child = PROBLEM.seeds[0], Program(f"# {_EVERYTHING}\n{LONG}")
    store.add_problem(PROBLEM)
    config = Config().to_json()
    store.add_run(
        Run(RUN_ID, PROBLEM.id, "v1", 1 << 70, 9, config, RunStatus.RUNNING, "2026-01-02T03:04:05Z")
    )
    start = Prompt("p0", RUN_ID, 0, 0, PromptKind.SEED, proposals=(seed,))
    parent = (Parent(seed.id, ParentRole.PARENT),)
    ask = Prompt("p1", RUN_ID, 1, 1, PromptKind.MUTATE, 0, parent, (Message("user", _EVERYTHING),))
    text = f"{_EVERYTHING}{LONG}"
    rollout = Rollout(
        *("r1", "p1", 0, 3, text, (1, 2), (-0.1, -9.0), (1,), Sampling(), ATTACKS[0], 0.5, ATTACKS[1])
    )
    store.add_prompt(start)
    store.add_tell(RUN_ID, Tell("p0", None, (_judged(start, None, seed, Status.OK),)), 0)
    store.add_prompt(ask)
    store.add_tell(RUN_ID, Tell("p1", rollout, (_judged(ask, rollout, child, Status.TIMEOUT),)), 1)
    version = PolicyVersion(0, None, ATTACKS[1], metrics=tuple((name, 0.5) for name in ATTACKS))
    store.add_policy_version(version)
    store.add_policy_event(PolicyEvent(0, PolicyEventKind.SERVED, _EVERYTHING))


def _judged(prompt: Prompt, rollout: Rollout | None, program: Program, status: Status) -> JudgedCandidate:
    evaluation = Evaluation(
        program_id=program.id,
        problem_version="v1",
        status=status,
        rewards=tuple(0.5 if status is Status.OK else 0.0 for _ in ATTACKS),
        feedback=f"{_EVERYTHING}{LONG}",
        seconds=0.1,
        isolation=ATTACKS[0],
        outputs=ATTACKS if status is Status.OK else None,
        metrics=tuple((name, name) for name in ATTACKS),
    )
    candidate = Candidate(
        id=f"c-{prompt.id}",
        prompt_id=prompt.id,
        rollout_id=rollout and rollout.id,
        slot=0,
        parse_status=ParseStatus.PARSED,
        program=program,
        token_span=(0, 1) if rollout else None,
        parents=prompt.parents,
        text=_EVERYTHING,
    )
    return JudgedCandidate(candidate, evaluation, executed=True)
