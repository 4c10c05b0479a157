"""Stored runs of a tiny model, for tests of what trains from them: real tokens, made-up judgements."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Literal

from judging import evaluation
from tiny_models import write_tiny_folder

from evovpo.config import Config, PromptConfig, ProposerConfig
from evovpo.proposers.local import load_local_policy
from evovpo.proposers.sampler import Completion, sample
from evovpo.store import Store
from evovpo.types import (
    Candidate,
    JudgedCandidate,
    Message,
    Objective,
    ParseStatus,
    PolicyVersion,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rewards,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Tell,
    content_id,
)

PROBLEM = Problem(
    id="toy",
    version="toy-1",
    statement="Anything.",
    entry="solve",
    parameters=("text",),
    objectives=(Objective("a"), Objective("b"), Objective("c")),
    seeds=(Program("def solve(text):\n    return text\n"),),
    scorer_path="score.py",
)
SAMPLING = Sampling(temperature=1.0, max_tokens=12)
Judge = Callable[[Sequence[int], Random], Rewards | None]
"""The tokens of an answer to its vector, or none for a sandbox fault; the generator is the answer's own."""


def coin_flips(tokens: Sequence[int], rng: Random) -> Rewards:
    """Return a vector of coin flips: rewards without any meaning."""
    return tuple(float(rng.random() < 0.5) for _ in PROBLEM.objectives)


def write_run(
    store: Store,
    folder: Path,
    run_id: str = "toy-run",
    *,
    groups: int = 6,
    rollouts: int = 4,
    answers: int = 2,
    version: PolicyVersion | None = None,
    seed: int = 0,
    judge: Judge = coin_flips,
    edit: Callable[[Rollout], Rollout] = lambda rollout: rollout,
    sampling: Sampling = SAMPLING,
    proposer: ProposerConfig | None = None,
    style: Literal["auto", "rewrite"] = "auto",
) -> str:
    """Store a run whose completions the model in `folder` (or a version of it) wrote, and return its id.

    The first half of a completion's tokens is its first answer, and so on. `edit` changes a rollout
    before it is stored; `proposer` is what the run says of who wrote them.
    """
    if not folder.exists():
        write_tiny_folder(folder)
    proposer = proposer or ProposerConfig(name="local", model=str(folder))
    config = Config(proposer=proposer, prompt=PromptConfig(style=style))
    store.add_problem(PROBLEM)
    store.add_run(
        Run(run_id, PROBLEM.id, PROBLEM.version, seed, groups * rollouts * answers, config.to_json(),
            RunStatus.RUNNING, "2026-01-02T03:04:05Z")
    )  # fmt: skip
    loaded = load_local_policy(version or PolicyVersion(0, None, str(folder)))
    order = 0
    for sequence in range(groups):
        text = f"{run_id.replace('-', ' ')} {seed} {sequence}\n"
        prompt = Prompt(
            id=f"{run_id}-{sequence}",
            run_id=run_id,
            sequence=sequence,
            tells_before=order,
            kind=PromptKind.ROOT,
            island=0,
            parents=(),
            messages=(Message("user", text),),
            rollouts=rollouts,
            answers=answers,
            seed=int(content_id(text, str(seed)), 16),
        )
        store.add_prompt(prompt)
        request = loaded.request(prompt, range(rollouts), sampling)
        (completions,) = sample(loaded.weights, [request], loaded.end_ids)
        for index, completion in enumerate(completions):
            rollout = edit(loaded.rollout(prompt, request, index, completion, sampling))
            store.add_tell(run_id, judged(rollout, completion, answers, judge), order)
            order += 1
    return run_id


def judged(rollout: Rollout, completion: Completion, answers: int, judge: Judge) -> Tell:
    tokens = completion.token_ids
    edges = [round(len(tokens) * part / answers) for part in range(answers + 1)]
    slots = []
    for slot in range(answers):
        span = (edges[slot], edges[slot + 1])
        program = Program(f"{rollout.id} {slot}")
        rewards = judge(tokens[slice(*span)], Random(program.id))
        candidate = Candidate(
            id=content_id(rollout.id, str(slot)),
            prompt_id=rollout.prompt_id,
            rollout_id=rollout.id,
            slot=slot,
            parse_status=ParseStatus.PARSED,
            program=program,
            token_span=span,
            parents=(),
        )
        slots.append(JudgedCandidate(candidate, evaluation(program.id, PROBLEM.version, rewards), True))
    return Tell(rollout.prompt_id, rollout, tuple(slots))


def without_logprobs(rollout: Rollout) -> Rollout:
    """Return a rollout as a server that gives no log-probabilities leaves it."""
    return dataclasses.replace(rollout, logprobs=None)
