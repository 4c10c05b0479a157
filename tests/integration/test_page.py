"""The page over a store: its read API, who may ask it, and a run as one file."""

import base64
import contextlib
import gzip
import hashlib
import html
import json
import re
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs the extra ui")

from attack_runs import ATTACKS, LONG, PROBLEM, RUN_ID, write_attacks
from postgres import postgres_server
from running import LONG as PATIENCE
from running import Served, serving
from sqlalchemy import create_engine, text
from starlette.testclient import TestClient
from store_conformance import PROBLEM as PHONES
from store_conformance import (
    RUN,
    TRAINING,
    append,
    judge,
    make_prompt,
    make_step,
    make_tell,
    scripted_history,
    write_run,
)

import evovpo
from evovpo.cli import page as commands
from evovpo.config import Config, ModelConfig, ProposerConfig, RunConfig, SearchConfig
from evovpo.errors import ConfigError
from evovpo.page import figures, read_api
from evovpo.page.batch_report import batch_report
from evovpo.page.export import ASSETS, export_html
from evovpo.page.page_server import application
from evovpo.page.page_store import Source
from evovpo.page.read_api import Record
from evovpo.page.reports import LiveReport, report, table
from evovpo.reports.pictures import COLOURS
from evovpo.runs.stored import stored_run
from evovpo.store import Store, rises
from evovpo.types import EvaluatorFolder, EvaluatorMode, PolicyVersion, RunStatus, Tell

