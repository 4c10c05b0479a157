"""Pilot searches of families of string tasks: which tasks does the start model solve now and then?

    nice -n 10 python tests/bench/family_pilot.py pilot.jsonl --seed 0 --tasks 110
    nice -n 10 python tests/bench/family_pilot.py pilot.jsonl --seed 0 --siblings 12

Each task of `tests/bench/string_families.py` is searched under ten seeds that no measurement uses (islands
with joins, default settings, 60 evaluations: near the middle, by its logarithm, of the 12 to 600 that studies
look at). One that all or none of the first three searches solve is given up at once, which leaves out more
of what is rarely or nearly always solved. A row is `{"task", "searches": [[seed, evaluations, right on
training rows, and on held-out rows], ...]}`. Searches go on in step, so that they share batches of the model.
Families follow one after the other until so many tasks are kept; stopped, the same command goes on. With
more siblings, only families are searched of which half of the first ones was kept.
"""

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from string_families import SEARCHES, SIBLINGS, fertile, is_kept, named

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.choice import built_in_format
from evovpo.builtin.strings.joining import join_language
from evovpo.config import SearchConfig
from evovpo.judging.evaluator import Evaluator
from evovpo.problem.folder import load_problem
from evovpo.proposers.local import LocalPolicy, load_local_policy
from evovpo.proposers.sampler import sample
from evovpo.runs.group import GroupJudge
from evovpo.sandbox import Sandbox
from evovpo.search.search import Search
from evovpo.types import Evaluation, PolicyVersion, Problem, Prompt, Rollout, Sampling
from trainer.recipes.hard_strings import write_task

SEEDS = range(9000, 9000 + SEARCHES)
FIRST = 3
"""Searches after which a task that all or none of them solved is given up."""
TASKS_AT_ONCE = 24
MOST_TOKENS = 160
"""Of a reply, as in other searches by the bundled model."""


class Pilot:
    """The searches of one task, which go on in step with those of others."""

    def __init__(
        self, name: str, problem: Problem, sandbox: Sandbox, pool: ThreadPoolExecutor, evaluations: int
    ) -> None:
        self.row: dict[str, Any] = {"task": name, "searches": []}
        self.problem, self.judge, self.pool = problem, Evaluator(problem, sandbox), pool
        self.evaluations = evaluations
        self.known: dict[str, Evaluation] = {}
        self.searches = self.begin(SEEDS[:FIRST])

    def begin(self, seeds: Sequence[int]) -> dict[int, Search]:
        settings = SearchConfig(evaluations=self.evaluations)
        made_by, language = built_in_format(self.problem), join_language(self.problem)
        name = self.row["task"]
        return {seed: Search(self.problem, settings, made_by, name, seed, language) for seed in seeds}

    async def ask(self) -> list[tuple[Search, Prompt]]:
        """Return a prompt for the model from each search that goes on; none when the task is done."""
        prompts = []
        for seed, search in list(self.searches.items()):
            prompt = None if search.is_over else search.ask()
            while prompt is not None and not prompt.has_model:
                await self.tell(search, prompt, [None])
                prompt = None if search.is_over else search.ask()
            if prompt is None:
                self.end(seed, self.searches.pop(seed))
            else:
                prompts.append((search, prompt))
        ended = self.row["searches"]
        if not self.searches and len(ended) == FIRST and 0 < sum(one[3] for one in ended) < FIRST:
            self.searches = self.begin(SEEDS[FIRST:])
            return await self.ask()
        return prompts

    async def tell(self, search: Search, prompt: Prompt, rollouts: Sequence[Rollout | None]) -> None:
        judge = GroupJudge(search, self.judge.evaluate, self.pool, self.known)
        found = await judge.find(prompt, rollouts)
        self.known |= found.fresh
        for tell in judge.tells(prompt, rollouts, found):
            search.tell(tell)

    def end(self, seed: int, search: Search) -> None:
        assert search.best is not None
        is_right = search.is_solved and all(self.judge.evaluate_heldout(search.best.program))
        self.row["searches"].append([seed, search.proposed, int(search.is_solved), int(is_right)])


async def step(pilots: Sequence[Pilot], policy: LocalPolicy) -> None:
    """Let every search ask once, and give all of them their replies, of one batch of the model."""
    sampling = Sampling(max_tokens=MOST_TOKENS)
    asked = [(pilot, *one) for pilot in pilots for one in await pilot.ask()]
    if not asked:
        return
    requests = [policy.request(prompt, range(prompt.rollouts), sampling) for _, _, prompt in asked]
    replies = sample(policy.weights, requests, policy.end_ids)
    for (pilot, search, prompt), request, texts in zip(asked, requests, replies, strict=True):
        rollouts = [
            policy.rollout(prompt, request, index, text, sampling) for index, text in enumerate(texts)
        ]
        await pilot.tell(search, prompt, rollouts)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", type=Path, help="file of the rows; new ones are added")
    parser.add_argument("--seed", type=int, default=0, help="of the families")
    parser.add_argument("--tasks", type=int, default=110, help="tasks to keep")
    parser.add_argument("--siblings", type=int, default=SIBLINGS, help="of a family")
    parser.add_argument("--evaluations", type=int, default=60, help="of one search")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.rows.read_text(encoding="utf-8").splitlines() if options.rows.exists() else []
    done = {row["task"]: row for row in map(json.loads, lines)}
    policy = load_local_policy(PolicyVersion(0, None, str(BUILT_IN_MODEL)))
    kept, active = 0, []
    numbers = fertile(done) if options.siblings > SIBLINGS else itertools.count()
    tasks = named(options.seed, numbers, options.siblings)
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox(workers=1, preload=()) as sandbox,
        ThreadPoolExecutor(1) as pool,
        options.rows.open("a", encoding="utf-8") as file,
    ):
        following = next(tasks, None)
        while (following and kept < options.tasks) or active:
            while len(active) < TASKS_AT_ONCE and following and kept < options.tasks:
                name, drawn = following
                following = next(tasks, None)
                if name in done:
                    kept += is_kept(done[name])
                else:
                    problem = load_problem(write_task(Path(folder), drawn, name))
                    active.append(Pilot(name, problem, sandbox, pool, options.evaluations))
            asyncio.run(step(active, policy))
            for row in (pilot.row for pilot in active if not pilot.searches):
                kept += is_kept(row)
                print(json.dumps(row), file=file, flush=True)
                print(f"{row['task']}: {kept} kept, {time.process_time():.0f} CPU s", flush=True)
            active = [pilot for pilot in active if pilot.searches]


if __name__ == "__main__":
    main()
