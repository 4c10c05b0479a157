"""Distances of texts, likeness of vectors, and answers that are refused before they are evaluated."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import PLAIN, START, PlainFormat, judge

from evovpo.config import Config, ProposerConfig, SearchConfig
from evovpo.errors import ConfigError, ServerError
from evovpo.proposers.embeddings import OpenAIEmbedder
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.runs.driver import Driver
from evovpo.runs.group import Embed
from evovpo.runs.replay import replay
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.search.novelty import BY_MEANING, SHINGLE, cosine, meaning_fault, text_distance, text_fault
from evovpo.search.population import Member
from evovpo.search.search import Search
from evovpo.store import Store
from evovpo.types import Evaluation, ParseStatus, Program, Prompt, Run, RunStatus, Tell

SETTINGS = Config(
    search=SearchConfig(
        evaluations=4, rollouts=4, answers=1, islands=1, root_share=0.0, in_flight=1, novelty_model="embedder"
    )
)


def member(text: str, order: int = 0) -> Member:
    return Member(Program(text).id, text, (0.0,), order)


# Texts


def test_text_distance_by_hand() -> None:
    # abcdef has the shingles abcde and bcdef, abcdeg has abcde and bcdeg: one of three is shared.
    assert SHINGLE == 5
    assert text_distance("abcdef", "abcdeg") == pytest.approx(2 / 3)
    assert text_distance("abcdef", "uvwxyz") == 1.0
    assert text_distance("ab", "ab") == 0.0
    assert text_distance("ab", "ac") == 1.0


def test_blanks_and_line_ends_make_no_difference() -> None:
    assert text_distance("def f(x):\n    return x\n", "def f(x):  return\tx") == 0.0


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30))
def test_text_distance_is_a_symmetric_share_as_counting_says(one: str, other: str) -> None:
    def parts(text: str) -> set[str]:
        plain = " ".join(text.split())
        return {plain[n : n + 5] for n in range(len(plain) - 4)} or {plain}

    expected = 1 - len(parts(one) & parts(other)) / len(parts(one) | parts(other))
    assert text_distance(one, other) == pytest.approx(expected)
    assert text_distance(one, other) == text_distance(other, one)
    assert text_distance(one, one) == 0.0


def test_a_text_is_refused_below_the_least_distance_to_the_nearest_and_only_then() -> None:
    others = [member("uvwxyz"), member("abcdeg", 1)]
    assert text_fault("abcdef", others, 0.66) == ""
    reason = text_fault("abcdef", others, 0.67)
    assert reason == f"not novel: its text is at distance 0.667 from program {others[1].program_id}; " + (
        "at least 0.67 is wanted"
    )
    assert text_fault("abcdef", [], 1.0) == ""
    assert text_fault("abcdeg", others, 0.0) == ""


# Vectors


def test_cosine_by_hand() -> None:
    assert cosine((1.0, 0.0), (0.0, 2.0)) == 0.0
    assert cosine((1.0, 1.0), (3.0, 3.0)) == pytest.approx(1.0)
    assert cosine((3.0, 4.0), (4.0, 3.0)) == pytest.approx(24 / 25)
    assert cosine((0.0, 0.0), (1.0, 0.0)) == 0.0


def test_a_vector_is_refused_from_the_given_likeness_on() -> None:
    others = [("far", (0.0, 1.0)), ("near", (4.0, 3.0))]
    assert meaning_fault((3.0, 4.0), [("far", (1.0, 0.0))], 0.61) == ""
    assert meaning_fault((3.0, 4.0), others, 0.96).startswith(f"{BY_MEANING}: cosine 0.9600 to program near")
    assert meaning_fault((3.0, 4.0), others, 0.97) == ""
    assert meaning_fault((3.0, 4.0), [], -1.0) == ""


# In a run


class Angles:
    """A made-up embedding: the direction is the first number of a program, in turns."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return one vector of length one for each text."""
        self.asked.append(list(texts))
        return [(1.0, float(text.split()[0])) for text in texts]