HISTORY = scripted_history("run-a", 3, 60)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    with Store.open(str(folder / "runs.db")) as store:
        write_run(store)
    with Store.open(str(folder / "attacked.db")) as store:
        write_attacks(store)
    return folder


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written / "runs.db", tmp_path))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as address:
        with Store.open(address.format("postgres")) as store:
            write_run(store)
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("path"))
    address = request.getfixturevalue("postgres")
    server = create_engine(address.format("template1"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{tmp_path.name}" TEMPLATE postgres'))
    server.dispose()
    return str(address.format(tmp_path.name))


@pytest.fixture
def client(path: Path) -> Iterator[TestClient]:
    with asking(str(path)) as found:
        yield found


@pytest.fixture
def any_client(url: str) -> Iterator[TestClient]:
    with asking(url) as found:
        yield found


@contextlib.contextmanager
def asking(url: str) -> Iterator[TestClient]:
    with contextlib.closing(Source(url)) as source:
        yield TestClient(application(source), base_url="http://localhost")


def get(client: TestClient, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_run_has_the_figures_that_a_summary_of_all_its_rows_has(any_client: TestClient, url: str) -> None:
    run = get(any_client, "/api/runs/run-a")
    with Store.open(url) as store:
        summary = store.run_summary("run-a")
    assert (run["evaluations"], run["tokens"]) == (summary.proposed, summary.tokens)
    assert run["best_mean_reward"] == summary.best_mean_reward
    assert run["best_program_id"] == summary.best_program_id
    assert {one["name"]: one["count"] for one in run["by_status"]} == summary.by_status
    assert {one["name"]: one["count"] for one in run["by_parse_status"]} == summary.by_parse_status
    # All 60 points are shown, so the curves rise at the same places.
    points = list(zip(run["curve"]["evaluations"], run["curve"]["best"], strict=True))
    assert [next(same) for _, same in groupby(points, key=itemgetter(1))] == rises(summary.curve)
    assert points[-1] == summary.curve[-1][1:3]
    assert get(any_client, "/api/runs")["runs"][0] == {
        key: run[key] for key in get(any_client, "/api/runs")["runs"][0]
    }


def test_a_component_rises_when_a_program_first_has_more(any_client: TestClient, url: str) -> None:
    stored = evovpo.read_run("run-a", url)
    components = get(any_client, "/api/runs/run-a")["components"]
    for index, name in enumerate(("row-0", "row-1", "row-2")):
        best = 0.0
        rises = []
        for program in stored.programs:
            if program.rewards and program.rewards[name] > best:
                best = program.rewards[name]
                rises.append((best, program.id))
        assert [(rise["value"], rise["program_id"]) for rise in components[index]["rises"]] == rises


def test_programs_come_in_pages_that_together_are_all(any_client: TestClient, url: str) -> None:
    stored = {program.id: program for program in evovpo.read_run("run-a", url).programs if program.rewards}
    found: list[dict[str, Any]] = []
    while not found or len(found) < get(any_client, "/api/runs/run-a/programs")["total"]:
        page = get(any_client, f"/api/runs/run-a/programs?offset={len(found)}&limit=7&sort=mean_reward")
        found += page["programs"]
    assert {one["program_id"] for one in found} == set(stored)
    means = [one["mean_reward"] for one in found]
    assert means == sorted(means, reverse=True)
    for one in found:
        assert one["rewards"] == list(stored[one["program_id"]].rewards.values())
        assert stored[one["program_id"]].source.startswith(one["begins"])


@pytest.mark.parametrize("sort", ["order", "best", "mean_reward", "passed", "length", "seconds"])
def test_a_minus_turns_the_order_of_programs_round(any_client: TestClient, sort: str) -> None:
    key = {"order": "position", "best": "mean_reward"}.get(sort, sort)
    there, back = (
        [
            one[key]
            for one in get(any_client, f"/api/runs/run-a/programs?sort={sign}{sort}&limit=1000")["programs"]
        ]
        for sign in ("", "-")
    )
    assert there == back[::-1]
    assert there == sorted(there) or there == sorted(there, reverse=True)


def test_a_program_comes_with_what_made_it(any_client: TestClient) -> None:
    program = get(any_client, "/api/runs/run-a/programs?sort=-order&limit=1")["programs"][0]
    shown = get(any_client, f"/api/programs/{program['program_id']}?run=run-a")
    assert shown["source"]["text"].startswith("return ")
    assert shown["parents"][0]["source"]["text"] == PHONES.seeds[0].source
    assert [part["reward"] for part in shown["evaluation"]["components"]] == program["rewards"]
    assert shown["prompt"][0] == {"role": "system", "text": "Write programs.", "characters": 15}
    assert shown["completion"]["logprobs"] in ([-0.5, -1.25, 0.0], [])
    assert get(any_client, f"/api/programs/{program['program_id']}") == shown


def test_programs_are_filtered_by_what_the_list_says_of_them(any_client: TestClient) -> None:
    path_ = "/api/runs/run-a/programs?limit=1000&sort=mean_reward"
    everything = get(any_client, path_)["programs"]
    for name in ("status", "island", "policy_version"):
        values = {one[name] for one in everything} - {None}
        assert len(values) > 1
        for value in values:
            found = get(any_client, f"{path_}&{name}={value}")
            assert found["programs"] == [one for one in everything if one[name] == value]
            assert found["total"] == len(found["programs"])
    first = everything[-1]
    both = f"{path_}&status={first['status']}&island={first['island']}"
    assert first in get(any_client, both)["programs"]
    assert get(any_client, f"{path_}&island=99")["total"] == 0


def test_answers_are_listed_with_what_became_of_them(any_client: TestClient) -> None:
    path_ = "/api/runs/run-a/answers"
    expected = [
        (one.candidate.parse_status, one.candidate.text, one.candidate.program and one.candidate.program.id)
        for tell in HISTORY
        if isinstance(tell, Tell)
        for one in tell.judged
    ]
    found: list[dict[str, Any]] = []
    more = True
    while more:
        page = get(any_client, f"{path_}?offset={len(found)}&limit=17")
        more = page["more"]
        found += page["answers"]
    assert [(one["parse_status"], one["text"]["text"], one["program_id"]) for one in found] == expected
    counts = get(any_client, "/api/runs/run-a")["by_parse_status"]
    assert len(counts) > 2
    for one in counts:
        picked = get(any_client, f"{path_}?limit=1000&parse_status={one['name']}")["answers"]
        assert picked == [answer for answer in found if answer["parse_status"] == one["name"]]
        assert len(picked) == one["count"]


def test_a_program_knows_what_was_made_from_it(any_client: TestClient) -> None:
    made = defaultdict[str, dict[str, None]](dict)
    for tell in HISTORY:
        for judged in tell.judged if isinstance(tell, Tell) else ():
            for parent in judged.candidate.parents:
                if judged.candidate.program and parent.program_id != judged.candidate.program.id:
                    made[parent.program_id][judged.candidate.program.id] = None
    listed = get(any_client, "/api/runs/run-a/programs?limit=1000")["programs"]
    for one in listed[:5]:
        shown = get(any_client, f"/api/programs/{one['program_id']}?run=run-a")
        assert shown["children"] == list(made[one["program_id"]])[:20]
        assert shown["evaluations"] == one["evaluations"]
    assert any(made[one["program_id"]] for one in listed[:5])


def test_settings_come_with_their_defaults(client: TestClient, path: Path) -> None:
    models = (ModelConfig(name="small", weight=2.0), ModelConfig(name="large"))
    with Store.open(str(path)) as store:
        changed = Config().changed(search={"islands": 2, "target": "0.5"}, models=models)
        store.add_run(replace(RUN, id="set", config_json=changed.to_json()))
    settings = get(client, "/api/runs/set")["settings"]
    assert {
        (one["section"], one["name"]): (one["value"], one["default"])
        for one in settings
        if one["value"] != one["default"]
    } == {
        ("search", "islands"): ("2", "4"),
        ("search", "target"): ("0.5", "null"),
        ("models 1", "name"): ('"small"', '""'),
        ("models 1", "weight"): ("2.0", "1.0"),
        ("models 2", "name"): ('"large"', '""'),
    }
    assert len(settings) == sum(len(part) for part in Config().model_dump().values()) + 2 * len(
        dict(models[0])
    )
    # Of a configuration that this version does not know.
    unknown = {"section": "", "name": "islands", "value": "4", "default": "null"}
    assert get(client, "/api/runs/run-a")["settings"] == [unknown]


def test_a_health_check_asks_whether_the_store_can_be_read(
    any_client: TestClient, url: str, tmp_path: Path
) -> None:
    with Store.open(url) as store:
        assert get(any_client, "/healthz") == {"schema": store.schema_version()}
    with TestClient(
        application(Source(f"sqlite:///{tmp_path}/gone.db")), base_url="http://localhost"
    ) as gone:
        assert "no such store" in get(gone, "/healthz", 503)["error"]


def test_policies_come_with_their_trainings(any_client: TestClient, url: str) -> None:
    with Store.open(url) as store:
        store.add_policy_version(
            PolicyVersion(0, None, "built-in", metrics=(("best@4", 0.5), ("odd", float("nan"))))
        )
        store.serve(0)
        store.add_training(TRAINING)
        for step in range(3):
            store.add_training_step(make_step(step))
    found = get(any_client, "/api/policies")
    assert found["served"] == 0
    assert found["versions"][0]["metrics"] == [
        {"name": "best@4", "value": 0.5},
        {"name": "odd", "value": None},
    ]
    assert [step["step"] for step in found["trainings"][0]["steps"]] == [0, 1, 2]
    assert found["events"][0]["kind"] == "served"


def test_what_was_told_since_is_in_the_next_answer(any_client: TestClient, url: str) -> None:
    before = get(any_client, "/api/runs/run-a")
    listed = "/api/runs/run-a/programs?limit=1000&sort=length"
    few = get(any_client, listed)["programs"]
    with Store.open(url) as store:
        append(store, "run-a", scripted_history("run-a", 3, 80)[len(HISTORY) :], tells_before=60)
        store.set_run_status("run-a", RunStatus.EXHAUSTED)
    after = get(any_client, "/api/runs/run-a")
    assert (before["status"], after["status"]) == ("running", "exhausted")
    assert (before["read"], after["read"]) == ([60, 60], [80, 80])
    assert after["evaluations"] > before["evaluations"]
    more = get(any_client, listed)["programs"]
    assert {one["program_id"] for one in few} < {one["program_id"] for one in more}
    assert [one["length"] for one in more] == sorted(one["length"] for one in more)


def test_a_report_is_shown_and_made_again_when_it_has_rested(path: Path) -> None:
    made, broken = list[int](), list[str]()

    def make() -> Record:
        made.append(1)
        if broken:
            raise ConfigError(broken[0])
        return report("mine", (len(made), 9), ["It goes on."], [table("Arms", ["arm"], [["**one**"]])])

    live = LiveReport(make)
    with contextlib.closing(Source(str(path))) as source:
        client = TestClient(application(source, report=live), base_url="http://localhost")
        assert get(client, "/api/report")["report"]["ended"] == [1, 9]
        live.rests_until = float("inf")
        assert get(client, "/api/report")["report"]["ended"] == [1, 9]
        live.rests_until = 0.0
        broken.append("no such file")
        assert get(client, "/api/report", 503)["error"] == "the report cannot be made now: no such file"
        broken.clear()
        assert get(client, "/api/report")["report"]["ended"] == [3, 9]
        assert get(client, "/api/page") == {"report": True}
    with asking(str(path)) as without:
        assert get(without, "/api/report") == {"report": None}
        assert get(without, "/api/page") == {"report": False}


def test_a_long_run_is_read_over_several_looks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "_PAGE_TELLS", 25)
    with contextlib.ExitStack() as opened:
        slow, whole, late = (
            opened.enter_context(contextlib.closing(Source(url, update_seconds=seconds)))
            for seconds in (0.0, float("inf"), -1.0)
        )
        run = slow.store().run("run-a")
        assert [slow.figures(run).position for _ in range(3)] == [24, 49, 59]
        assert slow.figures(run).points == whole.figures(run).points
        assert slow.figures(run).reached == whole.figures(run).reached
        assert read_api.runs_record(late)["runs"][0]["read"] == [0, 1]


def test_a_curve_can_be_read_while_it_grows(path: Path) -> None:
    with contextlib.closing(Source(str(path))) as source:
        run = source.store().run("run-a")
        growing = figures.RunFigures(run.id, source.problem(run))

        class Watched(list[figures.Point]):
            def append(self, point: figures.Point) -> None:
                assert read_api.thinned(self, growing.rises) == self
                super().append(point)
                assert read_api.thinned(self, growing.rises) == self

        growing.points = Watched()
        growing.update(source.store(), float("inf"))
        assert len(growing.points) == 60


def test_runs_come_newest_first_in_pages_and_by_filter(any_client: TestClient, url: str) -> None:
    with Store.open(url) as store:
        for number in range(5):
            store.add_run(replace(RUN, id=f"more-{number}"))
        store.set_run_status("more-2", RunStatus.SOLVED, (3, 3))
        store.set_run_status("more-3", RunStatus.SOLVED, (2, 3))
        store.set_run_status("more-4", RunStatus.EXHAUSTED, (2, 3))
    ids = [f"more-{number}" for number in (4, 3, 2, 1, 0)]
    first, second = get(any_client, "/api/runs?limit=4"), get(any_client, "/api/runs?offset=4&limit=4")
    assert [run["id"] for run in (*first["runs"], *second["runs"])] == [*ids, "run-a"]
    assert (first["more"], second["more"]) == (True, False)
    for status, number in (("solved", 2), ("memorised", 3), ("exhausted", 4)):
        (run,) = get(any_client, f"/api/runs?status={status}")["runs"]
        assert (run["id"], run["status"]) == (f"more-{number}", status)
    assert len(get(any_client, "/api/runs?problem=HON")["runs"]) == 6
    assert get(any_client, "/api/runs?problem=%25")["runs"] == []


def test_runs_of_one_loop_and_runs_that_differ_by_their_seed_alone_are_one_group(
    client: TestClient, path: Path
) -> None:
    settings = {
        "first": Config(),
        "again": Config(run=RunConfig(seed=5)),
        "other": Config(search=SearchConfig(islands=2)),
        "ab12-r000-p001": Config(),
        "ab12-r001-p000": Config(search=SearchConfig(islands=2)),
        "server": Config(proposer=ProposerConfig(name="openai", model="large", base_url="http://x/v1")),
    }
    with Store.open(str(path)) as store:
        for number, (name, config) in enumerate(settings.items()):
            store.add_run(replace(RUN, id=name, seed=number, config_json=config.to_json()))
    found = {run["id"]: run for run in get(client, "/api/runs")["runs"]}
    assert found["first"]["group"] == found["again"]["group"] != found["other"]["group"]
    assert found["ab12-r000-p001"]["group"] == found["ab12-r001-p000"]["group"] == "loop ab12"
    assert (found["server"]["models"], found["first"]["models"]) == (["large"], [])


# By hand: of rewards (1.0, 0.5, 0.0), where the highest score has neither the highest mean nor comes last.
SCORED = [
    (0.25, (0.5, 0.5, 0.5)),
    (-3.0, (0.9, 0.9, 0.9)),
    (7.5, (0.1, 0.1, 0.1)),
    (7.5, (0.2, 0.2, 0.2)),
    (None, (0.0,) * 3),
]


@pytest.mark.parametrize("left_out", [(), None], ids=["by-one-score", "by-rewards"])
def test_programs_are_ranked_by_their_score_where_there_is_one(
    url: str, left_out: tuple[str, ...] | None
) -> None:
    folder = EvaluatorFolder("evaluator.py", EvaluatorMode.PROXY, (), left_out=left_out)
    problem = replace(PHONES, id="scored", version="v2", train=(), heldout=(), evaluator=folder)
    with Store.open(url) as store:
        store.add_problem(problem)
        store.add_run(replace(RUN, id="scored", problem_id="scored", problem_version="v2"))
        for number, (score, rewards) in enumerate(SCORED):
            prompt = replace(make_prompt(number, run="scored"), rollouts=1, answers=1, island=0)
            store.add_prompt(prompt)
            judged = replace(judge(f"return {number}", rewards), problem_version="v2")
            metrics = (("combined_score", score),) if score is not None else (("error", "it fell over"),)
            tell = make_tell(prompt, 0, [(f"return {number}", replace(judged, metrics=metrics))])
            store.add_tell("scored", tell, number)
        outcome = stored_run(store, "scored").outcome(0.0)
    with asking(url) as client:
        run = get(client, "/api/runs/scored")
        by_score = get(client, "/api/runs/scored/programs?sort=best")["programs"]
        by_mean = get(client, "/api/runs/scored/programs?sort=mean_reward")["programs"]
        lineage = get(client, "/api/runs/scored/lineage")["programs"]
    assert (run["best_score"], run["best_program_id"]) == (outcome.score, outcome.program_id)
    assert (run["best_mean_reward"], run["passed"]) == (outcome.best_mean_reward, outcome.train_passed)
    assert run["curve"]["score"] == [0.25, 0.25, 7.5, 7.5, 7.5]
    assert [one["score"] for one in by_score] == [7.5, 7.5, 0.25, -3.0, None]
    assert by_score[0]["mean_reward"] == pytest.approx(0.2)
    assert [one["score"] for one in by_mean] == [-3.0, 0.25, 7.5, 7.5, None]
    assert (lineage[0]["program_id"], lineage[0]["score"]) == (outcome.program_id, 7.5)
    assert run["islands"][0]["best"] == (7.5 if left_out is not None else pytest.approx(0.9))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("runs?limit=1001", "limit is '1001'; expected a whole number from 1 to 1000"),
        ("runs?offset=-1", "offset is '-1'; expected a whole number from 0"),
        ("runs?offset=٣", "expected a whole number"),
        ("runs?status=happy", "status is 'happy'; expected one of running"),
        ("runs?order=x", "unknown parameter 'order'; expected offset, limit, problem, status"),
        ("runs/run-a/programs?sort=source", "sort is 'source'; expected one of order, best"),
        ("runs/run-a/programs?status=bad", "status is 'bad'; expected one of ok, error, timeout"),
        ("runs/run-a/programs?island=one", "island is 'one'; expected a whole number from 0"),
        ("runs/run-a/programs?policy_version=-1", "policy_version is '-1'; expected a whole number from 0"),
        ("runs/run-a/answers?parse_status=read", "parse_status is 'read'; expected one of parsed, unparsed"),
        ("runs/run-a/answers?limit=0", "limit is '0'; expected a whole number from 1 to 1000"),
    ],
)
def test_a_wrong_parameter_is_named(client: TestClient, query: str, message: str) -> None:
    assert message in get(client, f"/api/{query}", 400)["error"]


