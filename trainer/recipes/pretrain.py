"""Train the built-in model from scratch: `python -m trainer.recipes.pretrain OUT`.

A small Llama model learns to write string expressions from alignment prompts, which
`trainer/domains/strings/tasks.py` makes without end; only completion tokens carry loss. The learning rate
warms up, stays constant, and falls linearly to zero, so that a run can be lengthened until the fall begins.
Hidden matrices are trained with Muon, the rest with AdamW. The same command resumes.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from evovpo.builtin.chain import BEGIN_ID, END_ID, PAD_ID
from evovpo.files import written_whole
from evovpo.reports.live import WorkBar
from trainer.domains.strings.tasks import sample_sequence
from trainer.learning.packing import alike
from trainer.recipes.tokenizer import build_tokenizer

MAX_TOKENS = 448
"""Longer sequences are dropped; fewer than one in two hundred is."""
_MARKS: dict[str, Any] = {"pad_token_id": PAD_ID, "bos_token_id": BEGIN_ID, "eos_token_id": END_ID}
_LOG_EVERY = 50
"""Steps in a row of the loss curve."""


@dataclass(frozen=True)
class PretrainConfig:
    """The whole recipe; stored next to the weights."""

    hidden_size: int = 128
    layers: int = 5
    heads: int = 4
    intermediate_size: int = 384
    steps: int = 3000
    batch_tokens: int = 14_400
    """Padded tokens of a batch, about 100 sequences."""
    block_sequences: int = 2048
    block_batches: int = 19
    """Batches taken from each block, drawn at random; a block gives 20 or 21."""
    muon_rate: float = 0.007
    adam_rate: float = 3e-3
    weight_decay: float = 0.02
    warmup_steps: int = 100
    decay_share: float = 0.3
    """Last share of the steps over which the learning rate falls to zero."""
    seed: int = 1
    start: str = ""
    """Folder of a model whose weights it begins with; empty for random ones."""


def build_model(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return the untrained model."""
    torch.manual_seed(config.seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads,
            intermediate_size=config.intermediate_size,
            max_position_embeddings=768,
            tie_word_embeddings=True,
            **_MARKS,
        )
    )


Sequence = tuple[list[int], int]
"""Token ids of prompt and completion, and the length of the prompt."""


def string_block(seed: int, index: int, sequences: int, tokenizer: PreTrainedTokenizerFast) -> list[Sequence]:
    """Return block `index` of the endless data of a seed, without what is longer than `MAX_TOKENS`."""
    rng = Random(f"{seed}:{index}")
    pairs = [sample_sequence(rng) for _ in range(sequences)]
    prompts = tokenizer([prompt for prompt, _ in pairs])["input_ids"]
    completions = tokenizer([completion for _, completion in pairs])["input_ids"]
    return [
        (prompt + completion, len(prompt))
        for prompt, completion in zip(prompts, completions, strict=True)
        if len(prompt) + len(completion) <= MAX_TOKENS
    ]


class PretrainData(NamedTuple):
    """The training data of a model; module-level functions, because other processes call them."""

    build_tokenizer: Callable[[], PreTrainedTokenizerFast]
    sample_block: Callable[[int, int, int, PreTrainedTokenizerFast], list[Sequence]]
    """(seed, index, sequences, tokenizer) to block `index` of the data of `seed`."""


STRINGS = PretrainData(build_tokenizer, string_block)
"""String expressions from alignment prompts: the built-in model."""


def batches(block: list[Sequence], config: PretrainConfig, rng: Random) -> list[list[Sequence]]:
    """Return the block cut into batches of similar lengths, in random order."""
    found = list(alike(block, lambda sequence: len(sequence[0]), config.batch_tokens))
    rng.shuffle(found)
    return found


def collate(batch: list[Sequence]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids (B, T), padded on the right, and the mask (B, T) of completion tokens."""
    # Few different lengths keep the memory of cached matrix kernels small.
    longest = -(-max(len(ids) for ids, _ in batch) // 16) * 16
    ids = torch.full((len(batch), longest), PAD_ID)
    mask = torch.zeros((len(batch), longest), dtype=torch.bool)
    for row, (tokens, prompt) in enumerate(batch):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, prompt : len(tokens)] = True
    return ids, mask


def completion_loss(model: LlamaForCausalLM, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean negative log-likelihood (nats) per completion token.

    Right padding needs no attention mask: under causal attention no completion token sees it.
    """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[mask[:, 1:]])
    return F.cross_entropy(logits.float(), ids[:, 1:][mask[:, 1:]])


