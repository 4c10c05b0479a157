"""`evovpo study FILE`: what is wrong with a file, rows that stay, figures by hand, a whole small study."""

import bz2
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell import Shell
from sqlite_files import sql

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import ConfigError, EvovpoError, PolicyError
from evovpo.experiments.intervals import unlocked
from evovpo.experiments.results import SOLVED, SOLVED_ROWS, by_k, solved_within
from evovpo.store import Store
from trainer.domains.maze import MAZE_MODEL
from trainer.experiments.study import Study
from trainer.experiments.study_export import Export, SearchKey
from trainer.experiments.study_file import read_bundled, read_study
from trainer.experiments.study_results import StudyResults
from trainer.experiments.study_run import check
from trainer.experiments.study_trainings import StudyTraining, best_point, finals, grid
from trainer.reports.study_report import report_json, report_markdown, write_report

FILE = """
name = "small"
primary = "problems solved, vpo minus grpo"
problems = ["strings/date-to-iso"]
evaluations = 36
seeds = 2
ks = [1, 3]
references = ["grpo"]
[training]
tokens = 300
prompts = 2
tasks = 4
[tuning]
learning_rates = [3e-4, 1e-3]
kls = [0]
tasks = 1
[[strategies]]
name = "islands"
answers_per_ask = 12
[[strategies]]
name = "iid"
answers_per_ask = 12
search.strategy = "iid"
[[arms]]
name = "start"
model = "start"
[[arms]]
name = "grpo"
objective = "grpo"
rollouts = 6
[[arms]]
name = "vpo, as grpo is"
objective = "vpo"
answers = 3
rollouts = 2
tuned_as = "grpo"
seeds = 1
strategies = ["iid"]
"""


def study_of(folder: Path, content: str = FILE) -> Study:
    path = folder / "study.toml"
    path.write_text(content)
    return read_study(path, runs=True)