class Counting:
    """Judges, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def evaluate(self, program: Program) -> Evaluation:
        """Return the judgement."""
        self.asked.append(program.source)
        return judge(program)


def run_with(store: Store, embed: Embed | None, settings: Config) -> tuple[Counting, Search]:
    """Run four answers against the starting programs; return who judged and the search."""
    answers = ["0.2 0.9 # like the better seed", "5.0 1.0", "0.2 0.9 # like the better seed", "bad"]
    answers[1] = "0.9 1.0 # in another direction"
    counting = Counting()
    search = Search(PLAIN, settings.search, PlainFormat(), "one", 0)
    store.add_problem(PLAIN)
    store.add_run(Run("one", PLAIN.id, PLAIN.version, 0, 4, settings.to_json(), RunStatus.RUNNING, "now"))
    driver = Driver(
        search=search,
        config=settings,
        proposer=ScriptedProposer(lambda prompt, index: answers[index]),
        judge=counting,
        journal=store,
        embed=embed,
    )
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    return counting, search


def test_what_means_the_same_is_refused_unpaid_stored_and_replayed_without_a_server(tmp_path: Path) -> None:
    embedder = Angles()
    with Store.open(str(tmp_path / "run.db")) as store:
        counting, search = run_with(store, embedder.embed, SETTINGS)
        history = list(store.history("one"))
        group = next(iter(store.groups("one")))
        summary = store.run_summary("one")
    assert counting.asked == [*(seed.source for seed in PLAIN.seeds), "0.9 1.0 # in another direction"]
    tells = [event for event in history if isinstance(event, Tell)]
    slots = [tell.judged[0] for tell in tells[1:]]
    assert [slot.candidate.parse_status for slot in slots] == [
        ParseStatus.REJECTED,
        ParseStatus.PARSED,
        ParseStatus.REJECTED,
        ParseStatus.UNPARSED,
    ]
    assert slots[0].candidate.reason.startswith(f"{BY_MEANING}: cosine 1.0000 to program {START.id}")
    assert slots[0].evaluation is None
    assert [chain[0] for chain in group.rewards_G_M_D] == [(0.0, 0.0), (0.9, 1.0), (0.0, 0.0), (0.0, 0.0)]
    assert (summary.proposed, summary.executed) == (4, 3)
    assert len(embedder.asked) == 1
    again = Search(PLAIN, SETTINGS.search, PlainFormat(), "one", 0)
    replay(again, history, reads_again=True)
    assert (again.proposed, again.best) == (search.proposed, search.best)


def test_the_text_is_looked_at_before_anything_is_embedded(tmp_path: Path) -> None:
    embedder = Angles()
    settings = SETTINGS.changed(search=SETTINGS.search.changed(novelty=0.999))
    with Store.open(str(tmp_path / "run.db")) as store:
        run_with(store, embedder.embed, settings)
        history = list(store.history("one"))
    assert all("like the better seed" not in text for texts in embedder.asked for text in texts)
    again = Search(PLAIN, settings.search, PlainFormat(), "one", 0)
    replay(again, history, reads_again=True)


def test_a_program_refused_first_and_judged_later_comes_from_where_it_was_judged(tmp_path: Path) -> None:
    settings = SETTINGS.changed(search=SETTINGS.search.changed(rollouts=1, novelty_model="", novelty=0.5))
    near, other = "0.2 0.2 # better seed!", "0.9 0.9 # an entirely other thing"
    search = Search(PLAIN, settings.search, PlainFormat(), "one", 0)
    with Store.open(str(tmp_path / "run.db")) as store:
        store.add_problem(PLAIN)
        store.add_run(Run("one", PLAIN.id, PLAIN.version, 0, 4, settings.to_json(), RunStatus.RUNNING, "now"))
        driver = Driver(
            search=search,
            config=settings,
            proposer=ScriptedProposer([near, other, near, near]),
            judge=Counting(),
            journal=store,
        )
        asyncio.run(driver.run())
        statuses = [
            judged.candidate.parse_status
            for event in store.history("one")
            if isinstance(event, Tell) and event.rollout
            for judged in event.judged
        ]
        step = store.lineage("one", Program(near).id)[0]
    assert statuses == [
        ParseStatus.REJECTED,
        ParseStatus.PARSED,
        ParseStatus.PARSED,
        ParseStatus.DUPLICATE,
    ]
    assert [parent.program_id for parent in step.parents] == [Program(other).id]


# The server


@pytest.fixture
def server() -> Iterator[tuple[str, list[object]]]:
    """An embeddings endpoint and the requests that it got; `broken` fails, `few` gives one vector too few."""
    requests: list[object] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answer one request."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            texts = body["input"][body["model"] == "few" :]
            data = [
                {"object": "embedding", "index": n, "embedding": [float(len(text)), 1.0]}
                for n, text in enumerate(texts)
            ]
            answer = {"object": "list", "data": data[::-1], "model": body["model"], "usage": {}}
            self.send_response(503 if body["model"] == "broken" else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}/v1", requests
        found.shutdown()
        thread.join()


def embed(url: str, model: str, texts: Sequence[str], attempts: int = 1) -> list[tuple[float, ...]]:
    async def ask() -> list[tuple[float, ...]]:
        embedder = OpenAIEmbedder(ProposerConfig(base_url=url, attempts=attempts, timeout_seconds=5.0), model)
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()

    return asyncio.run(ask())


def test_vectors_come_in_the_order_of_the_texts(server: tuple[str, list[object]]) -> None:
    url, requests = server
    texts = ["x" * number for number in range(1, 71)]
    assert embed(url, "good", texts) == [(float(number), 1.0) for number in range(1, 71)]
    assert len(requests) == 2


def test_a_failing_server_is_asked_as_often_as_stated_and_then_an_error(
    server: tuple[str, list[object]],
) -> None:
    url, requests = server
    with pytest.raises(ServerError, match=r"no embeddings of broken in 2 attempts"):
        embed(url, "broken", ["x"], attempts=2)
    assert len(requests) == 2
    with pytest.raises(ServerError, match="gave 1 embeddings for 2 texts"):
        embed(url, "few", ["x", "y"])


def test_an_embedding_model_without_an_address_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    settings = SETTINGS.changed(proposer=ProposerConfig(name="scripted"))

    def fail(prompt: Prompt, index: int) -> str:
        raise AssertionError("nothing may be asked")

    with Store.open(str(tmp_path / "run.db")) as store:
        with pytest.raises(ConfigError, match=r"set proposer\.base_url"):
            start(RunRequest(PLAIN, settings), store, ScriptedProposer(fail))
        assert store.runs() == []
