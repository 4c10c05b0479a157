"""Does it help that weightings find their components? Conflict mazes with components that do not belong.

    python tests/bench/adaptive_weights.py --out docs/results/adaptive-weights

A policy is a table: for each maze, a softmax over 300 routes of the kind that the start model learned from,
even at first. So nothing is shared between mazes, and E_w best@12 over the two real components, gold and
diamond, is exact. Each arm is `vpo-at-k` with k = 8 on 24 routes a maze and step; arms of one seed have the
same mazes. Added components are drawn anew in every judgement (noise) or belong to the route (irrelevant).
`gold and diamond` knows which components are real: what can be had at best.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from evovpo.analysis.grouping import Floats
from evovpo.experiments.intervals import difference, mean
from trainer.domains.maze.domain import COMPONENTS, CONFLICT, read_route, route_ids, route_rewards
from trainer.domains.maze.generator import generate_maze
from trainer.objectives import batch_advantages
from trainer.recipes.maze.pretrain import draw_route

K, BUDGET, ROLLOUTS, RATE = 12, 8, 24, 0.3
CASES = ("nothing", "copies", "noisy copies", "noise", "irrelevant", "all of it")
ARMS = ("uniform", "grouped", "adaptive", "gold and diamond")


def routes(name: str, count: int) -> tuple[Floats, Floats]:
    """Return gold and diamonds of different routes through a maze `[N, 2]`, and an irrelevant bit of each."""
    maze, rng = generate_maze(name), Random(name)
    drawn = dict.fromkeys(draw_route(maze, rng) for _ in range(count))
    moves = [read_route(maze, route_ids(cells)) or "" for cells in drawn]
    columns = [COMPONENTS.index(one) for one in CONFLICT]
    rewards = np.array([route_rewards(maze, one) for one in moves])[:, columns]
    bits = [[zlib.crc32(f"{one}{salt}".encode()) % 2 for salt in range(3)] for one in moves]
    return rewards, np.array(bits, dtype=np.float64)


def judged(case: str, rewards: Floats, bits: Floats, rng: np.random.Generator) -> Floats:
    """Return the vectors of judged routes with what the case adds to gold and diamond."""
    everything = case == "all of it"
    parts = [rewards]
    if everything or case == "copies":
        parts.append(np.repeat(rewards[:, :1], 4, axis=1))
    if everything or case == "noisy copies":
        copies = np.repeat(rewards[:, :1], 4, axis=1)
        parts.append(np.clip(copies + rng.normal(0, 0.3, copies.shape), 0, 1))
    if everything or case == "noise":
        parts.append(rng.random((len(rewards), 4)))
    if everything or case == "irrelevant":
        parts.append(bits)
    return np.hstack(parts)


def expected_best(rewards: Floats, p: Floats) -> float:
    """Return E_w of the expected best of K routes drawn from p, over 64 weightings."""
    weights = np.random.default_rng(0).dirichlet(np.ones(rewards.shape[1]), 64)
    scores = rewards @ weights.T
    order = np.argsort(scores, axis=0)
    below = np.cumsum(p[order], axis=0)
    chances = np.diff(np.vstack([np.zeros(len(weights)), below**K]), axis=0)
    return float((chances * np.take_along_axis(scores, order, axis=0)).sum(axis=0).mean())


def trained(case: str, arm: str, mazes: list[tuple[Floats, Floats]], steps: int, seed: int) -> list[float]:
    """Return E_w best@K of each maze after training."""
    rng = np.random.default_rng([seed, CASES.index(case)])
    logits = [np.zeros(len(rewards)) for rewards, _ in mazes]
    weights = "uniform" if arm == "gold and diamond" else arm
    for step in range(steps):
        chosen = [(8 * step + place) % len(mazes) for place in range(min(8, len(mazes)))]
        drawn, groups = [], []
        for index in chosen:
            rewards, bits = mazes[index]
            p = softmax(logits[index])
            drawn.append(rng.choice(len(p), ROLLOUTS, p=p))
            found = judged(case, rewards[drawn[-1]], bits[drawn[-1]], rng)
            groups.append((found[:, :2] if arm == "gold and diamond" else found)[:, None])
        advantages = batch_advantages("vpo-at-k", groups, rng=rng, k=BUDGET, weights=weights)
        for index, places, values in zip(chosen, drawn, advantages, strict=True):
            change = np.bincount(places, values, len(logits[index]))
            logits[index] += RATE * (change - values.sum() * softmax(logits[index]))
    return [expected_best(rewards, softmax(one)) for (rewards, _), one in zip(mazes, logits, strict=True)]


def softmax(logits: Floats) -> Floats:
    """Return the probabilities of logits."""
    grown = np.exp(logits - logits.max())
    return np.asarray(grown / grown.sum())


def table(values: dict[str, dict[str, list[list[float]]]]) -> str:
    """Return the rows as Markdown: E_w best@K of each arm, and minus uniform with its interval."""
    lines = [f"| added | {' | '.join(ARMS)} | grouped − uniform | adaptive − uniform |", "|---" * 7 + "|"]
    for case, by_arm in values.items():
        found = {arm: np.array(rows) for arm, rows in by_arm.items()}
        means = [f"{mean(found[arm]).mean:.3f}" for arm in ARMS]
        gains = [difference(found[arm], found["uniform"]).interval for arm in ARMS[1:3]]
        lines.append(f"| {case} | {' | '.join(means)} | {' | '.join(f'{one:+.3f}' for one in gains)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--mazes", type=int, default=24)
    parser.add_argument("--routes", type=int, default=300)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=Path, help="a folder for rows.json")
    given = parser.parse_args()
    values: dict[str, dict[str, Any]] = {case: {arm: [] for arm in ARMS} for case in CASES}
    for seed in range(given.seeds):
        mazes = [routes(f"weights-{number}", given.routes) for number in range(given.mazes)]
        for case in CASES:
            for arm in ARMS:
                rows = trained(case, arm, mazes, given.steps, seed)
                values[case][arm].append([round(one, 5) for one in rows])
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "rows.json").write_text(json.dumps(values) + "\n")
    print(table(values))


if __name__ == "__main__":
    main()
