"""What the search itself costs: `python tests/bench/search_cost.py --programs N --json`.

N synthetic programs are proposed and judged first, through the same asks, tells and commits as in a
run, into a SQLite file. Then `--samples` further steps are timed. One step, one "ask+tell", is one
`ask` plus one `tell` of one reply to that very ticket (its first completion, or the one reply of a join
ticket): the ask is not divided by the completions that share it. The commit of a step
is what the store does for it: `Store.add_prompt` plus `Store.add_tell` of that reply. The other
completions of a timed ticket stay untold, as replies may, so that N hardly grows while it is measured;
before the measurement the replies to a prompt are told together, as a driver tells them. Making the synthetic
replies is not timed. `store_mb` is the size of the database, in MiB, when the N programs are in it.
`programs` is how many they were: N, some more of its last group, or fewer where `--minutes` ended it. The
processor time of a step is printed beside its wall-clock time: on a busy machine the two differ.

Then two further processes are timed, from when their modules are loaded: one takes the run up as `evovpo
resume` does, up to its first new ask (`resume_seconds`), and one shows it as `evovpo show --json` does, with
its picture and all JSON (`show_seconds`). `rss_mb` is the most memory, in MiB, that any of these processes
had resident.

The problem has 10 training rows of person names; settings are the defaults (4 islands, archives of 32,
8 completions of 3 answers, joins on). Programs are distinct random expressions of the built-in
grammar; a program passes a random subset of the rows, mostly few and never all, so archives and cells
fill up to their capacity. Nothing is sampled from a model and nothing is run.
"""

import argparse
import json
import math
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from evovpo.builtin.strings.expressions import ARGUMENTS
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.grammar import render, spell
from evovpo.builtin.strings.joining import join_language
from evovpo.builtin.strings.sampler import Sampler
from evovpo.config import Config, SearchConfig
from evovpo.prompts.request import Answer
from evovpo.proposers import text_rollout
from evovpo.runs.group import Found, GroupJudge, read_slots
from evovpo.runs.replay import search_seed
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    Example,
    Objective,
    Problem,
    Program,
    Prompt,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Status,
    Tell,
)

_NAMES = (
    ("Lovelace, Ada", "Ada Lovelace"),
    ("TURING, Alan Mathison", "Alan M. Turing"),
    ("Hopper, Rear Admiral Grace", "Grace Hopper"),
    ("van Rossum, Guido", "Guido van Rossum"),
    ("Plato", "Plato"),
    ("Dr. Curie, Marie", "Marie Curie"),
    ("noether, emmy", "Emmy Noether"),
    ("Shannon, Claude (1916-2001)", "Claude Shannon"),
    ("", ""),
    ("Dijkstra, Edsger W.", "Edsger W. Dijkstra"),
)
PROBLEM = Problem(
    id="search-cost",
    version="1",
    statement="First name first.",
    entry="solve",
    parameters=ARGUMENTS[:1],
    objectives=tuple(Objective(f"row-{number}") for number in range(1, len(_NAMES) + 1)),
    seeds=(Program("def solve(x0):\n    return x0\n"),),
    train=tuple(Example((name,), wanted) for name, wanted in _NAMES),
)


def synthetic_programs(rng: Random) -> Iterator[Program]:
    """Yield distinct random programs of the built-in grammar, without end."""
    sampler = Sampler(rng, [[name] for name, _ in _NAMES])
    seen: set[int] = set()  # hashes: a million texts would take more memory than the search
    while True:
        tree = sampler.program()
        drawn = hash(spell(tree))
        if drawn in seen:
            continue
        expression = render(tree)  # its one spelling; the input of the problem is called as in expressions
        is_new = hash(expression) not in seen
        seen |= {drawn, hash(expression)}
        if not is_new:
            continue
        imports = "import re\n\n\n" * bool(re.search(r"\bre\.(sub|findall)\(", expression))
        yield Program(f"{imports}def {PROBLEM.entry}({PROBLEM.parameters[0]}):\n    return {expression}\n")


