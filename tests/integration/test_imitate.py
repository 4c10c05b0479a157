"""Imitating what searches found: which programs are taught, under which prompts, and what is left out."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_proposer import ScriptedProposer
from toy_runs import PROBLEM, SWAP, evaluation, source

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.chain import join_chain
from evovpo.config import Config
from evovpo.errors import NothingToTrainError
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.store import Store
from evovpo.types import Example, Objective, PolicyVersion, Problem, Program, Prompt
from trainer.config import TrainConfig
from trainer.learning.imitation import (
    SIDE,
    FoundProgram,
    ImitationTarget,
    LeftOutReason,
    Targets,
    _Writer,
    choose,
    choosing_rows,
    read_targets,
    text_row,
)
from trainer.learning.policy_models import load_tokenizer, load_trainable
from trainer.learning.policy_update import token_logprobs
from trainer.learning.step_data import TARGETS_PER_STEP, imitation_steps
from trainer.loop.retrain import preview, retrain
from trainer.loop.training_plan import make_plan
from trainer.objectives import draw_weights

CONFIG = TrainConfig.load(None, {"imitate.share": 1, "imitate.passes": 1})
TOKENIZER: Any = load_tokenizer(PolicyVersion(0, None, str(BUILT_IN_MODEL)))
WRITTEN = (SWAP, "x0.upper()", "x0.lower()", "x0[1:]")
RIGHT = ("Ada Lovelace", "Alan Turing", "Grace Hopper")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "imitate.db"))


def search(store: Store, problem: Problem = PROBLEM, run: str = "toy") -> str:
    """Store a run in which a model writes the two sides of a solution and nonsense, and the search joins."""

    def reply(prompt: Prompt, index: int) -> str:
        return join_chain([WRITTEN[(prompt.sequence + index) % len(WRITTEN)]])

    sections = {
        "search": {"evaluations": 24, "rollouts": 4, "in_flight": 1, "islands": 1},
        "proposer": {"name": "local"},
        "sandbox": {"workers": 1},
    }
    config = Config.load(None, None, sections)
    outcome = start(RunRequest(problem, config, run_id=run), store, ScriptedProposer(reply, logprob=-1.0))
    assert outcome.solved
    return run


def shown_rows(target: ImitationTarget) -> set[int]:
    return {TOKENIZER.decode(row.prompt_ids).count("⟦ex⟧") for row in target.rows}


def test_a_join_is_taught_whole_and_each_side_under_its_own_rows(store: Store) -> None:
    targets = read_targets(store, [search(store)], CONFIG, TOKENIZER)
    assert targets.by_source() == {"joined": 1, SIDE: 2}
    texts = {TOKENIZER.decode(target.rows[0].completion_ids): target for target in targets.found}
    whole, swap, upper = sorted(texts, key=len, reverse=True)
    assert swap == f"{SWAP}⟦end⟧"
    assert upper == "x0.upper()⟦end⟧"
    assert " if " in whole
    assert [shown_rows(texts[text]) for text in (whole, swap, upper)] == [{6}, {3}, {3}]
    # Some prompts of the join show a side as the parent, and none shows anything of a held-out row.
    prompts = [TOKENIZER.decode(row.prompt_ids) for row in texts[whole].rows]
    assert 0 < sum("⟦par⟧" in prompt for prompt in prompts) < len(prompts)
    assert len(set(prompts)) > 1


def test_what_is_wrong_on_validation_rows_is_not_taught_nor_are_its_sides(store: Store) -> None:
    rows = (Example(("Noether, Emmy",), "Emmy Noether"), Example(("Euclid",), "euclid, not in capitals"))
    memorised = dataclasses.replace(PROBLEM, version="names-2", validation=rows)
    found = read_targets(store, [search(store, memorised)], CONFIG, TOKENIZER)
    assert found == Targets((), {LeftOutReason.WRONG: 1})
    with pytest.raises(NothingToTrainError, match="1 wrong on validation rows"):
        make_plan(store, ["toy"], CONFIG)
    right = (rows[0], Example(("Euclid",), "EUCLID"))
    confirmed = dataclasses.replace(PROBLEM, version="names-3", validation=right)
    assert len(read_targets(store, [search(store, confirmed, "other")], CONFIG, TOKENIZER).found) == 3


def test_what_two_runs_found_is_taught_once(store: Store) -> None:
    runs = [search(store), search(store, run="again")]
    targets = read_targets(store, runs, CONFIG, TOKENIZER)
    assert len(targets.found) == 3
    assert targets.left_out == {LeftOutReason.TWICE: 3}


def problem_of(rows: int) -> Problem:
    return dataclasses.replace(
        PROBLEM,
        version=f"rows-{rows}",
        train=PROBLEM.train[:1] * rows,
        objectives=tuple(Objective(f"row-{row}") for row in range(rows)),
    )


def held(rewards: list[list[float]]) -> dict[str, FoundProgram]:
    """Return finds with these vectors; the later, the longer."""
    texts = [f"{row}{' ' * row}" for row in range(len(rewards))]
    return {text: FoundProgram(Program(text), evaluation(text, vector), "sampled", ()) for text, vector in
            zip(texts, rewards, strict=True)}  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_the_finds_chosen_are_those_that_are_best_under_some_weighting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(0, 2, (12, 8)).astype(float)
    problem, finds = problem_of(8), held(vectors.tolist())
    chosen = choose(problem, finds, CONFIG, np.random.default_rng(seed))
    columns = choosing_rows(problem)
    assert len(columns) == 6
    wanted = set()
    for weighting in draw_weights(6, CONFIG.objective, np.random.default_rng(seed)):
        values = [round(float(vector[columns] @ weighting), 9) for vector in vectors]
        wanted.add(values.index(max(values)))
    texts = list(finds)
    assert {find.program.source for find in chosen} == {texts[place] for place in wanted}


def test_specialists_are_chosen_where_nobody_is_best_at_everything_and_else_the_shortest_winner() -> None:
    problem = dataclasses.replace(problem_of(2), validation=PROBLEM.train[:1])

    def chosen(*vectors: list[float]) -> list[str]:
        return [find.program.source for find in
                choose(problem, held(list(vectors)), CONFIG, np.random.default_rng(0))]  # fmt: skip

    assert chosen([1, 0], [0, 1], [0.4, 0.4]) == ["0", "1 "]
    assert chosen([1, 0], [1, 1], [0, 1], [1, 1]) == ["1 "]


@pytest.mark.parametrize(
    ("text", "rewards", "reason"),
    [
        ("def solve(name):\n    name = name\n    return name\n", [1] * 6, LeftOutReason.UNWRITABLE),
        (source("x0.upper()"), [0, 0, 0, 1, 0, 0], LeftOutReason.FEW_ROWS),
        (source(repr("a" * 300)), [1] * 6, LeftOutReason.TOO_LONG),
    ],
)
def test_what_cannot_be_taught_is_left_out_with_its_reason(
    text: str, rewards: list[float], reason: LeftOutReason
) -> None:
    find = FoundProgram(Program(text), evaluation(text, rewards), "imported", ())
    writer = _Writer(PROBLEM, Config(), TOKENIZER, {})
    assert writer.target("run", find, np.random.default_rng(0)) is reason


@pytest.mark.parametrize("style", ["rewrite", "diff"])
def test_for_instruction_models_a_target_is_what_they_would_answer(style: str) -> None:
    parent = FoundProgram(PROBLEM.seeds[0], evaluation("", [0] * 6), "", ())
    text = source(f"{SWAP} if ',' in x0 else x0.upper()")
    find = FoundProgram(Program(text), evaluation(text, [1] * 6), "mutated", (parent.program.id,))
    chat = ["proposer.name=openai", "proposer.model=any", "proposer.endpoint=chat"]
    config = Config.load(None, Config.read_changes([f"prompt.style={style}", *chat]))
    writer = _Writer(PROBLEM, config, _Characters(), {parent.program.id: parent})
    target = writer.target("run", find, np.random.default_rng(0))
    assert isinstance(target, ImitationTarget)
    answers = {"".join(map(chr, row.completion_ids[:-1])) for row in target.rows}
    assert len(answers) == 1
    assert ("<<<<<<< SEARCH\n" if style == "diff" else "```python\n") in answers.pop()
    asked = "".join(map(chr, target.rows[0].prompt_ids))
    assert asked.startswith("<system>")
    assert asked.endswith("<assistant>")
    assert PROBLEM.statement in asked


class _Characters:
    eos_token_id = 0
    model_max_length = 100_000

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": list(map(ord, text))}

    def apply_chat_template(self, turns: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in turns) + "<assistant>"


def test_sources_and_lengths_are_balanced() -> None:
    def target(name: str, source: str, length: int) -> ImitationTarget:
        return ImitationTarget("run", name, source, (text_row((1,), range(length)),))

    many = [target(f"m{number}", "sampled", 10 + number) for number in range(90)]
    few = [target(f"f{number}", "joined", 10 + 30 * number) for number in range(3)]
    config = CONFIG.changed(imitate={"passes": 100})
    steps = imitation_steps(Targets((*many, *few), {}), config)
    assert len(steps) == -(-93 * 100 // TARGETS_PER_STEP)
    lengths = [len(row.completion_ids) for step in steps for row in step.texts]
    # Three classes of 30 and three of one: each draws in proportion to the square root of its size.
    share = sum(length in (10, 40, 70) for length in lengths) / len(lengths)
    wanted = (3 + 3 * 30**0.5 / 30) / (3 + 3 * 30**0.5)
    assert share == pytest.approx(wanted, abs=0.02)


@pytest.mark.slow
def test_a_training_that_imitates_makes_targets_likelier_and_says_where_they_came_from(
    store: Store, tmp_path: Path
) -> None:
    run = search(store)
    settings = {"imitate": {"passes": 32}, "update": {"learning_rate": 1e-3}}
    config = CONFIG.changed(**settings)
    plan = make_plan(store, [run], config)
    planned = preview(plan, 0.0)._asdict()
    assert (planned["groups_used"], planned["targets"]) == (0, 3)
    assert planned["targets_by_source"] == {"joined": 1, SIDE: 2}
    made = retrain(store, [run], config, tmp_path / "policies", problems=())
    assert (made.policy_version, made.steps, made.targets) == (1, 6, 3)
    again = retrain(store, [run], config, tmp_path / "policies", problems=())
    assert again.policy_version == 1
    rows = [row for target in plan.targets.found for row in target.rows]
    before, after = (
        sum(float(values.sum()) for values in token_logprobs(
            load_trainable(store.policy_version(number), store.policy_version(0), config).model, rows))
        for number in (0, 1)
    )  # fmt: skip
    assert after > before + 1.0
    # With more finds it begins with the start model again.
    other = search(store, dataclasses.replace(PROBLEM, version="names-4"), "other")
    more = retrain(store, [run, other], config, tmp_path / "policies", problems=())
    assert store.policy_version(more.policy_version or 0).parent == 0
