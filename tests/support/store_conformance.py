"""What every store must do, whatever database is under it.

The tests run over `store_url`: SQLite in memory and in a file, PostgreSQL on a server of the tests' own.
Add a database by naming its SQLAlchemy URL in the environment variable `EVOVPO_TEST_STORES` (several,
separated by blanks); it is emptied before each test.
`tests/contract/test_store.py` imports everything here.
"""

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from postgres import running_server
from sqlalchemy import MetaData, create_engine, event, inspect, text

from evovpo.errors import StoreError
from evovpo.store import Store
from evovpo.types import (
    Call,
    CallOutcome,
    Candidate,
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    Example,
    Feature,
    Group,
    Json,
    JudgedCandidate,
    Limits,
    Message,
    Metric,
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
    Rewards,
    Rollout,
    Run,
    RunPart,
    RunStatus,
    Sampling,
    Status,
    Tell,
    Training,
    TrainingStep,
    Trust,
    content_id,
)

STORE_URLS = ["memory", "file", "postgresql", *os.environ.get("EVOVPO_TEST_STORES", "").split()]
NASTY = "caf\u00e9 \U0001f600 \x00 \ud800 \ue000 \ue0000041 'quoted' ; -- \r\n\t"
"""NUL, a lone surrogate, the store's own escape character, and something that looks escaped."""

PROBLEM = Problem(
    id="phones",
    version="v1",
    statement="Write phone numbers alike. " + NASTY,
    entry="solve",
    parameters=("text", "country"),
    objectives=(Objective("row-0", "the first row"), Objective("row-1"), Objective("row-2")),
    seeds=(Program("def solve(text, country):\n    return text\n"),),
    limits=Limits(wall_seconds=1.5, memory_mb=64),
    train=(Example(("a", None), "A"), Example(([1, 2.5, True], {"k": [NASTY]}), None)),
    heldout=(Example(("b", 1 << 70), ""),),
    features=(Feature("length", (10.0, 20.0), 3), Feature("reward:row-0")),
    folder="/somewhere/phones",
)
SEED = PROBLEM.seeds[0]
RUN = Run("run-a", "phones", "v1", 7, 100, '{"islands": 4}', RunStatus.RUNNING, "2026-01-02T03:04:05Z")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of an empty database on a server of the tests' own."""
    with running_server() as server:
        yield server.address()


@pytest.fixture
def empty_postgres(postgres_url: str) -> str:
    """The same, emptied again."""
    engine = create_engine(postgres_url)
    names = [name for name in inspect(engine).get_table_names() if name != "alembic_version"]
    if names:
        with engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {', '.join(names)} RESTART IDENTITY"))
    engine.dispose()
    return postgres_url


