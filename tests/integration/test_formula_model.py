"""The built-in model for numeric rules: its format, its choice, its folder, and the closed loop with it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from pathlib import Path
from random import Random

import pytest
from shell import Shell

from evovpo.builtin import BUILT_IN_MODEL, FORMULA_MODEL
from evovpo.builtin.chain import END_ID, SEPARATOR_ID, split_chain
from evovpo.builtin.choice import built_in_fault, built_in_format, built_in_model
from evovpo.builtin.formulas.format import FORMULAS, FormulaFormat, formula_fault, level, vocabulary
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import new_problem, resolve_problem
from evovpo.prompts.request import Request, Shown
from evovpo.runs.choices import check_proposer, choose_format, open_proposer
from evovpo.runs.replay import verify
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    Objective,
    ParentRole,
    PolicyVersion,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Sampling,
    Status,
)

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")
from trainer.config import TrainConfig  # noqa: E402
from trainer.loop.loop import plan_loop  # noqa: E402
from trainer.recipes.formula_model import sample_sequence  # noqa: E402

PACKING = load_problem(resolve_problem("heuristics/bin-packing-or3"))
STRINGS = load_problem(resolve_problem("strings/date-to-iso"))


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return transformers.AutoTokenizer.from_pretrained(FORMULA_MODEL)


def rollout(text: str, token_ids: tuple[int, ...] | None = None) -> Rollout:
    return Rollout("r", "p", 0, 0, text, token_ids, None, None, Sampling(), "stop", 0.0)


def judged(source: str, rewards: tuple[float, ...]) -> Shown:
    program = Program(source)
    return Shown(program, Evaluation(program.id, "v", Status.OK, rewards, "", 0.0, "none"))


# ---------------------------------------------------------------- the format


def test_a_prompt_shows_the_parent_and_each_reward_as_a_digit() -> None:
    parent = judged(PACKING.seeds[0].source, (0.0, 0.09, 0.1, 0.55, 0.7, 0.899, 0.9, 1.0))
    made_by = FormulaFormat(PACKING)
    (message,) = made_by.messages(PACKING, Request(3, PromptKind.MUTATE, parent))
    assert message.content == "⟦m3⟧⟦n3⟧⟦par⟧a - b⟦r0⟧⟦r0⟧⟦r1⟧⟦r5⟧⟦r7⟧⟦r8⟧⟦r9⟧⟦r9⟧⟦out⟧"
    (message,) = made_by.messages(PACKING, Request(1))
    assert message.content == "⟦m1⟧⟦n3⟧⟦out⟧"


def test_steps_of_rewards_are_tenths() -> None:
    assert [level(reward) for reward in (0.0, 0.0999, 0.1, 0.95, 1.0)] == [0, 0, 1, 9, 9]


def test_answers_are_programs_of_the_problem_and_others_are_empty_slots() -> None:
    found = FormulaFormat(PACKING).answers(PACKING, rollout("b-a⟦sep⟧d + 1⟦sep⟧a if b > c else⟦end⟧"), 4)
    assert [answer.program is None for answer in found] == [False, True, True, True]
    assert found[0].program is not None
    assert found[0].program.source.endswith("return remaining - item\n")
    assert [answer.text for answer in found] == ["b-a", "d + 1", "a if b > c else", ""]


def test_only_a_formula_can_be_a_parent() -> None:
    made_by = FormulaFormat(PACKING)
    loop = Program("def priority(item, remaining, capacity):\n    x = item\n    return x\n")
    assert made_by.can_show(PACKING, PACKING.seeds[0], ParentRole.PARENT)
    assert not made_by.can_show(PACKING, PACKING.seeds[0], ParentRole.INSPIRATION)
    assert not made_by.can_show(PACKING, loop, ParentRole.PARENT)


# ---------------------------------------------------------------- which problems


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"seeds": (Program("def priority(item, remaining, capacity):\n    return item\n"),)},
            "no starting program",
        ),
        (
            {"seeds": (Program("def priority(item, remaining, capacity):\n    return 0.0\n"),)},
            "no starting program",
        ),
        ({"seeds": ()}, "no starting program"),
        ({"parameters": tuple("vwxyz")}, "5 inputs"),
        ({"parameters": ("min", "b", "c")}, "named abs, min or max"),
        ({"objectives": tuple(Objective(str(number)) for number in range(17))}, "17 objectives"),
        ({"scorer_path": None}, "examples instead of a scorer"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, object], fault: str) -> None:
    problem = dataclasses.replace(PACKING, **changes)  # type: ignore[arg-type]
    assert fault in formula_fault(problem)
    with pytest.raises(ProblemError, match="built-in model for numeric rules"):
        FormulaFormat(problem)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("heuristics/bin-packing-or3", FormulaFormat),
        ("heuristics/bin-packing-weibull", FormulaFormat),
        ("heuristics/job-shop", None),
        ("maze/maze-1", None),
        ("strings/date-to-iso", ExpressionFormat),
    ],
)
def test_the_model_and_format_fit_the_problem(name: str, wanted: type | None) -> None:
    problem = load_problem(resolve_problem(name))
    for proposer in ("local", "random"):
        config = Config.load(None, [f"proposer.name={proposer}"])
        if wanted is None:
            assert "scorer instead of examples, and no starting program" in built_in_fault(problem)
            with pytest.raises(ConfigError, match="cannot write for"):
                check_proposer(problem, config)
        else:
            check_proposer(problem, config)
            assert type(choose_format(problem, config)) is wanted
            assert type(built_in_format(problem)) is wanted
    assert built_in_model(problem) == (FORMULA_MODEL if wanted is FormulaFormat else BUILT_IN_MODEL)


def test_a_new_problem_with_a_scorer_can_be_searched_without_a_server(tmp_path: Path) -> None:
    assert formula_fault(load_problem(new_problem(tmp_path / "mine", "score"))) == ""


def test_random_formulas_are_the_baseline_and_follow_from_the_prompt() -> None:
    proposer = open_proposer(PACKING, Config.load(None, ["proposer.name=random"]))
    prompt = Prompt("p", "run", 0, 0, PromptKind.ROOT, 0, (), (), 2, 3, 7)
    first, again = (asyncio.run(proposer.propose(prompt, [0, 1], Sampling())) for _ in range(2))
    assert first == again
    formulas = [slot.text for rollout in first for slot in split_chain(rollout.text, None)]
    assert [FORMULAS.canonical(formula, len(PACKING.parameters)) for formula in formulas] == formulas
    assert len(set(formulas)) > 3


def test_a_store_of_the_other_built_in_model_is_refused(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/s.db") as store:
        store.add_policy_version(PolicyVersion(0, None, str(BUILT_IN_MODEL)))
        store.serve(0)
        served = Config.load(None, ["proposer.policy=served"])
        with pytest.raises(ConfigError, match="store of its own"):
            open_proposer(PACKING, served, store)
        open_proposer(STRINGS, served, store)


# ---------------------------------------------------------------- the folder


def test_the_folder_is_small_and_has_the_vocabulary_of_the_format(tokenizer: object) -> None:
    assert sum(path.stat().st_size for path in FORMULA_MODEL.iterdir()) <= 3_000_000
    assert tokenizer.get_vocab() == {token: index for index, token in enumerate(vocabulary())}  # type: ignore[attr-defined]


def test_training_sequences_survive_the_tokenizer_and_cut_into_their_answers(tokenizer: object) -> None:
    rng = Random(4)
    for _ in range(100):
        prompt, completion = sample_sequence(rng)
        ids = tokenizer(prompt + completion)["input_ids"]  # type: ignore[operator]
        assert tokenizer.decode(ids) == prompt + completion  # type: ignore[attr-defined]
        tokens = tokenizer(completion)["input_ids"]  # type: ignore[operator]
        assert tokens[-1] == END_ID
        slots = split_chain(completion, tokens)
        assert len(slots) == tokens.count(SEPARATOR_ID) + 1 == int(prompt[2])
        for slot in slots:
            assert FORMULAS.canonical(slot.text) == slot.text
            assert slot.token_span is not None
            assert tokenizer.decode(tokens[slice(*slot.token_span)]) == slot.text  # type: ignore[attr-defined]


@pytest.mark.slow
def test_no_training_prompt_says_anything_of_its_answers_but_the_parent() -> None:
    """Reward digits are drawn without a look at formulas: they are the same with and without a division."""
    rng = Random(0)
    means: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(1500):
        prompt, _ = sample_sequence(rng)
        parent, mark, rest = prompt.partition("⟦r")
        if mark:
            digits = [int(part[0]) for part in ("⟦r" + rest).split("⟦r")[1:]]
            means["/" in parent].append(sum(digits) / len(digits))
    with_division, without = (sum(found) / len(found) for found in (means[True], means[False]))
    assert abs(with_division - without) < 0.6


# ---------------------------------------------------------------- the model at work


def test_a_search_with_the_model_finds_formulas_and_replays(tmp_path: Path) -> None:
    quick = new_problem(tmp_path / "root", "score")
    problem = load_problem(quick)
    config = Config.load(None, ["search.evaluations=96", "search.in_flight=1", "sandbox.workers=1"])
    with Store.open(f"sqlite:///{tmp_path}/s.db") as store:
        outcome = start(RunRequest(problem, config), store)
        summary = store.run_summary(outcome.run)
        unread = sum(n for status, n in summary.by_parse_status.items() if status == "unparsed")
        assert unread <= 30  # the model knows its language
        assert outcome.best_mean_reward > 0.5
        verify(outcome.run, store)


def test_a_loop_over_a_problem_with_a_scorer_holds_nothing_out(tmp_path: Path) -> None:
    served = Config().changed(proposer=Config().proposer.changed(policy="served"))
    loop = plan_loop([PACKING], served, TrainConfig())
    assert (loop.searched, loop.held_out) == ((PACKING,), ())
    with pytest.raises(ConfigError, match="some want strings, others numbers"):
        plan_loop([PACKING, STRINGS], served, TrainConfig())
    shop = load_problem(resolve_problem("heuristics/job-shop"))
    with pytest.raises(ConfigError, match="job-shop: it has a scorer"):
        plan_loop([PACKING, shop], served, TrainConfig())


@pytest.mark.slow
def test_the_loop_trains_the_model_on_such_a_problem_and_says_what_each_round_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    new_problem(tmp_path / "root", "score")
    done = Shell(capsys)("loop", "root", "--rounds", "2", "-n", "72", "--store", "sqlite:///s.db",
                         "--set", "sandbox.workers=1")  # fmt: skip
    assert done.code == 0, done.err
    assert re.search(r"each round found: [01]\.\d{3}, [01]\.\d{3} \(no problem was held out\)", done.out)
    assert "2 policy versions were trained; version 2 is served" in done.out
    assert not list(tmp_path.glob("*.png"))
    problem: Problem = load_problem(tmp_path / "root")
    config = json.loads((FORMULA_MODEL / "config.json").read_text())
    with Store.open(f"sqlite:///{tmp_path}/s.db") as store:
        versions = store.policy_versions()
        assert Path(versions[0].path) == FORMULA_MODEL.resolve()
        assert (
            json.loads((Path(versions[2].path) / "config.json").read_text())["vocab_size"]
            == config["vocab_size"]
        )
        assert len(store.trainings()) == 2
        assert problem.version == store.run(store.runs()[0].run).problem_version