def synthetic_evaluation(program: Program, rng: Random) -> Evaluation:
    """Return a judgement that passes a random subset of the rows: half of the programs none, none all."""
    rate = 0.0 if rng.random() < 0.5 else rng.random() ** 2
    passed = [rng.random() < rate for _ in _NAMES]
    if all(passed):
        passed[rng.randrange(len(passed))] = False
    return Evaluation(
        program_id=program.id,
        problem_version=PROBLEM.version,
        status=Status.OK,
        rewards=tuple(map(float, passed)),
        feedback="",
        seconds=0.001,
        isolation="none",
        outputs=tuple(wanted if ok else name[:12] for ok, (name, wanted) in zip(passed, _NAMES, strict=True)),
    )


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    return time.perf_counter() - began[0], time.thread_time() - began[1]


class Bench:
    def __init__(self, store: Store, config: SearchConfig) -> None:
        run = Run(
            "bench", PROBLEM.id, PROBLEM.version, 0, config.evaluations, Config(search=config).to_json(),
            RunStatus.RUNNING, "2026-01-02T03:04:05Z",
        )  # fmt: skip
        store.add_problem(PROBLEM)
        store.add_run(run)
        made_by, language = ExpressionFormat(PROBLEM), join_language(PROBLEM)
        self.search = SearchState(PROBLEM, config, made_by, run.id, search_seed(PROBLEM, run.seed), language)
        self._store = store
        self._rng = Random(0)
        self._programs = synthetic_programs(self._rng)
        self._judge = GroupJudge(self.search, self._evaluation)

    def fill(self, programs: int, until: float) -> None:
        """Ask and tell until so many programs were proposed, or the monotonic clock shows `until`."""
        while self.search.standing.proposed < programs and time.monotonic() < until:
            prompt = self.ask()
            self._store.add_prompt(prompt)
            told = self.replies(prompt)
            self._store.add_tells("bench", told, self.search.standing.tells)
            for tell in told:
                self.search.tell(tell)

    def step(self) -> tuple[float, float, float, float]:
        """Return the seconds of the ask+tell and of the commit, and the processor seconds of each."""
        started = _now()
        prompt = self.ask()
        asked = _since(started)
        tell = self.replies(prompt)[0]
        started = _now()
        self._store.add_prompt(prompt)
        self._store.add_tell("bench", tell, self.search.standing.tells)
        committed = _since(started)
        started = _now()
        self.search.tell(tell)
        told = _since(started)
        return asked[0] + told[0], committed[0], asked[1] + told[1], committed[1]

    def ask(self) -> Prompt:
        prompt = self.search.ask()
        assert prompt is not None, "the budget is set so that it lasts"
        return prompt

    def replies(self, prompt: Prompt) -> list[Tell]:
        """Return the judged replies to a ticket: one with its own programs, or synthetic ones."""
        rollouts: list[Rollout | None] = [None]
        slots_of = [read_slots(self.search, prompt, None)]
        if prompt.has_model:
            slots_of = [self._answers(prompt.answers) for _ in range(prompt.rollouts)]
            rollouts = [_rollout(prompt, index, slots) for index, slots in enumerate(slots_of)]
        programs = [slot.program for slots in slots_of for slot in slots if slot.program]
        new = {one.id: one for one in programs if self.search.evaluation(one.id) is None}
        fresh = {key: self._evaluation(program) for key, program in new.items()}
        return self._judge.tells(prompt, rollouts, Found(slots_of, fresh, set(fresh)))

    def _evaluation(self, program: Program) -> Evaluation:
        return synthetic_evaluation(program, self._rng)

    def _answers(self, count: int) -> list[Answer]:
        programs = (next(self._programs) for _ in range(count))
        return [Answer(one.source, one, (20 * slot, 20 * slot + 20)) for slot, one in enumerate(programs)]


