"""Answers for people: what is read of a stored run, and how it is written."""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console, Group, RenderableType
from rich.text import Text
from scripted_proposer import ScriptedProposer

from evovpo.builtin.chain import join_chain
from evovpo.cli.terminal import show_answer
from evovpo.config import Config
from evovpo.errors import ConfigError, StoreError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import new_problem
from evovpo.reports.run_curve import curve_lines, write_curve_png
from evovpo.reports.run_report import figures, headline, nothing_judged, outcome_json, run_report
from evovpo.reports.runs_table import lineage_table, misses_view, rows_table, runs_table
from evovpo.reports.text import (
    changes_view,
    folded,
    one_line,
    plain_table,
    printable,
    program_view,
    reward_text,
)
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.runs.stored import Ancestor, Outcome, RowResult, RunView, find_run, lineage, read_run, run_heldout
from evovpo.store import CurvePoint, RunRow, Store, solved_at
from evovpo.types import Parent, ParentRole, Problem, Program, RunStatus

SWAP = "x0.partition(', ')[2] + ' ' + x0.partition(', ')[0]"
"""Right on the three names of the skeleton problem that have a comma, wrong on the two without."""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load_problem(new_problem(tmp_path_factory.mktemp("problems") / "names"))


@pytest.fixture(scope="module")
def store(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with one run: a model wrote `SWAP`, whose join with the starting program is the solution."""
    settings = ["proposer.name=scripted", "search.in_flight=1", "search.rollouts=1", "search.answers=2"]
    config = Config.load(None, Config.read_changes([*settings, "search.evaluations=40"]))
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'runs.db'}"
    with Store.open(url) as opened:
        proposer = ScriptedProposer(lambda prompt, index: join_chain(["x0.title()", SWAP]))
        start(RunRequest(problem, config, run_id="first"), opened, proposer)
        yield opened


@pytest.fixture(scope="module")
def view(store: Store) -> RunView:
    return read_run(store, "first")


def written(renderable: RenderableType, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(renderable, crop=False)
    return file.getvalue()


def outcome(**changes: object) -> Outcome:
    plain = Outcome("r", False, 0.5, 2, 4, 0, 3, 10, 10, 0, 1.0, "def solve(x):\n    return x\n")
    return plain._replace(**changes)  # type: ignore[arg-type]


def test_a_stored_run_gives_the_outcome_that_it_ended_with(view: RunView) -> None:
    found = view.outcome(0.0)
    assert (found.solved, found.solved_heldout, found.train_passed, found.heldout_passed) == (
        True,
        True,
        5,
        2,
    )
    assert found.joins >= 1
    assert view.best is not None
    assert found.program == view.best.source


def test_lineage_leads_from_a_join_over_both_sides_to_the_seed(store: Store, view: RunView) -> None:
    assert view.best is not None
    shortest, best, *others = lineage(store, "first", view.problem, view.best)
    assert (shortest.origin, best.origin) == ("shorten", "join")
    assert [parent.program_id for parent in shortest.made_from] == [best.program.id]
    assert [parent.role for parent in best.made_from] == [ParentRole.JOIN_THEN, ParentRole.JOIN_ELSE]
    assert {"seed", "root"} >= {ancestor.origin for ancestor in others if not ancestor.made_from}
    assert {ancestor.passed for ancestor in [best, *others]} == {5, 3, 2}


def test_the_lineage_table_names_every_side_by_the_number_of_its_row(store: Store, view: RunView) -> None:
    assert view.best is not None
    text = written(lineage_table(view.problem, lineage(store, "first", view.problem, view.best)))
    assert "shortened from 2" in text
    assert "join of 3 (then), 4 (else)" in text
    assert "name.partition(', ')[2] + ' ' + name.partition(', ')[0]" in text


def test_latest_in_an_empty_store_says_how_to_start(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "new.db")) as empty, pytest.raises(StoreError, match="evovpo evolve"):
        find_run(empty, "latest")


def test_a_run_is_named_by_its_id_its_problem_or_the_beginning_of_either(
    store: Store, problem: Problem
) -> None:
    names = ["latest", "first", "fir", problem.id, problem.id[:4]]
    assert {find_run(store, name) for name in names} == {"first"}
    with pytest.raises(StoreError, match="whose id or problem is or begins with 'nothing'"):
        find_run(store, "nothing")


def test_heldout_rows_show_what_the_program_gave(problem: Problem, store: Store) -> None:
    rows = run_heldout(problem, problem.seeds[0], Config.load(None))
    assert [(row.got, row.passed) for row in rows] == [("Noether, Emmy", False), ("Euclid", True)]
    text = written(misses_view(problem, rows) or "")
    assert "(1 of 2)" in text
    assert "'Noether, Emmy'" in text
    assert "'Euclid'" not in text
    assert misses_view(problem, [RowResult(("a",), "b", "b", True)]) is None


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\x07", "\r", "\u202e", "\x00"])
def test_control_characters_of_programs_and_outputs_do_not_reach_the_terminal(
    problem: Problem, character: str
) -> None:
    row = RowResult((f"in{character}[31m",), "[bold]out[/bold]", character, False)
    text = written(rows_table(problem, [row], 5))
    assert character not in text + printable(f"x{character}")
    assert "[bold]out[/bold]" in text
    assert character not in written(program_view(f"x = '{character}'\n"))


def test_of_many_rows_the_failed_ones_are_shown_and_the_rest_counted(problem: Problem) -> None:
    rows = [
        RowResult((f"in {number}",), "a", "a" if number != 7 else "b", number != 7) for number in range(1, 10)
    ]
    text = written(rows_table(problem, rows, 3))
    assert "in 7" in text
    assert "... and 6 more" in text


def test_an_output_that_is_none_is_told_from_a_missing_one(problem: Problem) -> None:
    text = written(
        rows_table(problem, [RowResult(("a",), None, None, True), RowResult(("b",), "x", None, False)], 5)
    )
    assert "None" in text
    assert "(no output)" in text


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import re\n\n\ndef solve(x):\n    return x [ 1: ]\n", "x [ 1: ]"),
        ("def solve(x):\n    y = x\n    return y\n", "def solve(x): ⏎ y = x ⏎ return y"),
        ("def solve(x)\n    return", "def solve(x) ⏎ return"),
    ],
)
def test_a_program_in_one_line_is_its_expression_if_it_has_no_more(source: str, line: str) -> None:
    assert one_line(source, "solve") == line


def ancestor(source: str, origin: str, *parents: str) -> Ancestor:
    made_from = tuple(Parent(parent, ParentRole.PARENT) for parent in parents)
    return Ancestor(Program(source, source), origin, made_from, 0.5, 1)


def test_of_a_longer_program_the_lineage_shows_the_lines_that_changed(problem: Problem) -> None:
    first = "def solve(name):\n    text = name\n    text = text.strip()\n    return text\n"
    second = first.replace("strip()", "strip(' ')").replace("return text", "return text.title()")
    text = written(lineage_table(problem, [ancestor(second, "mutate", first), ancestor(first, "seed")]))
    child, _, seed = text.partition("def solve(name): ⏎ text = name")
    for line in ("-    text = text.strip()", "+    text = text.strip(' ')", "+    return text.title()"):
        assert line in child
    assert "text = name" not in child
    assert "starting program" in seed


def test_many_changed_lines_are_cut_and_counted() -> None:
    after = "\n".join(f"x = {number}" for number in range(20))
    changes = changes_view("y = 1\n", after).plain.splitlines()
    assert changes[:3] == ["-y = 1", "+x = 0", "+x = 1"]
    assert changes[8:] == ["... and 13 changed lines more"]
    assert changes_view("y = 1\n", "y = 1").plain == ""


def test_eighty_columns_cut_neither_run_nor_problem() -> None:
    name = "a-suite-with-a-long-name/a-problem-with-an-even-longer-name-than-that-suite-has"
    row = RunRow("0123456789ab", name, RunStatus.INTERRUPTED, 500_000, 0.123, 7, "2026-03-04T05:06:07+00:00")
    text = written(runs_table([row]), width=80)
    assert "…" not in text
    assert "0123456789ab" in text
    assert "interrupted" in text
    assert "evaluations" in text


def test_the_runs_of_a_loop_are_one_row_of_the_list() -> None:
    row = RunRow("0123-r001-p000", "a", RunStatus.SOLVED, 5, 1.0, 1 << 58, "2026-03-04T05:06:07+00:00")
    other = row._replace(
        run="0123-r001-p001", status=RunStatus.EXHAUSTED, evaluations=9, best_mean_reward=0.5
    )
    alone = row._replace(run="4567", seed=3)
    lines = written(runs_table([row, other, alone]), width=80).splitlines()[2:]
    assert lines[0].split()[:9] == ["0123", "loop:", "2", "runs", "1", "solved", "14", "1.000", "03-04"]
    assert lines[1].split()[:2] == ["4567", "a"]


def test_of_a_run_with_a_score_the_list_shows_that() -> None:
    row = RunRow("id", "p", RunStatus.EXHAUSTED, 5, 0.999, 7, "2026-03-04T05:06:07+00:00", None, 1234.5)
    text = written(runs_table([row]))
    assert ("1234.5" in text, "0.999" in text) == (True, False)


def test_evaluations_after_the_solution_are_explained(problem: Problem) -> None:
    text = written(figures(outcome(solved=True), 50, problem, 7))
    assert "10 of 50, 3 of them after it was solved" in text
    assert "after it was solved" not in written(figures(outcome(solved=True), 50, problem, 10))
    assert "after it was solved" not in written(figures(outcome(), 50, problem, None))


def test_without_a_terminal_no_line_of_text_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    words = "word " * 60
    table = plain_table(folded())
    table.add_row(words)
    show_answer(Group(Text(words), table))
    first, *others = capsys.readouterr().out.splitlines()
    assert first.strip() == words.strip()
    assert max(map(len, others)) <= 120


@pytest.mark.parametrize(
    ("status", "changes", "words"),
    [
        (
            RunStatus.SOLVED,
            {"solved": True, "heldout_passed": 3},
            "after 7 evaluations, and right on all 3",
        ),
        (
            RunStatus.SOLVED,
            {"solved": True, "heldout_passed": 1},
            "memorised after 7 evaluations: right on all 4 training examples, wrong on 2 of 3 held-out",
        ),
        (
            RunStatus.SOLVED,
            {"solved": True, "heldout_total": 0},
            "solved after 7 evaluations, with no held-out examples",
        ),
        (RunStatus.EXHAUSTED, {}, "not solved, best program passes 2 of 4"),
        (RunStatus.INTERRUPTED, {}, "interrupted, best program passes 2 of 4"),
    ],
)
def test_the_headline_says_how_the_run_ended(
    problem: Problem, status: RunStatus, changes: dict[str, object], words: str
) -> None:
    """Its count goes up to the solution, not to the end of its group."""
    assert words in headline(problem, status, outcome(**changes), 7).plain


@pytest.mark.parametrize(
    ("changes", "train", "heldout"),
    [
        ({"solved": True, "heldout_passed": 3}, True, True),
        ({"solved": True, "heldout_passed": 2}, True, False),
        ({"heldout_passed": 3}, False, False),
        ({"solved": True, "heldout_total": 0}, True, None),
        ({"heldout_total": 0}, False, None),
    ],
)
def test_json_tells_the_rows_that_were_searched_on_from_those_held_out(
    changes: dict[str, object], train: bool, heldout: bool | None
) -> None:
    found = outcome_json(outcome(**changes))
    assert (found["solved"], found["solved_train"], found["solved_heldout"]) == (train, train, heldout)


def test_a_reward_just_below_one_is_not_written_as_one() -> None:
    texts = [reward_text(value) for value in (0.0, 0.25, 0.9999999, 1.0)]
    assert texts == ["0.000", "0.250", "0.999", "1.000"]


def test_the_curve_rises_where_the_best_program_improved() -> None:
    curve = [CurvePoint(0, 0, 0.0, 0), CurvePoint(1, 50, 0.5, 1), CurvePoint(2, 100, 1.0, 2)]
    lines = curve_lines(curve, width=16, height=4)
    # Ten columns of ten evaluations: nothing before 50, half height from column 5 on, full at the end.
    assert lines == [
        " 1.0 ┤         █",
        " 0.5 ┤         █",
        "     ┤    ██████",
        "     ┤    ██████",
        " 0.0 └──────────",
        "      0100 evaluations",
    ]
    assert curve_lines([CurvePoint(0, 0, 0.3, 0)]) == []
    assert curve_lines([]) == []


def test_solved_at_is_the_first_point_with_every_objective() -> None:
    curve = [CurvePoint(0, 0, 0.0, 0), CurvePoint(1, 8, 1.0, 2), CurvePoint(2, 9, 1.0, 2)]
    assert solved_at(curve, 2) == 8
    assert solved_at(curve, 3) is None


@pytest.mark.parametrize("objectives", [1, 5, 40])
def test_the_picture_is_a_png_of_readable_size(view: RunView, objectives: int, tmp_path: Path) -> None:
    from matplotlib.image import imread

    many = dataclasses.replace(view.problem, objectives=view.problem.objectives[:1] * objectives)
    path = tmp_path / "curve.png"
    write_curve_png(dataclasses.replace(view, problem=many), path)
    height, width, _ = imread(path).shape
    assert (width, height) == (880, 495)


def test_a_picture_that_cannot_be_written_names_the_file(view: RunView, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing/curve\.png"):
        write_curve_png(view, tmp_path / "missing" / "curve.png")


def test_a_run_that_judged_nothing_can_be_shown(view: RunView) -> None:
    summary = dataclasses.replace(view.summary, best_program_id=None, best_mean_reward=None, curve=())
    empty = dataclasses.replace(view, best=None, evaluation=None, heldout=(), summary=summary)
    assert "judged nothing yet" in written(run_report(empty, []))


def test_a_run_whose_candidates_hold_no_program_is_told_from_one_that_judged_some(view: RunView) -> None:
    assert nothing_judged(outcome(), view.summary) == ""
    assert "held a program" in nothing_judged(outcome(), dataclasses.replace(view.summary, by_status={}))
    assert nothing_judged(outcome(evaluations=0), dataclasses.replace(view.summary, by_status={})) == ""
