"""Packs rollouts into tensors: a sequence holds a prompt once, and several of its completions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

T = TypeVar("T")
PACKED_TOKENS = 512
"""Maximum tokens of a packed sequence. The cost of attention grows with the square of this number."""
TOKENS_AT_ONCE = 2048
"""Maximum tokens per forward and backward pass. Gradients are summed, so this does not change the result."""


class TrainingRow(NamedTuple):
    """A rollout to train on: a prompt and T completion tokens, including the end token if there is one."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """(T), log-probability of each token under the policy that sampled it, at the sampling temperature."""
    advantages: npt.NDArray[np.float64]
    """(T), advantage of each completion token."""


class PackedBatch(NamedTuple):
    """A batch of B packed sequences, each padded to L tokens, with N completion tokens in all.

    A sequence is one prompt, left-padded to P tokens, and some of its completions. A completion attends only
    to its prompt and itself.
    """

    ids: Tensor
    """(B, L), token ids."""
    positions: Tensor
    """(B, L), the position of each token; every completion starts at the position after the prompt."""
    owner: Tensor
    """(B, L), -1 for padding, 0 for the prompt, i for the i-th completion."""
    prompt_length: int
    """P, length of the padded prompts."""
    sequence: Tensor
    """(N), the index of the sequence of each completion token."""
    source: Tensor
    """(N), position whose logits predict each completion token: the preceding token or the prompt's end."""
    completion_ids: Tensor
    """(N), id of each completion token."""
    logprobs: Tensor
    """(N), log-probability of each completion token under the policy that sampled it."""
    advantages: Tensor
    """(N), advantage of each completion token."""


def pack(groups: Sequence[Sequence[TrainingRow]]) -> list[list[TrainingRow]]:
    """Return sequences of at most `PACKED_TOKENS` tokens, each with rows of one group.

    A longer row has a sequence of its own. Raises `ValueError` if rows of a group have different prompts.
    """
    sequences: list[list[TrainingRow]] = []
    for group in groups:
        if len({row.prompt_ids for row in group}) != 1:
            raise ValueError("the rows of a group must share one prompt")
        room = 0
        for row in group:
            if len(row.completion_ids) > room or row is group[0]:
                sequences.append([])
                room = PACKED_TOKENS - len(row.prompt_ids)
            sequences[-1].append(row)
            room -= len(row.completion_ids)
    return sequences


def collate(sequences: Sequence[Sequence[TrainingRow]], device: torch.device | str = "cpu") -> PackedBatch:
    """Return packed sequences as one padded batch."""
    rows = [row for sequence in sequences for row in sequence]
    prompt_length = max(len(row.prompt_ids) for row in rows)
    longest = max(sum(len(row.completion_ids) for row in sequence) for sequence in sequences)
    # Few different lengths keep the memory of cached matrix kernels small.
    length = -(-(prompt_length + longest) // 32) * 32
    prompt_length = length - longest
    ids = np.zeros((len(sequences), length), dtype=np.int64)
    positions = np.zeros_like(ids)
    owner = np.full_like(ids, -1)
    index, source = [], []
    for b, sequence in enumerate(sequences):
        prompt = sequence[0].prompt_ids
        ids[b, prompt_length - len(prompt) : prompt_length] = prompt
        positions[b, prompt_length - len(prompt) : prompt_length] = np.arange(len(prompt))
        owner[b, prompt_length - len(prompt) : prompt_length] = 0
        start = prompt_length
        for number, row in enumerate(sequence, start=1):
            end = start + len(row.completion_ids)
            ids[b, start:end] = row.completion_ids
            positions[b, start:end] = len(prompt) + np.arange(end - start)
            owner[b, start:end] = number
            index.append(np.full(end - start, b))
            source.append(np.concatenate([[prompt_length - 1], np.arange(start, end - 1)]))
            start = end

    def tensor(array: npt.NDArray[Any], kind: torch.dtype = torch.long) -> Tensor:
        return torch.from_numpy(array).to(device, kind)

    return PackedBatch(
        tensor(ids),
        tensor(positions),
        tensor(owner),
        prompt_length,
        tensor(np.concatenate(index)),
        tensor(np.concatenate(source)),
        tensor(np.concatenate([row.completion_ids for row in rows])),
        tensor(np.concatenate([row.logprobs for row in rows]), torch.float32),
        tensor(np.concatenate([row.advantages for row in rows]), torch.float32),
    )


def batches(groups: Sequence[Sequence[TrainingRow]], device: torch.device | str) -> Iterator[PackedBatch]:
    """Yield packed batches of up to `TOKENS_AT_ONCE` tokens or one sequence. Raises the error of `pack`."""

    def tokens(sequence: list[TrainingRow]) -> int:
        return len(sequence[0].prompt_ids) + sum(len(row.completion_ids) for row in sequence)

    for part in alike(pack(groups), tokens, TOKENS_AT_ONCE):
        yield collate(part, device)


def alike(sequences: Iterable[T], length: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield batches of sequences of similar length: up to `most` padded tokens, or a single sequence."""
    part: list[T] = []
    for sequence in sorted(sequences, key=length):
        if part and length(sequence) * (len(part) + 1) > most:
            yield part
            part = []
        part.append(sequence)
    if part:
        yield part
