"""What the search itself costs: `python tests/bench/search_cost.py --programs N --json`.

N synthetic programs are proposed and judged first, through the same asks, tells and commits as in a
run, into a SQLite file. Then `--samples` further steps are timed. One step, one "ask+tell", is one
`Search.ask` plus one `Search.tell` of one reply to that very ticket (its first completion, or the one
reply of a join ticket): the ask is not divided by the completions that share it. The commit of a step
is what the store does for it: `Store.add_prompt` plus `Store.add_tell` of that reply. The other
completions of a timed ticket stay untold, as replies may, so that N hardly grows while it is measured;
before the measurement all are told. Making the synthetic replies is not timed. `store_mb` is the size
of the database, in MiB, when the N programs are in it.

The problem has 10 training rows of person names; settings are the defaults (4 islands, archives of 32,
8 completions of 3 answers, joins on). Programs are distinct random expressions of the built-in
grammar; a program passes a random subset of the rows, mostly few and never all, so archives and cells
fill up to their capacity. Nothing is sampled from a model and nothing is run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from random import Random

from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.grammar import STRINGS, render
from evovpo.builtin.strings.joining import join_language
from evovpo.builtin.strings.sampler import Sampler
from evovpo.config import Config, SearchConfig
from evovpo.proposers import rollout_id
from evovpo.search.search import Search
from evovpo.store import Store
from evovpo.types import (
    Candidate,
    Evaluation,
    Example,
    Judged,
    Objective,
    Parent,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Status,
    Tell,
    content_id,
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
    parameters=("name",),
    objectives=tuple(Objective(f"row-{number}") for number in range(1, len(_NAMES) + 1)),
    seeds=(Program("def solve(name):\n    return name\n"),),
    train=tuple(Example((name,), wanted) for name, wanted in _NAMES),
)


def synthetic_programs(rng: Random) -> Iterator[Program]:
    """Yield distinct random programs of the built-in grammar, without end."""
    sampler = Sampler(rng, [[name] for name, _ in _NAMES])
    seen: set[str] = set()
    while True:
        expression = STRINGS.canonical(render(sampler.program()))
        if expression is not None and expression not in seen:
            seen.add(expression)
            yield Program(STRINGS.to_source(expression, PROBLEM.entry, PROBLEM.parameters))


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


class Bench:
    """One search with its store, fed with synthetic replies."""

    def __init__(self, store: Store, config: SearchConfig, seed: int) -> None:
        run = Run(
            "bench", PROBLEM.id, PROBLEM.version, seed, config.evaluations, Config(search=config).to_json(),
            RunStatus.RUNNING, "",
        )  # fmt: skip
        store.add_problem(PROBLEM)
        store.add_run(run)
        made_by, language = ExpressionFormat(PROBLEM), join_language(PROBLEM)
        self.search = Search(PROBLEM, config, made_by, run.id, seed, language)
        self._store = store
        self._rng = Random(seed)
        self._programs = synthetic_programs(self._rng)

    def fill(self, programs: int) -> None:
        """Ask and tell until so many programs were proposed."""
        while self.search.proposed < programs:
            prompt = self._ask()
            self._store.add_prompt(prompt)
            for tell in self._replies(prompt):
                self._store.add_tell("bench", tell, self.search.tells)
                self.search.tell(tell)

    def step(self) -> tuple[float, float]:
        """Ask, tell one reply, store both; return the seconds of the ask+tell and of the commit."""
        started = time.perf_counter()
        prompt = self._ask()
        asked = time.perf_counter() - started
        tell = self._replies(prompt)[0]
        started = time.perf_counter()
        self._store.add_prompt(prompt)
        self._store.add_tell("bench", tell, self.search.tells)
        committed = time.perf_counter() - started
        started = time.perf_counter()
        self.search.tell(tell)
        return asked + time.perf_counter() - started, committed

    def _ask(self) -> Prompt:
        prompt = self.search.ask()
        assert prompt is not None, "the budget is set so that it lasts"
        return prompt

    def _replies(self, prompt: Prompt) -> list[Tell]:
        if prompt.kind is PromptKind.SEED:
            return [self._tell(prompt, None, prompt.proposals, [()] * len(prompt.proposals))]
        if prompt.kind is PromptKind.JOIN:
            parents = [join.parents for join in self.search.tickets[prompt.id].joins]
            return [self._tell(prompt, None, prompt.proposals, parents)]
        replies = []
        for index in range(prompt.rollouts):
            programs = [next(self._programs) for _ in range(prompt.answers)]
            length = 20 * prompt.answers
            rollout = Rollout(
                id=rollout_id(prompt.id, index),
                prompt_id=prompt.id,
                index=index,
                policy_version=0,
                text="\n".join(program.source for program in programs),
                token_ids=tuple(range(length)),
                logprobs=(-0.5,) * length,
                prompt_token_ids=tuple(range(150)) if index == 0 else None,
                sampling=Sampling(),
                finish_reason="stop",
                seconds=0.01,
            )
            replies.append(self._tell(prompt, rollout, programs, [prompt.parents] * prompt.answers))
        return replies

    def _tell(
        self,
        prompt: Prompt,
        rollout: Rollout | None,
        programs: list[Program] | tuple[Program, ...],
        parents: list[tuple[Parent, ...]],
    ) -> Tell:
        judged = []
        for slot, (program, own_parents) in enumerate(zip(programs, parents, strict=True)):
            known = self.search.evaluation(program.id)
            candidate = Candidate(
                id=content_id(prompt.id if rollout is None else rollout.id, str(slot)),
                prompt_id=prompt.id,
                rollout_id=None if rollout is None else rollout.id,
                slot=slot,
                parse_status=ParseStatus.PARSED if known is None else ParseStatus.DUPLICATE,
                program=program,
                token_span=None if rollout is None else (20 * slot, 20 * slot + 20),
                parents=own_parents,
                text=program.source,
            )
            judged.append(Judged(candidate, known or synthetic_evaluation(program, self._rng), known is None))
        return Tell(prompt.id, rollout, tuple(judged))


def measure(programs: int, samples: int, seed: int, url: str) -> dict[str, float]:
    """Return the figures that the command prints, for a store at `url` that does not exist yet."""
    slots = SearchConfig().rollouts * SearchConfig().answers
    config = SearchConfig(evaluations=programs + (samples + 1) * slots)
    with Store.open(url) as store:
        bench = Bench(store, config, seed)
        bench.fill(programs)
        pages, page_bytes = (store.query(f"PRAGMA {name}")[0][name] for name in ("page_count", "page_size"))
        steps = [bench.step() for _ in range(samples)]
    ask_tell_ms = sorted(1000 * ask_tell for ask_tell, _ in steps)
    return {
        "ask_tell_ms_median": round(statistics.median(ask_tell_ms), 4),
        "ask_tell_ms_p99": round(ask_tell_ms[int(0.99 * (len(ask_tell_ms) - 1))], 4),
        "commit_ms_median": round(statistics.median(1000 * commit for _, commit in steps), 4),
        "store_mb": round(pages * page_bytes / 2**20, 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time one ask+tell, and its commit, after N programs.")
    parser.add_argument(
        "--programs", type=int, default=10_000, help="programs proposed before the measurement"
    )
    parser.add_argument("--samples", type=int, default=300, help="steps that are timed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.programs, options.samples, options.seed, f"sqlite:///{folder}/cost.db")
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:20} {value}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