def rate_factor(step: int, config: PretrainConfig) -> float:
    """Return the learning rate of a step as a share of its peak."""
    fall = config.decay_share * config.steps
    return min(1.0, (step + 1) / config.warmup_steps, max(0.0, (config.steps - step) / fall))


def build_optimizers(model: LlamaForCausalLM, config: PretrainConfig) -> list[torch.optim.Optimizer]:
    """Return Muon over the hidden matrices and AdamW over embeddings and norms."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(
            matrices, lr=config.muon_rate, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(rest, lr=config.adam_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


@dataclass
class _Batches(IterableDataset[tuple[int, torch.Tensor, torch.Tensor]]):
    """(Block, ids, mask) of each batch, without end; a worker of the loader samples ahead."""

    config: PretrainConfig
    language: PretrainData
    first_block: int

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        config = self.config
        tokenizer = self.language.build_tokenizer()
        for index in itertools.count(self.first_block):
            block = self.language.sample_block(config.seed, index, config.block_sequences, tokenizer)
            found = batches(block, config, Random(f"{config.seed}:{index}:0"))
            for batch in found[: config.block_batches]:
                yield index, *collate(batch)


def save_policy(
    folder: Path,
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    config: PretrainConfig,
    log: list[dict[str, float]],
) -> None:
    """Write the model folder: weights, tokenizer, sampling defaults, recipe and loss curve."""
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **_MARKS)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    told = {"recipe": asdict(config), "loss_curve": log}
    (folder / "training.json").write_text(json.dumps(told, indent=1) + "\n")


def pretrain(out: Path, config: PretrainConfig, language: PretrainData = STRINGS) -> None:
    """Train and write the model folder to `out`; continues from `out/checkpoint.pt` if it is there."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = language.build_tokenizer()
    model = build_model(config, tokenizer)
    if config.start:
        model.load_state_dict(LlamaForCausalLM.from_pretrained(config.start).state_dict())
    # On CPU the backward pass of fused attention costs more than the plain one at these lengths.
    model.set_attn_implementation("eager")
    optimizers = build_optimizers(model, config)
    checkpoint = out / "checkpoint.pt"
    step, first_block, log, seconds = 0, 0, list[dict[str, float]](), 0.0
    if checkpoint.exists():
        weights, states, step, first_block, log, seconds = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(weights)
        for optimizer, state in zip(optimizers, states, strict=True):
            optimizer.load_state_dict(state)
    started, last = time.monotonic() - seconds, first_block
    recent: list[tuple[float, int, int]] = []
    model.train()
    loader = DataLoader(
        _Batches(config, language, first_block),
        batch_size=None,
        num_workers=1,
        prefetch_factor=2 * config.block_batches,
        multiprocessing_context="spawn",
    )
    with WorkBar() as bar:
        for block, ids, mask in loader:
            seconds = time.monotonic() - started
            if block != last:
                last, states = block, [optimizer.state_dict() for optimizer in optimizers]
                with written_whole(checkpoint) as part:
                    torch.save((model.state_dict(), states, step, block, log, seconds), part)
            if step >= config.steps:
                break
            loss = _update(model, optimizers, rate_factor(step, config), config, ids, mask)
            step += 1
            recent.append((loss, len(ids), ids.numel()))
            if step % _LOG_EVERY == 0 or step == config.steps:
                losses, sequences, tokens = zip(*recent, strict=True)
                log.append(
                    {"step": step, "loss": round(sum(losses) / len(losses), 4), "sequences": sum(sequences),
                     "padded_tokens": sum(tokens), "seconds": round(seconds)}
                )  # fmt: skip
                (out / "loss.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
                recent.clear()
            bar.show("pretraining", step, config.steps, f"loss {log[-1]['loss']:.3f}" if log else "")
    save_policy(out, model, tokenizer, config, log)


def _update(
    model: LlamaForCausalLM,
    optimizers: list[torch.optim.Optimizer],
    factor: float,
    config: PretrainConfig,
    ids: torch.Tensor,
    mask: torch.Tensor,
) -> float:
    """Take one optimiser step at a share of the peak learning rates, and return the loss."""
    loss = completion_loss(model, ids, mask)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer, peak in zip(optimizers, (config.muon_rate, config.adam_rate), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = peak * factor
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


def main(config: PretrainConfig, language: PretrainData) -> None:
    """Command line of a recipe."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("expected one argument, the folder for checkpoints and the finished model")
    pretrain(Path(sys.argv[1]), config, language)


if __name__ == "__main__":
    main(PretrainConfig(), STRINGS)