NOWHERE = ("runs/none", "runs/none/programs", "runs/run-a/lineage?program=nope")


@pytest.mark.parametrize("path_", [*NOWHERE, "programs/none", "programs/none?run=run-a", "x"])
def test_what_is_not_there_is_not_found(client: TestClient, path_: str) -> None:
    assert get(client, f"/api/{path_}", 404)["error"]


@pytest.mark.parametrize(
    "path_", ["/../pyproject.toml", "/assets/page.js", "/page.py", "/..%2f..%2fetc/passwd"]
)
def test_no_file_is_served_by_its_path(client: TestClient, path_: str) -> None:
    assert client.get(path_).status_code == 404


def test_without_a_token_only_this_machine_by_its_name_is_answered(client: TestClient) -> None:
    for host, status in (("127.0.0.1:8090", 200), ("[::1]:80", 200), ("evil.example", 403), ("", 403)):
        assert client.get("/api/runs", headers={"host": host}).status_code == status


def test_a_token_is_asked_for_and_kept_in_a_cookie(path: Path) -> None:
    app = application(Source(str(path)), "secret-token")
    client = TestClient(app, base_url="http://machine.example")
    assert client.get("/").status_code == client.get("/api/runs?token=wrong").status_code == 401
    assert client.get("/api/runs", headers={"authorization": "Bearer secret-token"}).status_code == 200
    answer = client.get("/?token=secret-token", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert client.get("/api/runs").status_code == 200


def test_nothing_can_be_changed(client: TestClient) -> None:
    for path in ("/api/policies", "/api/runs/run-a"):
        assert client.post(path).status_code == 405


def test_every_answer_tells_browsers_to_run_nothing_else(client: TestClient) -> None:
    for path_ in ("/", "/api/runs", "/nothing"):
        policy = client.get(path_).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy


@pytest.fixture
def attacked(written: Path) -> Iterator[Source]:
    source = Source(str(written / "attacked.db"))
    yield source
    source.close()


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys(inner)}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()


