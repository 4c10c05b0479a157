"""Train the maze start model to read a parent: `python -m trainer.recipes.maze.parents OUT`.

Training starts from the bundled maze model; half of the prompts have its format. The other half show a route
with its rewards, as in a search; the answer keeps a first part of that route, possibly empty, and is the
first of a few such routes with no lower mean reward. Only completion tokens carry loss. Hidden matrices are
trained with Muon, the rest with AdamW; the learning rate warms up, stays constant, and falls linearly to
zero.
"""

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForCausalLM

from evovpo.builtin.chain import PAD_ID
from evovpo.reports.live import WorkBar
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import Maze, draw_maze
from trainer.domains.maze.maze_family import chain_ids, prompt_ids, read_route, route_ids, route_rewards
from trainer.learning.packing import alike
from trainer.recipes.maze.routes import draw_route
from trainer.recipes.maze.routes import sample_block as plain_block

_CHILDREN_PER_MAZE = 4
_DRAWS = 4
_LOG_EVERY_STEPS = 50


@dataclass(frozen=True)
class ParentsRecipe:
    """All settings of the recipe, stored next to the weights."""

    steps: int = 600
    batch_tokens: int = 4800
    """Tokens per batch, padding included."""
    block_sequences: int = 1024
    block_batches: int = 15
    """Random batches from each block."""
    muon_rate: float = 0.003
    adam_rate: float = 1e-3
    weight_decay: float = 0.02
    warmup_steps: int = 100
    decay_share: float = 0.3
    """Share of the steps, the last ones, over which the learning rate falls to zero."""
    seed: int = 1

    def rate(self, step: int) -> float:
        """Return the learning rate of a step as a share of its peak."""
        fall = self.decay_share * self.steps
        return min(1.0, (step + 1) / self.warmup_steps, max(0.0, (self.steps - step) / fall))


def sample_block(seed: int, index: int, sequences: int) -> list[tuple[list[int], int]]:
    """Return block `index` of the endless data, like `trainer.recipes.maze.routes.sample_block`."""
    rng = Random(f"parents:{seed}:{index}")
    block = plain_block(seed, index, sequences // 2)
    while len(block) < sequences:
        maze = draw_maze(rng)
        for _ in range(min(_CHILDREN_PER_MAZE, sequences - len(block))):
            parent = draw_route(maze, rng)
            prompt = list(prompt_ids(maze, 1, _moves(maze, parent)))
            block.append((prompt + chain_ids([draw_child(maze, parent, rng)]), len(prompt)))
    rng.shuffle(block)
    return block


def draw_child(maze: Maze, parent: tuple[int, ...], rng: Random) -> tuple[int, ...]:
    """Return a route with a prefix of `parent`: the first of a few with no lower reward, else the last."""
    least = sum(route_rewards(maze, _moves(maze, parent)))
    for _ in range(_DRAWS):
        child = draw_route(maze, rng, parent[: rng.randrange(len(parent))])
        if child != parent and sum(route_rewards(maze, _moves(maze, child))) >= least:
            break
    return child


def _moves(maze: Maze, route: tuple[int, ...]) -> str:
    moves = read_route(maze, route_ids(route))
    assert moves is not None
    return moves


def _batches(recipe: ParentsRecipe) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield token ids (B, T), right-padded, and the mask (B, T) of completion tokens, without end."""
    for index in itertools.count():
        block = sample_block(recipe.seed, index, recipe.block_sequences)
        batches = list(alike(block, lambda sequence: len(sequence[0]), recipe.batch_tokens))
        Random(f"{recipe.seed}:{index}:0").shuffle(batches)
        for batch in batches[: recipe.block_batches]:
            # Few different lengths keep the memory of cached matrix kernels small.
            longest = -(-max(len(ids) for ids, _ in batch) // 16) * 16
            ids = torch.full((len(batch), longest), PAD_ID)
            mask = torch.zeros((len(batch), longest), dtype=torch.bool)
            for row, (tokens, prompt) in enumerate(batch):
                ids[row, : len(tokens)] = torch.tensor(tokens)
                mask[row, prompt : len(tokens)] = True
            yield ids, mask


def _loss(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean negative log-likelihood (nats) per completion token.

    Right padding needs no attention mask: causal attention hides it from completion tokens.
    """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[mask[:, 1:]])
    return F.cross_entropy(logits.float(), ids[:, 1:][mask[:, 1:]])


def teach(out: Path, recipe: ParentsRecipe = ParentsRecipe()) -> None:
    """Train and write the model folder to `out`, with the recipe and the loss curve in `training.json`."""
    # On a CPU the backward pass of fused attention is slower than the plain one at these lengths.
    model: Any = AutoModelForCausalLM.from_pretrained(
        MAZE_MODEL, dtype=torch.float32, attn_implementation="eager"
    )
    model.train()
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(
            matrices, lr=recipe.muon_rate, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(rest, lr=recipe.adam_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    rates = [LambdaLR(optimizer, recipe.rate) for optimizer in optimizers]
    log, recent = list[dict[str, float]](), list[float]()
    with WorkBar() as bar:
        for step, (ids, mask) in enumerate(itertools.islice(_batches(recipe), recipe.steps), 1):
            loss = _loss(model, ids, mask)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer, rate in zip(optimizers, rates, strict=True):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                rate.step()
            recent.append(loss.item())
            if step % _LOG_EVERY_STEPS == 0 or step == recipe.steps:
                log.append({"step": step, "loss": round(sum(recent) / len(recent), 4)})
                recent.clear()
            bar.show("teaching", step, recipe.steps, f"loss {log[-1]['loss']:.3f}" if log else "")
    model.save_pretrained(out)
    for file in MAZE_MODEL.glob("tokenizer*"):
        shutil.copy(file, out)
    told = {"recipe": asdict(recipe), "loss_curve": log}
    (out / "training.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("expected one argument, the folder of the model to be written")
    teach(Path(sys.argv[1]))
