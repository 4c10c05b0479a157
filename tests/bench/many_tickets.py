"""Many tickets open at a server that is slow and fails: `python tests/bench/many_tickets.py --json`.

    python tests/bench/many_tickets.py --tickets 10000 --seconds 3600 --json --log FILE

The search, the driver, its store in a file and the proposer for servers are the real ones; a ticket is
one reply of one program. The server is a process of its own on this machine, spoken to by HTTP. It answers
after a time with a heavy tail (Pareto, index 1.5, from `--shortest` seconds, five times that at most). A
share `--faults` of requests goes wrong, by chance in one of four ways: HTTP 500 at the end of that time, HTTP
429 at once, a connection cut at a random moment of it, or no answer at all, which the proposer gives up
after six times `--shortest`. It writes one of 5,000 programs, so that the population stops growing and what
grows is what tickets leave behind. A judgement is made up at once.

When the time is over the run is cancelled with all its tickets open, and its rows are counted. `lost` are
tickets that are told by nobody, asked for by nobody and not among the last that came back; `told_twice`
those with more than one reply in the store. `rebuilt` is true if the search that the rows give has the very
same open tickets. `requests` are those in the store by what became of them, `seen` those that the server
counted. `rows` are [seconds, replies told, requests open, MiB resident] once a minute; `bytes_told_and_open`
are what a told reply and an open request took of that memory, by least squares over the second half.
`late_seconds` is how late a timer of the process fired at worst: how long nothing else was done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from search_cost import PROBLEM, synthetic_evaluation, synthetic_programs

from evovpo.builtin.strings.grammar import STRINGS
from evovpo.config import Config, ProposerConfig, SearchConfig
from evovpo.proposers.limits import make_room
from evovpo.proposers.openai import OpenAIProposer
from evovpo.runs.driver import Driver, Progress
from evovpo.runs.replay import build_search, rebuild
from evovpo.runs.snapshots import Keeper
from evovpo.store import Store
from evovpo.types import Evaluation, Program, Prompt, Rollout, Run, RunStatus, Sampling

PROGRAMS = 5_000
"""Different programs that the server writes."""
LONGEST, PATIENCE = 5.0, 6.0
"""The longest time of an answer, and what the proposer waits for one, in shortest times."""
FAULTS = ("http 500", "http 429", "cut", "silence")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Server:
    """Answers completions late, wrongly or not at all; counts what it did."""

    def __init__(self, shortest: float, faults: float, seed: int) -> None:
        self._shortest, self._faults, self._rng = shortest, faults, Random(seed)
        programs = synthetic_programs(Random(seed))
        sources = (next(programs).source for _ in range(PROGRAMS))
        self._texts = [STRINGS.from_source(source, PROBLEM.entry) for source in sources]
        self.counts: Counter[str] = Counter()
        self._open = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
                self._open += 1
                self.counts["most open"] = max(self.counts["most open"], self._open)
                try:
                    status = await self._wait(reader)
                finally:
                    self._open -= 1
                if not status:
                    break
                writer.write(self._response(status))
                await writer.drain()
        writer.transport.abort()

    async def _wait(self, reader: asyncio.StreamReader) -> int:
        """Wait as long as this answer takes; return its status, 0 for none."""
        seconds = self._shortest * min(self._rng.paretovariate(1.5), LONGEST)
        fault = self._rng.choice(FAULTS) if self._rng.random() < self._faults else "answered"
        self.counts[fault] += 1
        if fault == "http 429":
            return 429
        if fault == "silence":
            await reader.read()
            return 0
        if fault == "cut":
            await asyncio.sleep(seconds * self._rng.random())
            return 0
        await asyncio.sleep(seconds)
        return 500 if fault == "http 500" else 200

    def _response(self, status: int) -> bytes:
        body: dict[str, Any] = {"error": {"message": "at random"}}
        if status == 200:
            text = f"{self._rng.choice(self._texts)}⟦end⟧"
            usage = {"prompt_tokens": 150, "completion_tokens": 20}
            body = {"choices": [{"index": 0, "text": text, "finish_reason": "stop"}], "usage": usage}
        sent = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} .\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        return head.encode() + sent


def serve(pipe: Connection, shortest: float, faults: float, seed: int, tickets: int) -> None:
    """Serve until something comes through the pipe; then send what was counted."""

    async def work() -> None:
        server = Server(shortest, faults, seed)
        listening = await asyncio.start_server(server.answer, "127.0.0.1", 0, backlog=4096)
        pipe.send(listening.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)
        pipe.send(dict(server.counts))
        os._exit(0)

    make_room(tickets)
    asyncio.run(work())


class Judge:
    """Makes up a judgement, the same one whenever a program comes again."""

    def evaluate(self, program: Program) -> Evaluation:
        return synthetic_evaluation(program, Random(program.id))


class Counted(OpenAIProposer):
    """Knows which tickets are under way, and which came back last."""

    def __init__(self, settings: ProposerConfig, store: Store) -> None:
        super().__init__(settings, record=store.add_call)
        self.asked: set[str] = set()
        self.returned = deque[str](maxlen=settings.concurrency)
        self.most = 0

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        self.asked.add(prompt.id)
        self.most = max(self.most, len(self.asked))
        rollouts = await super().propose(prompt, indices, sampling)
        self.asked.discard(prompt.id)
        self.returned.append(prompt.id)
        return rollouts


def resident_mb() -> float:
    """Return the memory that this process has resident now, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20