def test_everything_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    content = (
        FILE.replace("strings/date-to-iso", "strings/no-such-problem")
        .replace('model = "start"', "")
        .replace('primary = "problems solved, vpo minus grpo"', "")
        .replace("rollouts = 6", "rollouts = 6\ntokens = 999")
        .replace('search.strategy = "iid"', "search.islandz = 3")
        .replace('tuned_as = "grpo"', 'tuned_as = "grop"')
        .replace('references = ["grpo"]', 'references = ["gpro"]')
        .replace("ks = [1, 3]", "ks = [1, 300]")
        .replace('objective = "vpo"', 'objective = "vpoo"')
        + "answer = 3\n"
    )
    with pytest.raises(ConfigError) as caught:
        study_of(tmp_path, content)
    said = str(caught.value)
    for expected in (
        "no-such-problem",
        "primary: expected the one figure that decides",
        "arm start: has no policy of its own",
        "grpo: 999",
        "islandz",
        "tuned_as: 'grop'",
        "gpro",
        "[300]",
        "'vpoo' is none",
        "unknown key 'answer'",
        'none has search.strategy = "iid"',
    ):
        assert expected in said, expected
    assert list(tmp_path.iterdir()) == [tmp_path / "study.toml"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "answers_per_ask = 12",
            "answers_per_ask = 10",
            "asks for 3 answers a completion, of which 10 answers",
        ),
        (
            "[tuning]",
            "[tuning]\ntemperatures = [0.5, 1]",
            "models that search problems are sampled at 1; leave",
        ),
        ("kls = [0]", "kls = [0]\ntemperatures = [0, 1]", "temperatures: expected different numbers above 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        study_of(tmp_path, FILE.replace('strategies = ["iid"]', "").replace(old, new, 1))


def test_a_missing_start_model_is_refused_unless_only_the_report_is_wanted(tmp_path: Path) -> None:
    content = FILE.replace('name = "small"', 'name = "small"\nstart = "nowhere"')
    with pytest.raises(ConfigError, match=r"nowhere: expected a model folder"):
        study_of(tmp_path, content)
    assert read_study(tmp_path / "study.toml", runs=False).name == "small"


def test_a_model_that_answers_the_tasks_of_a_domain_needs_its_tokens(tmp_path: Path) -> None:
    copy = shutil.copytree(MAZE_MODEL, tmp_path / "copy")
    study = read_bundled("maze", tmp_path, {"start": str(copy)})
    check(study, tmp_path / "work")
    given = next(arm for arm in study.arms if arm.model).model_copy(update={"model": str(BUILT_IN_MODEL)})
    with pytest.raises(ConfigError, match=re.escape(f"the model {BUILT_IN_MODEL} has others")):
        check(study.model_copy(update={"arms": (*study.arms, given)}), tmp_path / "work")
    for file in copy.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(PolicyError, match=r"the tokenizer in .*copy cannot be loaded"):
        check(study, tmp_path / "work")
    searching = f'name = "small"\nstart = {json.dumps(str(MAZE_MODEL))}'
    with pytest.raises(ConfigError, match="the domain strings needs the tokens of its own start model"):
        check(study_of(tmp_path, FILE.replace('name = "small"', searching)), tmp_path / "work")


def test_a_store_of_another_version_is_found_before_anything_is_spent(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    url = f"sqlite:///{work / 'study.db'}"
    Store.open(url, create=True).close()
    sql(work / "study.db", "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(EvovpoError, match="9999"):
        check(study, work)
    (tmp_path / "study.toml").write_text(FILE.replace("evaluations = 36", "evaluations = 36.5"))
    with pytest.raises(ConfigError, match=r"(?s)36\.5.*9999"):
        read_study(tmp_path / "study.toml", runs=True, work=work)
    assert not (tmp_path / "export").exists()


def search(arm: str, strategy: str, seed: int, problem: str, **values: Any) -> dict[str, Any]:
    """Return a row of a search, unsolved unless `values` say otherwise."""
    row = {"arm": arm, "strategy": strategy, "seed": seed, "problem": problem, "run": "r", "evaluations": 36}
    usual = {"solved_after": None, "is_right": False, "curve": [[0, 0.1]], "tokens": 10}
    return row | usual | {"seconds": 1.0, "cpu_seconds": 1.0} | values


def test_a_row_that_a_crash_cut_off_is_cut_away_and_rows_that_were_compressed_stay(tmp_path: Path) -> None:
    export = Export(tmp_path)
    export.add_searches([search("a", "iid", 0, "p")])
    export.add_searches([search("a", "iid", 1, "p")])
    path = tmp_path / "searches.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = Export(tmp_path)
    assert list(again.searches) == [SearchKey("a", "iid", 0, "p")]
    (tmp_path / "searches.jsonl.bz2").write_bytes(bz2.compress(path.read_bytes()))
    path.unlink()
    again.add_searches([search("a", "iid", 1, "p")])
    assert [key.seed for key in Export(tmp_path).searches] == [0, 1]


def test_rows_made_with_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    Export(tmp_path / "export").hold(study_of(tmp_path))
    path = tmp_path / "export" / "study.json"
    path.write_text(
        path.read_text().replace('"tuned_as"', '"while_searching": 0, "tuned_as"')
    )  # an old export
    Export(tmp_path / "export").hold(study_of(tmp_path, FILE + '[[arms]]\nname = "more"\nmodel = "start"\n'))
    with pytest.raises(ConfigError, match=r"arm grpo: trained was 'grpo-m1x6' and is 'grpo-m1x8'"):
        Export(tmp_path / "export").hold(study_of(tmp_path, FILE.replace("rollouts = 6", "rollouts = 8")))
    with pytest.raises(ConfigError, match=r"training: tokens was 300 and is 400"):
        Export(tmp_path / "export").hold(study_of(tmp_path, FILE.replace("tokens = 300", "tokens = 400")))


def test_an_arm_trains_with_the_best_point_of_the_grid_or_with_another_arms(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    export = Export(tmp_path / "export")
    export.hold(study)
    assert best_point(study, study.arm("grpo"), export) is None
    for point, score in zip(grid(study, study.arm("grpo")), (0.2, 0.3), strict=True):
        export.add_training({"training": point.name, "score": score})
    assert [one.name for one in finals(study, study.arm("grpo"), export)] == [
        "grpo-m1x6-lr0.001-kl0-seed0",
        "grpo-m1x6-lr0.001-kl0-seed1",
    ]
    other = finals(study, study.arm("vpo, as grpo is"), export)[0].arm
    assert (other.objective, other.learning_rate) == ("vpo", 1e-3)


def test_an_arm_with_a_kl_of_its_own_is_tuned_with_that_alone(tmp_path: Path) -> None:
    text = FILE + '[[arms]]\nname = "untuned"\nobjective = "grpo"\nrollouts = 6\nkl = 0.001\n'
    study = study_of(tmp_path, text)
    points = [(point.arm.learning_rate, point.arm.kl) for point in grid(study, study.arm("untuned"))]
    assert points == [(rate, 0.001) for rate in study.tuning.learning_rates]
    resolved = study.resolved()
    assert (resolved["arm untuned"]["kl"], "kl" in resolved["arm grpo"]) == (0.001, False)
    with pytest.raises(ConfigError, match="arm untuned: names both tuned_as and kl; leave one out"):
        study_of(tmp_path, text + 'tuned_as = "grpo"\n')


def test_only_different_recipes_have_different_names(tmp_path: Path) -> None:
    study = study_of(
        tmp_path,
        FILE + '[[arms]]\nname = "x"\nobjective = "grpo"\nrollouts = 6\nsearch_answers = 3\n'
        '[[arms]]\nname = "y"\nobjective = "vpo-at-k"\nanswers = 3\nsettings = {k = 6}\nsingle_share = 0.5\n'
        '[[arms]]\nname = "z"\nobjective = "multi-rlvr"\nanswers = 3\n',
    )
    arms = {name: study.arm(name).arm for name in ("grpo", "x", "y", "z")}
    names = {name: StudyTraining(arm, 0).name for name, arm in arms.items() if arm is not None}
    assert names["x"] == names["grpo"]
    assert names["y"] == "vpo-at-k-m3x8-k6-single-share0.5-lr0.0003-kl0-seed0"
    assert names["z"] == "multi-rlvr-m3x8-lr0.0003-kl0-seed0"


def small_export(tmp_path: Path, problems: int = 8) -> tuple[Study, Export]:
    """Return a study where `start` solves every problem but the first and grpo only the first two."""
    study = study_of(tmp_path)
    export = Export(tmp_path / "export")
    export.hold(study)
    for seed, number in itertools.product(range(2), range(problems)):
        for arm, solves, best in (("start", number > 0, 0.35), ("grpo", number < 2, 0.25)):
            # Islands of grpo have a program that memorised: right on training rows alone.
            found = {"solved_after": 12 + number, "is_right": solves}
            at_k = {"best_at_k": {"1": best, "3": 0.5}, "pass_at_k": {"1": 0.0, "3": 0.0}}
            samples = at_k | {"distinct_share": 0.5, "diversity": 1.0} | (found if solves else {})
            export.add_searches([
                search(arm, "islands", seed, f"p{number}", **found),
                search(arm, "iid", seed, f"p{number}", **samples),
            ])  # fmt: skip
    return study, export


def test_figures_of_a_small_export_are_those_counted_by_hand(tmp_path: Path) -> None:
    study, export = small_export(tmp_path)
    results = StudyResults(study, export)
    start, grpo = (results.searched(arm)["islands"] for arm in ("start", "grpo"))
    assert (start.values(SOLVED).sum(), grpo.values(SOLVED).sum()) == (2 * 7, 2 * 2)
    assert (start.values(SOLVED_ROWS).sum(), grpo.values(SOLVED_ROWS).sum()) == (2 * 8, 2 * 8)
    assert results.searched("grpo")["iid"].values(SOLVED_ROWS).sum() == 2 * 2
    # Problem i is solved after 12 + i evaluations: of start, problems 1 to 4 within 16.
    assert [one.mean for one in start.curve([solved_within(n) for n in (12, 16, 36)])] == [0, 4, 7]
    samples = results.samples("start")
    assert samples is not None
    assert samples.values(by_k("best_at_k", 1)).mean() == pytest.approx(0.35)
    found = next(one for one in results.comparisons if one.arm == "start")
    assert found.pairs["islands"] == (start, grpo)
    assert start.minus(grpo, SOLVED).interval.mean == 5.0
    assert start.unlocks(grpo).problems == ("p2", "p3", "p4", "p5", "p6", "p7")
    assert grpo.unlocks(start).problems == ("p0",)
    assert found.at_k["best_at_k"][1].interval.mean == pytest.approx(0.1)
    assert found.at_k["best_at_k"][3].interval.mean == 0
    assert results.missing["vpo, as grpo is"] == 8


def test_break_even_counts_tuning_one_training_and_searches_until_they_solved(tmp_path: Path) -> None:
    study, export = small_export(tmp_path)
    assert StudyResults(study, export).break_even() == []  # nothing is known of what grpo was trained for
    costs = {"cpu_seconds": 7.0, "tokens": 70, "score": 0.1, "diverged": ""}
    for one in grid(study, study.arm("grpo")):
        export.add_training({"training": one.name, **costs})
    for one in finals(study, study.arm("grpo"), export):
        export.add_training({"training": one.name, **costs})
    results = StudyResults(study, export)
    spent = results.costs()["islands", "tokens"]
    assert (spent["start"].training, spent["grpo"].training) == (0, 3 * 70)
    row = search("start", "islands", 0, "p1")
    assert spent["start"].cost_S_T[0, 1] == pytest.approx(row["tokens"] * 13 / row["evaluations"])
    found = {(one.strategy, one.unit): one for one in results.break_even()}
    assert list(found) == [(name, unit) for name in ("islands", "iid") for unit in ("cpu_seconds", "tokens")]
    assert found["islands", "tokens"].problems is None  # start solves more for the same
    assert report_json(results)["break_even"][0]["reference"] == "start"
    said = report_markdown(results)
    assert "| islands | grpo | start | never [never, never] | never [never, never] |" in said


def test_the_verdict_names_a_winner_only_where_the_interval_excludes_zero(tmp_path: Path) -> None:
    study, export = small_export(tmp_path)
    said = "\n".join(StudyResults(study, export).verdict())
    assert "start against grpo: best@k ahead at k = 1, with no clear difference at k = 3; " in said
    assert "pass@k with no clear difference at k = 1, 3; " in said
    assert "unlocks 6 that grpo never solves and lacks 1 that it solves (2 seeds each)" in said
    assert "vpo, as grpo is: 8 searches are not done; only whole seeds count." in said
    # Of three problems both solve two.
    (tmp_path / "few").mkdir()
    few, rows = small_export(tmp_path / "few", 3)
    line = next(one for one in StudyResults(few, rows).verdict() if one.startswith("start against grpo"))
    assert "solved by islands +0.0 of 3" in line
    assert "ahead" not in line.split("pass@k")[1]


def test_unlocked_counts_as_many_seeds_of_both(tmp_path: Path) -> None:
    ours = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])
    theirs = np.array([[0.0, 0, 0, 1], [0, 0, 0, 0]])
    found = unlocked(ours, theirs, ("a", "b", "c", "d"))
    assert (found.problems, found.seeds) == (("a", "b"), 2)
    assert found.interval.low <= 2 <= found.interval.high


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "export" / "searches.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: (row["arm"], row["strategy"], row["seed"], row["problem"]))
    spent = ("seconds", "cpu_seconds")
    return [{name: value for name, value in row.items() if name not in spent} for row in rows]


@pytest.mark.slow
def test_a_study_runs_goes_on_and_reports_again_without_anything_but_its_rows(
    evovpo: Shell, tmp_path: Path
) -> None:
    study_of(tmp_path)
    first = evovpo("study", "study.toml", "--processes", "1", "--json")
    assert first.code == 0, first.err
    found = first.json
    assert {name: arm["seeds"] for name, arm in found["arms"].items()} == {
        "start": 2, "grpo": 2, "vpo, as grpo is": 0
    }  # fmt: skip
    assert found["arms"]["vpo, as grpo is"]["by_strategy"].keys() == {"iid"}
    rows = rows_of(tmp_path)
    assert len(rows) == 2 * 2 * 2 + 1
    check_against_the_store(tmp_path, rows)

    # A row less and no model: the row and its model are made again, to the same values, and nothing else is.
    path = tmp_path / "export" / "searches.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    dropped = next(line for line in lines if '"arm":"grpo"' in line and '"seed":1' in line)
    path.write_text("".join(line for line in lines if line != dropped))
    trainings = (tmp_path / "export" / "trainings.jsonl").read_text()
    shutil.rmtree(tmp_path / "work")
    again = evovpo("study", "study.toml", "--processes", "1", "--json")
    assert again.code == 0, again.err
    assert rows_of(tmp_path) == rows
    assert (tmp_path / "export" / "trainings.jsonl").read_text() == trainings
    assert len(list((tmp_path / "work" / "models").iterdir())) == 1

    shutil.rmtree(tmp_path / "work")
    report = evovpo("study", "study.toml", "--report-only", "--json")
    assert report.code == 0, report.err
    told = report.json
    told_again = again.json
    assert told["arms"] == told_again["arms"]
    assert told["verdict"] == told_again["verdict"]
    for arm in told["arms"].values():
        assert set(arm["expected_best_at_k"]) == set(arm["pair_at_k"]) == set(arm["best_at_k"])
    assert not (tmp_path / "work").exists()


def check_against_the_store(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Compare rows of independent samples with a slow count over what the store holds."""
    with Store.open(f"sqlite:///{folder / 'work' / 'study.db'}") as store:
        for row in rows:
            if row["strategy"] != "iid":
                continue
            answers = store.query(
                "SELECT position, slot, (SELECT avg(value) FROM rewards "
                "WHERE rewards.evaluation_id = candidates.evaluation_id) AS mean FROM candidates "
                "WHERE run_id = :run AND rollout_id IS NOT NULL ORDER BY position, slot",
                run=row["run"],
            )
            assert len(answers) == row["evaluations"] == 36
            values = [float(one["mean"] or 0) for one in answers]
            # The first answers of all chains are the k = 1 of the chains' protocol.
            firsts = [value for value, one in zip(values, answers, strict=True) if one["slot"] == 0]
            assert row["best_at_k"]["1"] == pytest.approx(np.mean(firsts), abs=1e-5)
            if row["arm"].startswith("vpo"):
                chains = [max(values[place : place + 3]) for place in range(0, 36, 3)]
                assert row["best_at_k"]["3"] == pytest.approx(np.mean(chains), abs=1e-5)


@pytest.mark.slow
def test_a_file_says_what_options_of_domains_say(evovpo: Shell, tmp_path: Path) -> None:
    study_of(tmp_path)
    refused = evovpo("study", "study.toml", "--set", "training.tokens=5")
    assert refused.code == 2
    assert "--set: the file says this itself" in refused.err
    unknown = evovpo("study", "string")
    assert unknown.code == 2
    assert re.search(r"neither a study file .* nor a domain", unknown.err)
    empty = evovpo("study", "study.toml", "--report-only")
    assert empty.code == 2
    assert "no search of this study yet" in empty.err


@pytest.mark.slow
def test_the_published_report_is_that_of_its_rows(tmp_path: Path) -> None:
    published = Path(__file__).resolve().parents[2] / "docs" / "results" / "study-strings-hard"
    for name in ("study.toml", "export"):
        (tmp_path / name).symlink_to(published / name)
    study = read_study(tmp_path / "study.toml", runs=False)
    results = StudyResults(study, Export(tmp_path / "export"))
    assert not any("searches are not done" in sentence for sentence in results.verdict())
    _, files = write_report(results)
    written = {file.name for file in files} - {"results.json"}
    assert written == {file.name for file in published.iterdir() if file.is_file()} - {"study.toml"}
    for name in written:
        assert (tmp_path / name).read_bytes() == (published / name).read_bytes(), name