def test_text_of_a_store_is_never_a_key_and_long_text_is_cut(attacked: Source) -> None:
    client = TestClient(application(attacked), base_url="http://localhost")
    best = get(client, f"/api/runs/{RUN_ID}")["best_program_id"]
    child = get(client, f"/api/runs/{RUN_ID}/programs?sort=-order")["programs"][0]["program_id"]
    paths = ["runs", f"runs/{RUN_ID}", f"runs/{RUN_ID}/programs", f"runs/{RUN_ID}/lineage", "policies"]
    for path in (*paths, f"programs/{best}", f"programs/{child}"):
        answer = client.get(f"/api/{path}")
        assert answer.headers["content-type"] == "application/json"
        assert len(answer.content) < 1_000_000
        assert all(re.fullmatch("[a-z_]+", key) for key in keys(answer.json()))
    shown = get(client, f"/api/programs/{child}")
    assert shown["source"]["characters"] > len(LONG)
    assert [one["name"] for one in shown["evaluation"]["metrics"]] == list(ATTACKS)


def test_an_exported_run_holds_its_text_only_packed(attacked: Source) -> None:
    page = export_html(attacked, RUN_ID)[0]
    for attack in ATTACKS:
        assert attack not in page
        assert html.escape(attack) not in page
    assert PROBLEM.id not in page
    assert len(re.findall("<script", page)) == 2


