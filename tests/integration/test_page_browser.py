"""A browser walks through all views of the page, while a run is searched, and over a run of attacks."""

import contextlib
import os
import re
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the page needs the extra ui")
pytest.importorskip("playwright", reason="browsers are driven by playwright, of the extra dev")

from attack_runs import ATTACKS, RUN_ID, write_attacks
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from running import running, serving
from sqlite_files import sql
from store_conformance import write_run

from evovpo.page.export import export_html
from evovpo.page.page_store import Source
from evovpo.store import Store
from evovpo.types import PolicyVersion

CHROMIUM = os.environ.get("EVOVPO_CHROMIUM") or shutil.which("chromium")
PATIENCE_MS = 120_000
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser: `.ci/chromium` installs one"),
]


class Walk:
    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.requests: set[str] = set()
        page.set_default_timeout(PATIENCE_MS)
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text)
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.add(re.sub(r"(?<=\w)/.*|\?.*", "", request.url)))

    def open(self, place: str) -> None:
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#/{place}")
        self.page.wait_for_selector("main h1")

    def text(self, selector: str = "main") -> str:
        return self.page.inner_text(selector)

    def fact(self, name: str) -> str:
        return self.page.locator("dl.facts div", has_text=name).locator("dd").first.inner_text()

    def serious(self) -> list[str]:
        found: Any = Axe().run(self.page).response["violations"]
        grave = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in grave]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "runs.db"
    with Store.open(str(path)) as store:
        write_run(store)
        write_attacks(store)
    return path


@pytest.fixture(scope="module")
def address(stored: Path) -> Iterator[str]:
    with serving(stored) as (_, page):
        yield page.address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as player:
        opened = player.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield opened
        opened.close()


@pytest.fixture(params=["light", "dark"])
def walk(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Walk]:
    """A wide light page, and a dark one as wide as a phone; nothing on them may fail or leave the machine."""
    width = 1200 if request.param == "light" else 390
    with browser.new_context(color_scheme=request.param, viewport={"width": width, "height": 800}) as context:
        found = Walk(context.new_page(), address)
        yield found
        assert found.complaints == []
        assert found.requests <= {"://".join(urlsplit(address)[:2]), "about:blank", "data:,"}


def views(run: str) -> list[str]:
    parts = ("", "?show=components", "/lineage", "/programs", "/population", "/settings", "/answers")
    return [f"run/{run}{part}" for part in parts]


def test_every_view_opens_fits_and_can_be_used_by_everybody(walk: Walk) -> None:
    walk.open("runs")
    program = walk.page.evaluate(
        "fetch('/api/runs/run-a').then((answer) => answer.json()).then((run) => run.best_program_id)"
    )
    others = (f"program/{program}?run=run-a", "runs", "policies", "report", "compare?runs=run-a")
    for place in (*views("run-a"), *others):
        walk.open(place)
        assert walk.serious() == [], place
        width = walk.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, place


def test_a_user_sorts_filters_and_follows_a_lineage(walk: Walk) -> None:
    walk.open("runs")
    walk.page.click("button.sort:has-text('evaluations')")
    walk.page.wait_for_selector("th[aria-sort=descending]:has-text('evaluations')")
    walk.page.fill("input[type=search]", "no such problem")
    walk.page.wait_for_selector("text=No run fits these filters.")
    assert "problem=no+such+problem" in walk.page.url
    assert walk.page.evaluate("document.activeElement.type") == "search"
    walk.page.fill("input[type=search]", "phones")
    walk.page.click("a:has-text('phones')")
    walk.page.click("a:has-text('Lineage')")
    node = walk.page.locator("g.node:has-text('seed')").first
    node.focus()
    walk.page.keyboard.press("Enter")
    walk.page.wait_for_selector("h2:has-text('What')")
    assert "child=" in walk.page.url
    walk.page.go_back()
    walk.page.wait_for_selector("pre.diff .added")
    walk.page.click("a:has-text('Programs')")
    walk.page.click("button.sort:has-text('mean')")
    walk.page.wait_for_selector("th[aria-sort=descending]:has-text('mean')")
    means = walk.page.locator("tbody tr td:nth-child(2)").all_inner_texts()
    assert means == sorted(means, reverse=True)
    walk.page.select_option("label:has-text('status') select", "timeout")
    walk.page.wait_for_url("**status=timeout**")
    walk.page.wait_for_function(
        "() => [...document.querySelectorAll('tbody tr')].every((row) => row.innerText.includes('timeout'))"
    )
    listed = walk.page.locator("tbody tr").count()
    assert f"{listed} different programs" in walk.text()
    walk.page.click("nav.tabs a:has-text('Overview')")
    unparsed = walk.page.locator("tr:has(meter)", has_text="unparsed")
    count = unparsed.locator("td").nth(1).inner_text()
    unparsed.locator("a").click()
    walk.page.wait_for_url("**answers?parse_status=unparsed")
    walk.page.wait_for_selector("td:has-text('unparsed') ~ td code")
    assert walk.page.locator("tbody tr").count() == int(count)


def marked(walk: Walk, before: str, after: str) -> list[str]:
    """Return the lines of a difference as the page shows it, with marked words between brackets."""
    walk.page.evaluate(
        """([before, after]) => {
          const shown = diffView(before, after);
          shown.querySelectorAll("mark").forEach((one) => one.replaceWith(`[${one.textContent}]`));
          document.querySelector("main").replaceChildren(shown);
        }""",
        [before, after],
    )
    return walk.page.locator("pre.diff span").all_text_contents()