@pytest.fixture(params=STORE_URLS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "memory":
        return "sqlite://"
    if request.param == "file":
        return f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        return str(request.getfixturevalue("empty_postgres"))
    server = create_engine(request.param)
    found = MetaData()
    found.reflect(server)
    found.drop_all(server)
    server.dispose()
    return str(request.param)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open store that holds the problem and one run."""
    with Store.open(store_url) as opened:
        opened.add_problem(PROBLEM)
        opened.add_run(RUN)
        yield opened


def make_prompt(sequence: int, *, run: str = "run-a", rollouts: int = 2, answers: int = 3) -> Prompt:
    """Return a plain ask of a run; its seed is wider than 64 bits."""
    return Prompt(
        id=f"{run}-p{sequence}",
        run_id=run,
        sequence=sequence,
        tells_before=0,
        kind=PromptKind.MUTATE,
        island=sequence % 2,
        parents=(Parent(SEED.id, ParentRole.PARENT),),
        messages=(Message("system", "Write programs."), Message("user", NASTY)),
        rollouts=rollouts,
        answers=answers,
        seed=(1 << 64) + sequence,
    )


def make_rollout(prompt: Prompt, index: int, *, policy: int = 0) -> Rollout:
    """Return reply `index` to a prompt, with log-probabilities that 32-bit floats hold exactly."""
    return Rollout(
        id=f"{prompt.id}-r{index}",
        prompt_id=prompt.id,
        index=index,
        policy_version=policy,
        text=NASTY,
        token_ids=(0, 151_935, 7),
        logprobs=(-0.5, -1.25, 0.0),
        prompt_token_ids=(1, 2),
        sampling=Sampling(0.7, 64),
        finish_reason="stop",
        seconds=0.125,
        model="large" if index else "",
    )


def judge(
    source: str, rewards: Sequence[float] | None = (1.0, 0.5, 0.0), status: Status = Status.OK
) -> Evaluation:
    return Evaluation(
        program_id=content_id(source),
        problem_version="v1",
        status=status,
        rewards=None if rewards is None else tuple(rewards),
        feedback=NASTY if status is not Status.OK else "",
        seconds=0.25,
        isolation="landlock+seccomp",
        outputs=("A", None, [1, {"deep": 0.1}]) if status is Status.OK else None,
    )


def slot(
    rollout: Rollout,
    position: int,
    source: str | None,
    evaluation: Evaluation | None = None,
    *,
    parse_status: ParseStatus = ParseStatus.PARSED,
    parents: Sequence[Parent] = (),
) -> JudgedCandidate:
    """Return answer number `position` of a rollout with its evaluation."""
    candidate = Candidate(
        id=f"{rollout.id}-c{position}",
        prompt_id=rollout.prompt_id,
        rollout_id=rollout.id,
        slot=position,
        parse_status=parse_status if source is not None else ParseStatus.UNPARSED,
        program=None if source is None else Program(source),
        token_span=(position, position + 1) if source is not None else None,
        parents=tuple(parents),
        text=source if source is not None else NASTY,
        reason="" if source is not None else "no program: " + NASTY,
    )
    return JudgedCandidate(
        candidate, evaluation, executed=parse_status is ParseStatus.PARSED and source is not None
    )


def make_tell(prompt: Prompt, index: int, answers: Sequence[tuple[str, Evaluation | None]]) -> Tell:
    """Return a judged reply whose answers are (source, evaluation) pairs of new programs."""
    rollout = make_rollout(prompt, index)
    return Tell(prompt.id, rollout, tuple(slot(rollout, i, *answer) for i, answer in enumerate(answers)))


def scripted_history(run: str, seed: int, tells: int) -> list[Prompt | Tell]:
    """Return asks and tells in a legal order, with every kind of slot, reply and ticket in them.

    Replies arrive out of order; the same arguments give the same history.
    """
    rng = random.Random(seed)
    history: list[Prompt | Tell] = []
    waiting: list[tuple[Prompt, int]] = []
    seen: dict[str, Evaluation] = {}
    told = asked = 0
    while told < tells:
        if len(waiting) < 4:
            prompt = replace(make_prompt(asked, run=run), tells_before=told)
            if asked % 5 == 4 and len(seen) > 1:
                join = Program(f"return {asked} if x else {rng.randrange(99)}")
                prompt = replace(
                    prompt, kind=PromptKind.JOIN, messages=(), rollouts=1, answers=1, proposals=(join,)
                )
            asked += 1
            waiting += [(prompt, index) for index in range(prompt.rollouts)]
            history.append(prompt)
            continue
        prompt, index = waiting.pop(rng.randrange(len(waiting)))
        history.append(_scripted_tell(prompt, index, seen, rng))
        told += 1
    return history


def _scripted_tell(prompt: Prompt, index: int, seen: dict[str, Evaluation], rng: random.Random) -> Tell:
    rollout = make_rollout(prompt, index, policy=prompt.sequence // 3)
    if rng.random() < 0.2:
        rollout = replace(rollout, token_ids=None, logprobs=None, prompt_token_ids=None)
    judged = []
    for position in range(prompt.answers):
        parents = [Parent(SEED.id, ParentRole.PARENT)]
        if seen:
            parents.append(Parent(rng.choice(list(seen)), ParentRole.INSPIRATION))
        source = f"return {rng.randrange(10_000)}"
        kind = rng.random()
        if prompt.proposals:
            source, parents = prompt.proposals[0].source, [Parent(SEED.id, ParentRole.JOIN_THEN)] * 2
        key = content_id(source)
        if key in seen:
            answer = slot(
                rollout, position, source, seen[key], parse_status=ParseStatus.DUPLICATE, parents=parents
            )
        elif kind < 0.1 and not prompt.proposals:
            answer = slot(rollout, position, None)
        elif kind < 0.2:
            answer = slot(rollout, position, source, parse_status=ParseStatus.REJECTED, parents=parents)
        elif kind < 0.3:
            answer = slot(
                rollout, position, source, judge(source, None, Status.SANDBOX_ERROR), parents=parents
            )
        else:
            fails = kind < 0.5
            rewards = (0.0, 0.0, 0.0) if fails else (rng.random(), rng.choice([0.0, 1.0]), 1.0 / 3.0)
            seen[key] = judge(source, rewards, Status.TIMEOUT if fails else Status.OK)
            answer = slot(rollout, position, source, seen[key], parents=parents)
        judged.append(answer)
    if prompt.kind is PromptKind.JOIN:
        judged = [replace(j, candidate=replace(j.candidate, rollout_id=None)) for j in judged]
        return Tell(prompt.id, None, tuple(judged))
    return Tell(prompt.id, rollout, tuple(judged))


START = PolicyVersion(0, None, "built-in")
TRAINING = Training(
    id="training-a",
    objective="vpo",
    config_json='{"objective": {"name": "vpo"}}',
    start_version=0,
    runs=("run-a",),
    after=(None,),
    through=("run-a-p1",),
    seed=(1 << 64) + 1,
    created_at="2026-01-02T03:04:05Z",
)


def make_step(step: int, training: str = "training-a", **figures: float) -> TrainingStep:
    """Return a training step whose figures are all different."""
    names = [name for name in TrainingStep.__dataclass_fields__ if name not in ("training_id", "step")]
    values: dict[str, float] = {name: (place + step) / 16 for place, name in enumerate(names, start=1)}
    counts = {"groups": 8 + step, "tokens": 4096}
    return TrainingStep(training_id=training, step=step, **{**values, **counts, **figures})  # type: ignore[arg-type]


def append(store: Store, run: str, history: Sequence[Prompt | Tell], tells_before: int = 0) -> None:
    """Store a history as a driver does."""
    order = tells_before
    for item in history:
        if isinstance(item, Prompt):
            store.add_prompt(item)
        else:
            assert store.add_tell(run, item, order)
            order += 1


def write_run(store: Store) -> None:
    """Store the problem, and the run with 60 tells."""
    store.add_problem(PROBLEM)
    store.add_run(RUN)
    append(store, "run-a", scripted_history("run-a", 3, 60))


def told(
    store: Store, *replies: Sequence[tuple[str, Evaluation | None]], rollouts: int = 2, answers: int = 3
) -> list[Prompt | Tell]:
    """Store an ask of the run with replies, each of (source, evaluation) pairs; return what was stored."""
    prompt = make_prompt(0, rollouts=rollouts, answers=answers)
    tells = [make_tell(prompt, index, reply) for index, reply in enumerate(replies)]
    append(store, "run-a", [prompt, *tells])
    return [prompt, *tells]


def row_count(store: Store, table: str) -> int:
    (row,) = store.query(f"SELECT count(*) AS n FROM {table}")
    return int(row["n"])


# Problems and runs


def test_problems_come_back_equal_by_version(store: Store) -> None:
    folder = EvaluatorFolder(
        "evaluator.py",
        EvaluatorMode.PROXY,
        (Metric("speed", 0.5, 2.0, lower_is_better=True), Metric("sum", -1.0, 1.0, is_soft=True)),
        thresholds=(0.5, 0.75),
        artifacts=False,
    )
    scored = replace(PROBLEM, version="v2", statement="Other.", train=(), scorer_path="score.py")
    evaluated = replace(PROBLEM, version="v3", train=(), heldout=(), suffix=".rs", evaluator=folder)
    assert store.add_problem(scored)
    assert store.add_problem(evaluated)
    assert store.add_problem(replace(PROBLEM, folder="/elsewhere")) is False
    assert [store.problem("phones", version) for version in ("v1", "v2", "v3")] == [
        PROBLEM,
        scored,
        evaluated,
    ]
    with pytest.raises(StoreError, match="no problem phones of version v9"):
        store.problem("phones", "v9")


def test_the_latest_status_of_a_run_holds_and_earlier_ones_are_kept(store: Store) -> None:
    store.set_run_status("run-a", RunStatus.INTERRUPTED)
    store.set_run_status("run-a", RunStatus.SOLVED)
    assert store.run("run-a").status is RunStatus.SOLVED
    statuses = [row["status"] for row in store.query("SELECT status FROM run_events ORDER BY number")]
    assert statuses == ["running", "interrupted", "solved"]


def test_a_further_part_of_a_run_has_its_settings_from_then_on(store: Store) -> None:
    begun = RunPart(0, 0, RUN.config_json)
    assert store.parts(RUN.id) == [begun]
    later = [RunPart(3 + n, 9, f'{{"search": {{"evaluations": {100 + n}}}}}') for n in range(2)]
    for part in later:
        store.set_run_status(RUN.id, RunStatus.RUNNING, part=part)
    store.set_run_status(RUN.id, RunStatus.EXHAUSTED)
    assert store.parts(RUN.id) == [begun, *later]
    ended = replace(RUN, evaluations=101, config_json=later[1].config_json, status=RunStatus.EXHAUSTED)
    assert store.run(RUN.id) == ended
    assert ended in store.runs_in_full()
    assert [row.run for row in store.runs()].count(RUN.id) == 1
    with pytest.raises(StoreError, match="not stored"):
        store.parts("none")


def test_a_run_is_found_by_its_id_or_a_prefix_that_only_it_has(store: Store) -> None:
    for run_id in ("other", "run-a2"):
        store.add_run(replace(RUN, id=run_id))
    assert store.run("oth").id == "other"
    assert store.run("run-a").id == "run-a"
    with pytest.raises(StoreError, match="run-a, run-a2"):
        store.run("run")


@pytest.mark.parametrize("wanted", ["RUN-A", "run_a", "%", "nothing"])
def test_an_unknown_run_is_a_store_error(store: Store, wanted: str) -> None:
    with pytest.raises(StoreError, match="holds no run"):
        store.run(wanted)


def test_a_run_with_a_taken_id_or_an_unknown_problem_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="run-a is stored already"):
        store.add_run(RUN)
    with pytest.raises(StoreError, match="add problem phones v9 first"):
        store.add_run(replace(RUN, id="run-b", problem_version="v9"))


def test_the_newest_run_is_the_one_begun_last_of_the_problem_named(store: Store) -> None:
    other = replace(PROBLEM, id="phones_and%more", version="other")
    store.add_problem(other)
    store.add_run(replace(RUN, id="run-b", problem_id=other.id, problem_version=other.version))
    store.add_run(replace(RUN, id="run-0"))
    store.set_run_status("run-b", RunStatus.STOPPED)
    assert store.newest_run() == "run-0"
    assert store.newest_run("phones") == "run-0"
    assert store.newest_run("phones_") == store.newest_run(other.id) == "run-b"
    assert store.newest_run("phones%") is store.newest_run("mazes") is None
    for number, problem in enumerate(
        ("phone-12345678", "phone-2-12345678")
    ):  # tables, whose problems have a hash in the name
        store.add_problem(replace(PROBLEM, id=problem, version=problem))
        store.add_run(replace(RUN, id=f"run-t{number}", problem_id=problem, problem_version=problem))
    assert (store.newest_run("phone"), store.newest_run("phones")) == ("run-t0", "run-0")


def test_runs_are_listed_newest_first_with_what_they_reached(store: Store) -> None:
    store.add_run(replace(RUN, id="run-b", created_at="1999-01-01T00:00:00Z"))
    store.set_run_status("run-a", RunStatus.EXHAUSTED)
    told(store, [("return 1", judge("return 1", (1.0, 0.5, 0.0))), ("?", None)])
    newest, oldest = map(tuple, store.runs())
    seed, late = RUN.seed, "1999-01-01T00:00:00Z"
    assert newest == ("run-b", "phones", RunStatus.RUNNING, 0, None, seed, late, None, None, "")
    assert oldest == ("run-a", "phones", RunStatus.EXHAUSTED, 2, 0.5, seed, RUN.created_at, None, None, "")


@pytest.mark.parametrize(
    ("rewards", "heldout", "ending", "solved_heldout"),
    [
        ((1.0, 1.0, 1.0), (3, 3), "solved", True),
        ((1.0, 1.0, 1.0), (2, 3), "memorised", False),
        ((1.0, 1.0, 1.0), (0, 0), "solved", None),
        ((1.0, 1.0, 1.0), None, "solved", None),
        ((1.0, 0.5, 0.0), (3, 3), "exhausted", False),
    ],
)
def test_a_run_that_ended_says_what_its_answer_does_on_held_out_rows(
    store: Store,
    rewards: Rewards,
    heldout: tuple[int, int] | None,
    ending: str,
    solved_heldout: bool | None,
) -> None:
    told(store, [("return 1", judge("return 1", rewards))])
    store.set_run_status("run-a", RunStatus.SOLVED if min(rewards) == 1.0 else RunStatus.EXHAUSTED, heldout)
    (row,) = store.runs()
    assert (row.ending, row.heldout, row.solved_heldout) == (ending, heldout, solved_heldout)
    assert row.solved_train is (min(rewards) == 1.0)


# Asks and tells


@pytest.mark.parametrize("seed", range(4))
def test_history_is_what_was_applied_in_the_same_order(store: Store, seed: int) -> None:
    store.add_run(replace(RUN, id="run-b"))
    history = scripted_history("run-a", seed, 40)
    other = scripted_history("run-b", seed + 100, 10)
    append(store, "run-b", other)
    append(store, "run-a", history)
    assert list(store.history("run-a")) == history
    assert list(store.history("run-b")) == other


def test_history_of_more_than_one_page_is_complete(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evovpo.store.history._PAGE", 50)
    prompts = [make_prompt(number, rollouts=1) for number in range(110)]
    answers = [(f"return {number}", judge(f"return {number}")) for number in range(110)]
    tells = [make_tell(prompt, 0, [answer]) for prompt, answer in zip(prompts, answers, strict=True)]
    append(store, "run-a", [*prompts, *tells])
    assert list(store.history("run-a")) == [*prompts, *tells]


def test_history_may_be_read_while_the_run_is_written(store: Store) -> None:
    history = scripted_history("run-a", 1, 6)
    append(store, "run-a", history)
    late = make_prompt(90)
    more: list[Prompt | Tell] = [late, make_tell(late, 0, [("return 'new'", judge("return 'new'"))])]
    reader = store.history("run-a")
    first = next(reader)
    append(store, "run-a", more, tells_before=6)
    assert [first, *reader][: len(history)] == history


def test_a_commit_stopped_by_ctrl_c_does_not_hinder_the_next(store: Store) -> None:
    def stop(_connection: object) -> None:
        raise KeyboardInterrupt

    event.listen(store._pool, "commit", stop, once=True)
    with pytest.raises(KeyboardInterrupt):
        store.set_run_status("run-a", RunStatus.STOPPED)
    store.set_run_status("run-a", RunStatus.INTERRUPTED)
    assert store.run("run-a").status is RunStatus.INTERRUPTED


def test_history_of_an_unknown_run_is_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError, match="run-z is not stored"):
        store.history("run-z")


def test_a_group_is_told_once_and_as_a_whole_or_not_at_all(store: Store) -> None:
    prompt = make_prompt(0, rollouts=4)
    tells = [make_tell(prompt, index, [(f"return {index}", judge(f"return {index}"))]) for index in range(4)]
    store.add_prompt(prompt)
    wrong = make_tell(prompt, 3, [("return 3", replace(judge("return 3"), problem_version="other"))])
    with pytest.raises(StoreError, match="was judged on problem version other"):
        store.add_tells("run-a", [*tells[:3], wrong], 0)
    assert list(store.history("run-a")) == [prompt]
    assert store.add_tells("run-a", tells[:2], 0) == [True, True]
    assert store.add_tells("run-a", tells, 2) == [False, False, True, True]
    assert store.add_tell("run-a", make_tell(prompt, 0, [("other", judge("other"))]), 4) is False
    assert list(store.history("run-a")) == [prompt, *tells]


def test_a_program_twice_in_a_group_has_one_evaluation_however_long_it_took(store: Store) -> None:
    prompt = make_prompt(0, rollouts=4)
    tells = [make_tell(prompt, index, [("return 1", judge("return 1"))]) for index in range(2)]
    append(store, "run-a", [prompt])
    store.add_tells("run-a", tells, 0)
    assert list(store.history("run-a")) == [prompt, *tells]
    slower = replace(judge("return 1"), seconds=9.0)
    store.add_tell("run-a", make_tell(prompt, 2, [("return 1", slower)]), 2)
    assert row_count(store, "evaluations") == 1


def test_asking_twice_changes_nothing_and_another_ask_with_its_id_is_refused(store: Store) -> None:
    assert store.add_prompt(make_prompt(0)) is True
    assert store.add_prompt(make_prompt(0)) is False
    with pytest.raises(StoreError, match="stored with other content"):
        store.add_prompt(replace(make_prompt(0), island=5))
    assert list(store.history("run-a")) == [make_prompt(0)]


def test_a_tell_out_of_order_is_refused_and_leaves_nothing(store: Store) -> None:
    prompt = make_prompt(0)
    store.add_prompt(prompt)
    with pytest.raises(StoreError, match="tell 3 of run run-a came where 0 was expected"):
        store.add_tell("run-a", make_tell(prompt, 0, [("return 1", judge("return 1"))]), 3)
    assert row_count(store, "candidates") == row_count(store, "evaluations") == 0


def test_a_tell_to_an_unknown_or_another_runs_prompt_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="store an ask before its tells"):
        store.add_tell("run-a", make_tell(make_prompt(0), 0, []), 0)
    store.add_run(replace(RUN, id="run-b"))
    store.add_prompt(make_prompt(0, run="run-b"))
    with pytest.raises(StoreError, match="belongs to run run-b"):
        store.add_tell("run-a", make_tell(make_prompt(0, run="run-b"), 0, []), 0)


@pytest.mark.parametrize(
    ("evaluation", "complaint"),
    [
        (judge("return 1", (1.0, 1.0)), "2 reward components; expected 3"),
        (judge("return 1", None), "0 reward components; expected 3"),
        (judge("return 1", (0.0, 0.0, 0.0), Status.SANDBOX_ERROR), "3 reward components; expected 0"),
        (judge("return 2"), "came with the evaluation of"),
        (replace(judge("return 1"), problem_version="v2"), "judged on problem version v2"),
    ],
)
def test_an_evaluation_that_does_not_fit_is_refused(
    store: Store, evaluation: Evaluation, complaint: str
) -> None:
    store.add_prompt(make_prompt(0))
    with pytest.raises(StoreError, match=complaint):
        store.add_tell("run-a", make_tell(make_prompt(0), 0, [("return 1", evaluation)]), 0)
    assert row_count(store, "tells") == 0


def test_a_refused_tell_leaves_nothing_behind(store: Store) -> None:
    prompt = make_prompt(0)
    store.add_prompt(prompt)
    rollout = make_rollout(prompt, 0)
    orphan = slot(rollout, 0, "return 1", judge("return 1"), parents=[Parent("nobody", ParentRole.PARENT)])
    with pytest.raises(StoreError):
        store.add_tell("run-a", Tell(prompt.id, rollout, (orphan,)), 0)
    tables = ("tells", "rollouts", "candidates", "evaluations", "rewards", "candidate_parents")
    assert {table: row_count(store, table) for table in tables} == dict.fromkeys(tables, 0)


def test_programs_with_one_id_and_two_spellings_come_back_as_they_were(store: Store) -> None:
    prompt = make_prompt(0)
    first, second = make_rollout(prompt, 0), make_rollout(prompt, 1)
    tells = []
    for rollout, source in ((first, "a+b"), (second, "a + b")):
        judged = slot(rollout, 0, "a+b", judge("a+b"))
        program = Program(source, content_id("a+b"))
        tells.append(
            Tell(prompt.id, rollout, (replace(judged, candidate=replace(judged.candidate, program=program)),))
        )
    append(store, "run-a", [prompt, *tells])
    assert list(store.history("run-a")) == [prompt, *tells]


def test_logprobs_are_rounded_to_32_bit_floats_and_nothing_else(store: Store) -> None:
    prompt = make_prompt(0)
    rollout = replace(make_rollout(prompt, 0), logprobs=(-0.1, float("-inf"), -30.0))
    append(store, "run-a", [prompt, Tell(prompt.id, rollout, ())])
    stored = list(store.history("run-a"))[1]
    assert isinstance(stored, Tell)
    assert stored.rollout is not None
    assert stored.rollout.logprobs is not None
    first, *others = stored.rollout.logprobs
    assert others == [float("-inf"), -30.0]
    assert 0 < abs(first + 0.1) < 0.1 * 2**-23


# Evaluations


def test_the_first_evaluation_of_a_program_is_kept_and_replay_sees_what_was_told(store: Store) -> None:
    kept, later = judge("return 1"), judge("return 1", (0.0, 0.0, 0.0), Status.TIMEOUT)
    history = told(store, [("return 1", kept)], [("return 1", later)])
    assert store.known_evaluation("v1", content_id("return 1")) == kept
    assert list(store.history("run-a")) == history


def test_a_sandbox_error_is_not_a_known_evaluation_and_does_not_block_one(store: Store) -> None:
    prompt = make_prompt(0)
    fault, good = judge("return 1", None, Status.SANDBOX_ERROR), judge("return 1")
    first, second = (make_tell(prompt, index, [("return 1", e)]) for index, e in enumerate((fault, good)))
    append(store, "run-a", [prompt, first])
    assert store.known_evaluation("v1", content_id("return 1")) is None
    assert store.known_evaluations("v1") == {}
    append(store, "run-a", [second], tells_before=1)
    assert store.known_evaluations("v1") == {content_id("return 1"): good}
    assert store.known_evaluations("v2") == {}
    assert list(store.history("run-a")) == [prompt, first, second]


RAW: tuple[tuple[str, Json], ...] = (("sum", 1e300), ("nan", "nan"), ("tags", ["a", {"k": None}]))


def test_judgements_that_differ_in_metrics_or_trust_alone_are_two_and_come_back_as_they_were(
    store: Store,
) -> None:
    kinds = [
        replace(judge("return 1"), metrics=RAW, trust=Trust.LOW),
        replace(judge("return 1"), metrics=RAW),
        replace(judge("return 1"), metrics=RAW[::-1]),
        replace(judge("return 1"), trust=Trust.LOW),
    ]
    history = told(store, *([("return 1", kind)] for kind in kinds), rollouts=4)
    assert list(store.history("run-a")) == history
    assert store.known_evaluation("v1", content_id("return 1")) == kinds[0]
    assert row_count(store, "evaluations") == 4


# Calls


def make_call(attempt: int = 1, outcome: CallOutcome = CallOutcome.OK, **fields: Any) -> Call:
    values: dict[str, Any] = {
        "model": "large",
        "reason": "" if outcome is CallOutcome.OK else "http 500 " + NASTY,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cost": 0.25,
        "seconds": 1.5,
    }
    return Call("run-a", make_prompt(0).id, attempt, outcome=outcome, **(values | fields))


def test_calls_come_back_in_order_equal_ones_too_and_are_summed_up(store: Store) -> None:
    assert store.calls("run-a") == []
    assert store.call_totals("run-a") == (0, 0, 0, 0, None, {})
    store.add_prompt(make_prompt(0))
    failed: dict[str, Any] = {"prompt_tokens": None, "completion_tokens": None, "cost": None}
    calls = [
        make_call(1, CallOutcome.RETRIED, **failed),
        make_call(2, CallOutcome.RETRIED, cost=0.5),
        make_call(3),
        make_call(3),
        make_call(1, CallOutcome.FAILED, **failed),
        make_call(1, CallOutcome.RETRIED, **{**failed, "reason": "http 422"}),
    ]
    for call in calls:
        store.add_call(call)
    assert store.calls("run-a") == calls
    faults = {calls[0].reason: 3}  # the refused request was sent again in another form
    assert store.call_totals("run-a") == store.run_summary("run-a").calls == (6, 3, 300, 60, 1.0, faults)


@pytest.mark.parametrize("field", ["run_id", "prompt_id"])
def test_a_call_for_what_is_not_stored_is_a_store_error(store: Store, field: str) -> None:
    store.add_prompt(make_prompt(0))
    with pytest.raises(StoreError):
        store.add_call(replace(make_call(), **{field: "nobody"}))
    assert row_count(store, "calls") == 0


# Groups


def only(groups: Iterator[Group]) -> Group:
    (group,) = groups
    return group


def test_a_group_holds_its_rollouts_by_index_with_their_vectors(store: Store) -> None:
    prompt = make_prompt(0, answers=1)
    late = make_tell(prompt, 0, [("return 1", judge("return 1", (1.0, 0.0, 0.0)))])
    early = make_tell(prompt, 1, [("return 2", judge("return 2", (0.0, 0.5, 1.0)))])
    append(store, "run-a", [prompt, early, late])
    group = only(store.groups("run-a"))
    assert group.prompt == prompt
    assert group.rollouts == (late.rollout, early.rollout)
    assert group.rewards_G_M_D == (((1.0, 0.0, 0.0),), ((0.0, 0.5, 1.0),))
    assert group.valid_G == (True, True)


def test_a_group_holds_the_program_and_the_tokens_of_every_answer(store: Store) -> None:
    prompt = make_prompt(0, rollouts=2, answers=3)
    first, second = make_rollout(prompt, 0), make_rollout(prompt, 1)
    one = judge("return 1")
    repeated = (
        slot(first, 0, "return 1", one),
        slot(first, 1, "return 1", one, parse_status=ParseStatus.DUPLICATE),
        slot(first, 2, None),
    )
    lone = (slot(second, 1, "return 2", judge("return 2")),)
    append(store, "run-a", [prompt, Tell(prompt.id, first, repeated), Tell(prompt.id, second, lone)])
    group = only(store.groups("run-a"))
    assert group.programs_G_M == (
        (content_id("return 1"), content_id("return 1"), None),
        (None, content_id("return 2"), None),
    )


def test_joins_and_groups_with_a_rollout_missing_are_not_yielded(store: Store) -> None:
    told(store, [], [], rollouts=3)
    prompt = replace(make_prompt(1, rollouts=1), kind=PromptKind.JOIN, proposals=(Program("return 1"),))
    judged = slot(make_rollout(prompt, 0), 0, "return 1", judge("return 1"))
    judged = replace(judged, candidate=replace(judged.candidate, rollout_id=None))
    append(store, "run-a", [prompt, Tell(prompt.id, None, (judged,))], tells_before=2)
    assert list(store.groups("run-a")) == []


def test_unparsed_rejected_missing_and_failed_answers_are_zero_rows(store: Store) -> None:
    prompt = make_prompt(0, rollouts=1, answers=5)
    rollout = make_rollout(prompt, 0)
    judged = (
        slot(rollout, 0, None),
        slot(rollout, 1, "return 1", judge("return 1"), parse_status=ParseStatus.REJECTED),
        slot(rollout, 2, "return 2", judge("return 2", (0.0, 0.0, 0.0), Status.CRASH)),
        slot(rollout, 3, "return 3", judge("return 3")),
    )
    append(store, "run-a", [prompt, Tell(prompt.id, rollout, judged)])
    group = only(store.groups("run-a"))
    zero = (0.0, 0.0, 0.0)
    assert group.rewards_G_M_D == ((zero, zero, zero, (1.0, 0.5, 0.0), zero),)
    assert group.valid_G == (True,)


def test_a_duplicate_has_the_vector_of_its_twin_unless_it_repeats_its_own_chain(store: Store) -> None:
    prompt = make_prompt(0, answers=2)
    vector = (1.0, 0.5, 0.0)
    first = make_tell(prompt, 0, [("return 1", judge("return 1", vector))])
    rollout = make_rollout(prompt, 1)
    again = tuple(
        slot(rollout, position, "return 1", judge("return 1", vector), parse_status=ParseStatus.DUPLICATE)
        for position in range(2)
    )
    append(store, "run-a", [prompt, first, Tell(prompt.id, rollout, again)])
    zero = (0.0, 0.0, 0.0)
    assert only(store.groups("run-a")).rewards_G_M_D == ((vector, zero), (vector, zero))


def test_a_sandbox_fault_takes_its_whole_rollout_out_of_the_group(store: Store) -> None:
    good, fault = judge("return 1"), judge("return 2", None, Status.SANDBOX_ERROR)
    told(store, [("return 1", good), ("return 2", fault)], [("return 1", good)], answers=2)
    assert only(store.groups("run-a")).valid_G == (False, True)


def test_groups_come_in_the_order_of_completion_and_none_is_lost_after_one(store: Store) -> None:
    first, second, third = prompts = [make_prompt(number, rollouts=1) for number in range(3)]
    append(store, "run-a", [*prompts, make_tell(second, 0, []), make_tell(third, 0, [])])
    assert [group.prompt.id for group in store.groups("run-a")] == [second.id, third.id]
    with pytest.raises(StoreError, match="not a complete group"):
        list(store.groups("run-a", after=first.id))
    append(store, "run-a", [make_tell(first, 0, [])], tells_before=2)
    assert [group.prompt.id for group in store.groups("run-a", after=third.id)] == [first.id]
    assert [group.prompt.id for group in store.groups("run-a", after=first.id)] == []


def test_more_groups_than_one_page_all_come(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evovpo.store.history._GROUPS_PAGE", 20)
    prompts = [make_prompt(number, rollouts=1) for number in range(46)]
    append(store, "run-a", [*prompts, *(make_tell(prompt, 0, []) for prompt in prompts)])
    assert [group.prompt for group in store.groups("run-a")] == prompts


# Policy versions


def test_policy_versions_come_back_in_order_and_each_keeps_its_number(store: Store) -> None:
    with pytest.raises(StoreError, match="no policy version 1; it has none"):
        store.policy_version(1)
    start = PolicyVersion(0, None, "built-in")
    trained = PolicyVersion(1, 0, "/policies/1", "run-a-p7", "abc", (("kl", 0.25), ("reward", 0.1)))
    assert store.add_policy_version(trained)
    assert store.add_policy_version(start)
    assert store.policy_versions() == [start, trained]
    assert store.policy_version(1) == trained
    assert store.add_policy_version(start) is False
    with pytest.raises(StoreError, match="taken by built-in; take the next number, 2"):
        store.add_policy_version(PolicyVersion(0, None, "other"))


# Policy events


def test_the_latest_version_that_was_served_or_rolled_back_to_is_served(store: Store) -> None:
    versions = [START, PolicyVersion(1, 0, "/policies/1"), PolicyVersion(2, 1, "/policies/2")]
    for version, before in zip(versions, [None, *versions], strict=False):
        store.add_policy_version(version)
        assert store.served() == before
        assert store.serve(version.number, "newer")
        assert store.serve(version.number, "again") is False
        assert store.served() == version
    store.add_policy_event(PolicyEvent(3, PolicyEventKind.REFUSED, "differs by 0.5 nats " + NASTY))
    store.add_policy_event(PolicyEvent(None, PolicyEventKind.FAILED, "the loss is nan"))
    assert store.served() == versions[2]
    assert store.serve(0, "worse", is_roll_back=True)
    assert store.served() == versions[0]
    assert [(event.number, event.kind, event.detail) for event in store.policy_events()] == [
        (0, "served", "newer"),
        (1, "served", "newer"),
        (2, "served", "newer"),
        (3, "refused", "differs by 0.5 nats " + NASTY),
        (None, "failed", "the loss is nan"),
        (0, "rolled_back", "worse"),
    ]
    assert all(event.at for event in store.policy_events())


@pytest.mark.parametrize("kind", [kind for kind in PolicyEventKind if kind.is_serving or kind == "published"])
def test_a_version_without_a_row_is_neither_published_nor_served(store: Store, kind: PolicyEventKind) -> None:
    with pytest.raises(StoreError, match="no policy version 1; it has none"):
        store.add_policy_event(PolicyEvent(1, kind))
    with pytest.raises(StoreError, match="names no version"):
        store.add_policy_event(PolicyEvent(None, kind))
    with pytest.raises(StoreError, match="no policy version 1"):
        store.serve(1)
    assert row_count(store, "policy_events") == 0


def test_an_event_names_the_training_that_it_ended(store: Store) -> None:
    store.add_policy_version(START)
    store.add_policy_version(PolicyVersion(1, 0, "/policies/1", config_hash="training-a"))
    store.add_policy_event(PolicyEvent(1, PolicyEventKind.PUBLISHED))
    store.add_policy_event(PolicyEvent(2, PolicyEventKind.REFUSED, "of a version without a row"))
    assert store.ended_trainings() == set()
    store.serve(1)
    store.add_policy_event(PolicyEvent(None, PolicyEventKind.FAILED, training_id="training-b"))
    assert store.ended_trainings() == {"training-a", "training-b"}
    assert [event.training_id for event in store.policy_events()] == [
        "training-a",
        None,
        "training-a",
        "training-b",
    ]


# Trainings


def test_a_training_comes_back_equal_and_another_under_its_id_is_refused(store: Store) -> None:
    append(store, "run-a", [make_prompt(0), make_prompt(1)])
    store.add_run(replace(RUN, id="run-b"))
    store.add_policy_version(START)
    two_runs = replace(
        TRAINING,
        id="training-b",
        runs=("run-b", "run-a"),
        after=(None, "run-a-p0"),
        through=(None, "run-a-p1"),
        created_at="2026-01-02T03:04:06Z",
    )
    assert store.trainings() == []
    assert store.add_training(TRAINING)
    assert store.add_training(two_runs)
    assert store.add_training(replace(TRAINING, created_at="later")) is False
    assert store.trainings() == [TRAINING, two_runs]
    with pytest.raises(StoreError, match="training-a is stored with other content"):
        store.add_training(replace(TRAINING, through=("run-a-p0",)))


def test_a_training_needs_its_start_version_and_its_runs(store: Store) -> None:
    append(store, "run-a", [make_prompt(0), make_prompt(1)])
    with pytest.raises(StoreError, match="no policy version 0"):
        store.add_training(TRAINING)
    store.add_policy_version(START)
    with pytest.raises(StoreError, match="run nothing is not stored"):
        store.add_training(replace(TRAINING, runs=("nothing",)))
    with pytest.raises(StoreError, match="1 runs, 2 beginnings"):
        store.add_training(replace(TRAINING, after=(None, None)))
    assert row_count(store, "trainings") == row_count(store, "training_runs") == 0


def trained(store: Store) -> Store:
    append(store, "run-a", [make_prompt(0), make_prompt(1)])
    store.add_policy_version(START)
    store.add_training(TRAINING)
    return store


def test_training_steps_come_back_equal_in_order_each_told_once(store: Store) -> None:
    steps = [make_step(number) for number in range(3)]
    trained(store)
    for step in reversed(steps):
        assert store.add_training_step(step)
    assert store.add_training_step(make_step(0, seconds=9.0)) is False
    assert store.training_steps("training-a") == steps
    assert store.training_steps("nothing") == []


def test_a_step_of_an_unknown_training_or_with_a_figure_that_is_not_finite_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="no training training-a"):
        store.add_training_step(make_step(0))
    trained(store)
    with pytest.raises(StoreError, match="loss is nan; expected a finite number"):
        store.add_training_step(make_step(0, loss=float("nan")))
    assert store.training_steps("training-a") == []


# Reports


def test_the_summary_counts_what_was_proposed_and_what_it_cost(store: Store) -> None:
    prompt, join = make_prompt(0), replace(make_prompt(1, rollouts=1, answers=1), kind=PromptKind.JOIN)
    rollout = make_rollout(prompt, 0)
    judged = (
        slot(rollout, 0, "return 11", judge("return 11", (1.0, 0.0, 0.5))),
        slot(
            rollout, 1, "return 11", judge("return 11", (1.0, 0.0, 0.5)), parse_status=ParseStatus.DUPLICATE
        ),
        slot(rollout, 2, None),
    )
    joined = slot(make_rollout(join, 0), 0, "return 3", judge("return 3", (1.0, 0.5, 0.0)))
    joined = replace(joined, candidate=replace(joined.candidate, rollout_id=None))
    bad = make_tell(prompt, 1, [("return 0", judge("return 0", (0.0, 0.0, 0.0), Status.ERROR))])
    append(
        store, "run-a", [prompt, Tell(prompt.id, rollout, judged), join, Tell(join.id, None, (joined,)), bad]
    )
    summary = store.run_summary("run-a")
    assert (summary.proposed, summary.executed, summary.joins, summary.rollouts) == (5, 3, 1, 2)
    assert (summary.tokens, summary.sampling_seconds, summary.evaluation_seconds) == (6, 0.25, 0.75)
    assert summary.by_parse_status == {"parsed": 3, "duplicate": 1, "unparsed": 1}
    assert summary.by_status == {"ok": 3, "error": 1}
    assert summary.best_program_id == content_id("return 3")
    assert [tuple(point) for point in summary.curve] == [(0, 3, 0.5, 1), (2, 5, 0.5, 1)]


def seed_ticket() -> tuple[Prompt, Tell]:
    """Return the ticket of the problem's starting program, and its judgement."""
    prompt = replace(
        make_prompt(0, rollouts=1, answers=0),
        kind=PromptKind.SEED,
        parents=(),
        messages=(),
        proposals=(SEED,),
    )
    judged = slot(make_rollout(prompt, 0), 0, SEED.source, judge(SEED.source, (1.0, 0.0, 0.0)))
    judged = replace(judged, candidate=replace(judged.candidate, id="the-seed", rollout_id=None))
    return prompt, Tell(prompt.id, None, (judged,))


def test_starting_programs_may_be_the_best_and_do_not_count_as_proposed_nor_as_joins(store: Store) -> None:
    prompt = make_prompt(1)
    tell = make_tell(prompt, 0, [("return 1", judge("return 1", (1.0, 1.0, 0.0))), ("?", None)])
    append(store, "run-a", [*seed_ticket()])
    alone = store.run_summary("run-a")
    assert (alone.proposed, alone.best_program_id, alone.examples_passed) == (0, SEED.id, 1)
    append(store, "run-a", [prompt, tell], tells_before=1)
    summary = store.run_summary("run-a")
    assert (summary.proposed, summary.joins, summary.rollouts) == (2, 0, 1)
    assert sum(summary.by_parse_status.values()) == 2
    assert summary.by_status == {"ok": 1}
    assert summary.executed == 3
    assert [tuple(point) for point in summary.curve] == [(0, 0, 1 / 3, 1), (1, 2, 2 / 3, 2)]
    (row,) = store.runs()
    assert row.evaluations == 2
    assert row.best_mean_reward == pytest.approx(2 / 3)


def test_starting_programs_are_no_group_and_have_no_lineage(store: Store) -> None:
    prompt = make_prompt(1, rollouts=1)
    child = slot(
        make_rollout(prompt, 0), 0, "child", judge("child"), parents=[Parent(SEED.id, ParentRole.PARENT)]
    )
    append(store, "run-a", [*seed_ticket(), prompt, Tell(prompt.id, make_rollout(prompt, 0), (child,))])
    assert [group.prompt.id for group in store.groups("run-a")] == [prompt.id]
    assert store.lineage("run-a", SEED.id) == []
    (step,) = store.lineage("run-a", content_id("child"))
    assert step.parents == (Parent(SEED.id, ParentRole.PARENT),)
    with pytest.raises(StoreError, match="no program nobody"):
        store.lineage("run-a", "nobody")


def test_the_summary_of_an_empty_run_is_empty(store: Store) -> None:
    summary = store.run_summary("run-a")
    assert (summary.proposed, summary.best_mean_reward, summary.curve) == (0, None, [])


def test_lineage_leads_back_to_the_seed_without_following_inspirations(store: Store) -> None:
    prompt = make_prompt(0, rollouts=4)
    rollouts = [make_rollout(prompt, index) for index in range(4)]

    def parent(source: str, role: ParentRole = ParentRole.PARENT) -> Parent:
        return Parent(content_id(source), role)

    seed = Parent(SEED.id, ParentRole.PARENT)
    child = slot(rollouts[0], 0, "child", judge("child"), parents=[seed])
    aside = slot(rollouts[1], 0, "aside", judge("aside"), parents=[seed])
    grandchild = slot(
        rollouts[2],
        0,
        "grandchild",
        judge("grandchild"),
        parents=[parent("child"), parent("aside", ParentRole.INSPIRATION)],
    )
    again = [
        slot(rollouts[3], 0, SEED.source, judge(SEED.source), parse_status=ParseStatus.DUPLICATE,
             parents=[parent("grandchild")]),
        slot(rollouts[3], 1, "child", judge("child"), parse_status=ParseStatus.DUPLICATE,
             parents=[parent("grandchild")]),
    ]  # fmt: skip
    slots = ([child], [aside], [grandchild], again)
    tells = [Tell(prompt.id, rollout, tuple(s)) for rollout, s in zip(rollouts, slots, strict=True)]
    append(store, "run-a", [prompt, *tells])
    steps = store.lineage("run-a", content_id("grandchild"))
    assert steps == [grandchild.candidate, child.candidate]
    assert steps[0].parents == (parent("child"), parent("aside", ParentRole.INSPIRATION))
    assert [store.program(item.program_id) for item in steps[0].parents] == [
        Program("child"),
        Program("aside"),
    ]
    assert steps[1].parents == (seed,)


def test_a_query_takes_parameters_and_changes_nothing(store: Store) -> None:
    assert store.query("SELECT seed FROM runs WHERE id = :run", run="run-a") == [{"seed": "7"}]
    with pytest.raises(StoreError):
        store.query("DELETE FROM run_events")
    assert row_count(store, "run_events") == 1