def test_an_exported_run_has_every_answer_and_asks_for_nothing(client: TestClient, path: Path) -> None:
    page, detailed, programs = export_html(Source(str(path), update_seconds=float("inf")), "run-a")
    assert detailed == programs == get(client, "/api/runs/run-a")["programs"]
    assert len(page) < 1_000_000
    assert not re.search(r"(src|href)=\"(?!data:,|#)", page)
    stored = json.loads(re.search(r'id="stored">(.*)</script>', page)[1])  # type: ignore[index]
    answers: dict[str, Any] = {}
    for part in stored["parts"]:
        answers |= json.loads(gzip.decompress(base64.b64decode(part)))
    assert answers["/api/runs/run-a"]["curve"] == get(client, "/api/runs/run-a")["curve"]
    assert answers["/api/runs/run-a/lineage"] == get(client, "/api/runs/run-a/lineage")
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_the_page_has_the_colours_of_the_pictures() -> None:
    script = (ASSETS / "charts.js").read_text(encoding="utf-8")
    assert json.loads(re.search(r"const COLOURS = (\[.*?\]);", script)[1]) == list(COLOURS)  # type: ignore[index]


def test_the_page_never_makes_markup_of_text() -> None:
    for file in ASSETS.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "http:",
            "https:",
        ):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), (file.name, word)


def test_serve_prints_its_address_answers_and_ends(path: Path) -> None:
    with serving(path) as (process, page):
        # With a token where the machine has other users.
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/(\?token=\S+)?", page.address)
        assert json.loads(page.ask("api/runs/run-a")[2])["id"] == "run-a"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0


def test_a_page_beside_a_batch_shows_its_report(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.toml"
    file.write_text('name = "two"\nproblems = ["strings/phone-with-hyphens"]\nseeds = [0, 1]\n')
    with commands.page_beside(str(path), partial(batch_report, str(file), str(path))):
        page = Served(re.search(r"page: (\S+)", capfd.readouterr().err)[1])  # type: ignore[index]
        shown = json.loads(page.ask("api/report")[2])["report"]
    assert (shown["name"], shown["ended"]) == ("two", [0, 2])


def test_serve_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs starlette and uvicorn.*pip install 'evovpo\[ui\]'"):
        commands.serve()