def test_changed_words_are_marked_in_lines_that_stay_alike(walk: Walk) -> None:
    walk.open("report")
    before, after = (
        "same\nreturn text.upper()\ngone\n",
        "same\nreturn text.lower()\nquite another thing\nnew\n",
    )
    assert [line.rstrip("\n") for line in marked(walk, before, after)] == [
        "  same",
        "- return text.[upper]()",
        "- gone",
        "+ return text.[lower]()",
        "+ quite another thing",
        "+ new",
    ]
    assert marked(walk, "a\n", "a\n") == ["  a\n"]


def test_arrows_lead_to_what_was_made_and_there_is_no_tab_without_a_report(walk: Walk) -> None:
    walk.open("run/run-a/lineage")
    assert walk.page.locator("path.edge").count() > 0
    assert walk.page.locator("path.edge:not([marker-end='url(#arrow)'])").count() == 0
    ends = walk.page.evaluate(
        """() => {
          const edge = document.querySelector("path.edge.chosen");
          const box = document.querySelector("g.chosen rect").getBBox();
          const { x, y } = edge.getPointAtLength(edge.getTotalLength());
          return [box.x - x, y - box.y, box.height];
        }"""
    )
    assert abs(ends[0]) <= 2
    assert 0 <= ends[1] <= ends[2]
    assert walk.page.locator("#menu a").all_inner_texts() == ["Runs", "Training"]
    walk.open("run/attacked/settings")
    assert "All settings are this version's defaults." in walk.text()
    assert walk.page.locator("h3:has-text('search') + div tr:has-text('islands')").count() >= 1


def test_the_page_follows_a_run_that_is_searched(stored: Path, address: str, browser: Browser) -> None:
    problem = (
        "strings-hard/" + sorted((Path(__file__).parents[2] / "problems/strings-hard").glob("*/"))[0].name
    )
    with (
        browser.new_context() as context,
        running("evolve", problem, "-n", "100000", "--proposer", "random", "--store", stored) as search,
    ):
        walk = Walk(context.new_page(), address)
        walk.open(f"runs?problem={problem}")
        walk.page.click(f"a:has-text('{problem}')")
        walk.page.wait_for_selector("dl.facts")
        before = walk.fact("evaluations")
        walk.page.wait_for_function(
            "(before) => [...document.querySelectorAll('dl.facts div')].some("
            "(one) => one.innerText.startsWith('evaluations\\n') && !one.innerText.includes(before))",
            arg=before,
        )
        # A look reads a part of what is new: the page says "reading" until it has caught up with the search.
        search.send_signal(signal.SIGSTOP)
        try:
            walk.page.wait_for_selector("#state:text-is('live')")
        finally:
            search.send_signal(signal.SIGCONT)
        assert walk.complaints == []


def test_no_text_of_a_store_does_anything_but_stand_there(walk: Walk, stored: Path, tmp_path: Path) -> None:
    walk.open("runs")
    ids = walk.page.evaluate(
        f"fetch('/api/runs/{RUN_ID}/programs').then((answer) => answer.json())"
        ".then((found) => found.programs.map((one) => one.program_id))"
    )
    of_run = views(RUN_ID)
    places = ["runs", "policies", *of_run, *(f"program/{one}?run={RUN_ID}" for one in ids)]
    file = tmp_path / "run.html"
    file.write_text(export_html(Source(str(stored)), RUN_ID)[0], encoding="utf-8")
    exported = Walk(walk.page.context.new_page(), file.as_uri())
    for shown, place in [*((walk, place) for place in places), *((exported, place) for place in of_run[:-1])]:
        shown.open(place)
        for details in shown.page.locator("details").all():
            details.locator("summary").click()
        assert shown.page.evaluate("window.hacked") is None, place
        assert shown.page.locator("main").locator("script, iframe, img, object, embed, [onload]").count() == 0
    assert exported.complaints == []
    walk.open(f"program/{ids[-1]}?run={RUN_ID}")
    for attack in ATTACKS[:5]:
        assert attack in walk.text()
    assert "\\u202e" in walk.text()
    assert "\u202e" not in walk.text()


def test_the_page_says_that_a_store_is_gone_and_goes_on_when_it_is_back(
    browser: Browser, tmp_path: Path, stored: Path
) -> None:
    path, made = tmp_path / "runs.db", tmp_path / "made.db"
    with (
        serving(f"sqlite:///{path}?timeout=60") as (_, served),
        browser.new_context() as context,
    ):
        page = context.new_page()
        page.goto(served.address)
        page.wait_for_selector("#fault:has-text('there is no such store')", timeout=PATIENCE_MS)
        with Store.open(str(made)) as store:
            store.add_policy_version(PolicyVersion(0, None, "built-in"))
        sql(made, "PRAGMA journal_mode=DELETE")  # readers wait for whoever writes
        made.rename(path)
        page.wait_for_selector("text=No run yet.", timeout=PATIENCE_MS)
        assert page.locator("#fault").is_hidden()
        with contextlib.closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            page.wait_for_selector("#state:has-text('the store answers slowly')", timeout=PATIENCE_MS)
            holder.execute("ROLLBACK")
        page.wait_for_selector("#state:empty", state="attached", timeout=PATIENCE_MS)