def _rollout(prompt: Prompt, index: int, slots: Sequence[Answer]) -> Rollout:
    length = 20 * len(slots)
    rollout = text_rollout(prompt, index, "\n".join(slot.text for slot in slots), Sampling())
    return replace(
        rollout,
        token_ids=tuple(range(length)),
        logprobs=(-0.5,) * length,
        prompt_token_ids=tuple(range(150)) if index == 0 else None,
        seconds=0.01,
    )


LATER = """
import json, resource, sys, time
from typer.main import get_command
from evovpo.cli.main import app
from evovpo.reports import run_curve, run_report
from evovpo.runs.replay import rebuild
from evovpo.store import Store
url, part, png = sys.argv[1:]
began, busy = time.perf_counter(), time.process_time()
if part == "resume":
    with Store.open(url, create=False) as store:
        found = rebuild("bench", store)
        store.known_evaluations(found.problem.version, but=found.search.standing.programs)
        assert found.search.ask() is not None
else:
    sys.stdout = open("/dev/null", "w")
    get_command(app).main(["show", "bench", "--store", url, "--png", png, "--json"], standalone_mode=False)
    sys.stdout = sys.__stdout__
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([time.perf_counter() - began, time.process_time() - busy, memory]))
"""
"""Prints its seconds, by the clock and of the processor, and its most memory in MiB."""


def _later(url: str, part: str, folder: str) -> tuple[float, float, float]:
    command = [sys.executable, "-c", LATER, url, part, f"{folder}/curve.png"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, busy, memory = json.loads(done.stdout)
    return seconds, busy, memory


def _resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(programs: int, samples: int, folder: str, minutes: float = math.inf) -> dict[str, float]:
    """Return the figures that the command prints; the store becomes `cost.db` in a folder."""
    slots = ExpressionFormat.rollouts * SearchConfig().answers
    config = SearchConfig(evaluations=programs + (samples + 1) * slots)
    url = f"sqlite:///{folder}/cost.db"
    with Store.open(url) as store:
        bench = Bench(store, config)
        bench.fill(programs, time.monotonic() + 60 * minutes)
        filled = bench.search.standing.proposed
        pages, page_bytes = (store.query(f"PRAGMA {name}")[0][name] for name in ("page_count", "page_size"))
        steps = [bench.step() for _ in range(samples)]
    names = ("ask_tell_ms", "commit_ms", "ask_tell_cpu_ms", "commit_cpu_ms")
    found = dict(zip(names, zip(*steps, strict=True), strict=True))
    ordered = {name: sorted(1000 * seconds for seconds in of_steps) for name, of_steps in found.items()}
    figures = {f"{name}_median": round(statistics.median(of_steps), 4) for name, of_steps in ordered.items()}
    own = _resident_mb()
    del bench
    resume_seconds, resume_cpu, resume_mb = _later(url, "resume", folder)
    show_seconds, show_cpu, show_mb = _later(url, "show", folder)
    return {
        "programs": filled,
        **figures,
        "ask_tell_ms_p99": round(ordered["ask_tell_ms"][int(0.99 * (len(steps) - 1))], 4),
        "store_mb": round(pages * page_bytes / 2**20, 2),
        "resume_seconds": round(resume_seconds, 2),
        "resume_cpu_seconds": round(resume_cpu, 2),
        "show_seconds": round(show_seconds, 2),
        "show_cpu_seconds": round(show_cpu, 2),
        "rss_mb": round(max(own, resume_mb, show_mb), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time one ask+tell, and its commit, after N programs.")
    parser.add_argument(
        "--programs", type=int, default=10_000, help="programs proposed before the measurement"
    )
    parser.add_argument("--samples", type=int, default=300, help="steps that are timed")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="propose for so long at most, then measure"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.programs, options.samples, folder, options.minutes)
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:24} {value}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