class Watch:
    """Looks at the process while it works."""

    def __init__(self, proposer: Counted, say: Callable[[str], None], every: float) -> None:
        self._proposer, self._say, self._every = proposer, say, every
        self.rows: list[tuple[float, int, int, float]] = []
        self.late = 0.0
        self.told = 0

    def note(self, progress: Progress) -> None:
        """Take note of a tell."""
        if not progress.waits:
            self.told = progress.search.tells

    async def look(self) -> None:
        """Sample until cancelled."""
        began = said = time.monotonic()
        while True:
            before = time.monotonic()
            await asyncio.sleep(min(1.0, self._every))
            now = time.monotonic()
            self.late = max(self.late, now - before - min(1.0, self._every))
            if now - said >= self._every:
                said = now
                asked = len(self._proposer.asked)
                self.rows.append((round(now - began, 1), self.told, asked, round(resident_mb(), 1)))
                self._say(f"{self.rows[-1]}, late {self.late:.2f} s")

    def slopes(self) -> list[float]:
        """Return the bytes that a told reply and an open request take, by least squares."""
        half = np.array(self.rows[len(self.rows) // 2 :])
        known = np.column_stack([half[:, 1], half[:, 2], np.ones(len(half))])
        found, *_ = np.linalg.lstsq(known, half[:, 3] * 2**20, rcond=None)
        return [round(float(value)) for value in found[:2]]


async def work(driver: Driver, proposer: Counted, watch: Watch, seconds: float) -> None:
    """Let the driver work for so long, then cancel it."""
    looking = asyncio.create_task(watch.look())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await driver.run()
    looking.cancel()
    await proposer.aclose()


def measure(
    folder: str,
    tickets: int,
    seconds: float,
    shortest: float,
    faults: float,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the figures that the command prints."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs, shortest, faults, seed, tickets), daemon=True).start()
    settings = ProposerConfig(
        name="openai",
        model="simulated",
        base_url=f"http://127.0.0.1:{pipe.recv()}/v1",
        endpoint="completions",
        concurrency=tickets,
        timeout_seconds=PATIENCE * shortest,
        attempts=100,
    )
    searching = SearchConfig(evaluations=10**8, rollouts=1, answers=1, joins=False, in_flight=tickets)
    config = Config(search=searching, proposer=settings)
    budget = searching.evaluations
    run = Run("many", PROBLEM.id, PROBLEM.version, seed, budget, config.to_json(), RunStatus.RUNNING, "")
    with Store.open(f"sqlite:///{folder}/many.db") as store:
        store.add_problem(PROBLEM)
        store.add_run(run)
        search = build_search(PROBLEM, config, run)
        proposer = Counted(settings, store)
        watch = Watch(proposer, say, min(60.0, seconds / 20))
        keeper = Keeper(store, search)
        driver = Driver(
            search, config, proposer, Judge(), store, on_tell=watch.note, workers=2, keep=keeper.look
        )
        began, busy = time.monotonic(), time.process_time()
        asyncio.run(work(driver, proposer, watch, seconds))
        took, busy = time.monotonic() - began, time.process_time() - busy
        say(f"ended after {took:.0f} s, {busy:.0f} s of processor")
        pipe.send("end")
        seen = pipe.recv()
        opened = {prompt.id for prompt, _ in search.tickets.open}
        again = rebuild("many", store, from_snapshot=True).search
        (twice,) = store.query(
            "SELECT COUNT(*) AS many FROM (SELECT 1 FROM rollouts GROUP BY prompt_id HAVING COUNT(*) > 1)"
        )
        requests = store.query(
            "SELECT outcome, reason, COUNT(*) AS many FROM calls GROUP BY outcome, reason ORDER BY 3 DESC"
        )
    return {
        "tickets": tickets,
        "seconds": round(took, 1),
        "cpu_seconds": round(busy, 1),
        "most_open": proposer.most,
        "asked": len(search.tickets),
        "told": search.tells,
        "open": len(opened),
        "lost": len(opened - proposer.asked - {*proposer.returned}),
        "told_twice": twice["many"],
        "rebuilt": {prompt.id for prompt, _ in again.tickets.open} == opened and again.tells == search.tells,
        "requests": {f"{row['outcome']} {row['reason']}".strip(): row["many"] for row in requests},
        "seen": seen,
        "late_seconds": round(watch.late, 2),
        "most_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "bytes_told_and_open": watch.slopes(),
        "rows": watch.rows,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Keep many tickets open at a server that fails.")
    parser.add_argument("--tickets", type=int, default=500, help="open at a time")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the run works")
    parser.add_argument("--shortest", type=float, help="seconds of the fastest answer (--seconds / 30)")
    parser.add_argument("--faults", type=float, default=0.03, help="share of requests that go wrong")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", metavar="FILE", help="append here how far it is")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()

    def say(line: str) -> None:
        if options.log:
            with Path(options.log).open("a") as file:
                file.write(line + "\n")

    shortest = options.shortest or options.seconds / 30
    with tempfile.TemporaryDirectory() as folder:
        found = measure(folder, options.tickets, options.seconds, shortest, options.faults, options.seed, say)
    print(json.dumps(found) if options.json else json.dumps(found, indent=1))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
