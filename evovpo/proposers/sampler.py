"""Samples from a small Llama or Qwen2 model on a CPU, with the log-probability of every sampled token.

For models of a few million parameters, this is several times faster than Hugging Face `generate`:

- The keys and values of a prompt are computed once and shared by all of its replies.
- The norm weights and the attention scale are multiplied into the weight matrices when a model is loaded.
- Finished replies are removed from the batch.

The tokens of a reply depend on the weights and on the reply's prompt, seed, index and sampling settings.
Other replies in the batch affect only the rounding of logits. In a comparison of batches of 64 and 24
replies, all 11,000 tokens were the same.

Top-k, top-p and penalties are not supported, because training needs the log-probabilities of the plain
softmax. Accelerators and bfloat16 are not supported either.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from evovpo.errors import PolicyError
from evovpo.proposers import check_sampling
from evovpo.types import Sampling

ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM")

_STATIC_ROTARY = ("default", "linear", "llama3")

_KEEP_SHARE = 0.8
"""Finished rows are removed when at most this share of the batch still runs. Removal copies the caches, so
removing every finished row at once would cost more than it saves."""


class SampleRequest(NamedTuple):
    prompt_ids: tuple[int, ...]
    seed: int
    indices: tuple[int, ...]
    """Indices of the replies to sample; every reply has its own random numbers."""
    temperature: float
    max_tokens: int


class Completion(NamedTuple):
    """One sampled reply of T tokens, including the end token if there is one."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural-log probabilities at the request's temperature (T)."""
    is_stopped: bool
    """True if the last token is an end token, false if a limit ended the reply."""


class _Layer(NamedTuple):
    """Weights of a layer with hidden size h, inner size I, H query heads and K key heads of size D."""

    qkv: Tensor
    """Shape (h, (H + 2K) D), with norm, attention scale and rotary order folded in."""
    qkv_bias: Tensor | None
    out: Tensor
    """Shape (H D, h)."""
    gate_up: Tensor
    """Shape (h, 2 I), with the norm folded in."""
    down: Tensor
    """Shape (I, h)."""


class Weights:
    """The weights of a Llama or Qwen2 model, rearranged for sampling; read-only.

    Raises `PolicyError` for a model that this sampler does not support.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        check_supported(type(model).__name__, config)
        self.heads: int = config.num_attention_heads
        self.key_heads: int = config.num_key_value_heads
        self.head_size: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.context: int = config.max_position_embeddings
        self.root_size = float(config.hidden_size) ** 0.5
        self.floor = torch.tensor(config.rms_norm_eps**0.5 * self.root_size)
        self.embedding = _float32(model.model.embed_tokens.weight)
        self.head = (_float32(model.lm_head.weight) * self._norm_weight(model.model.norm)).t().contiguous()
        self.layers = [self._layer(layer) for layer in model.model.layers]
        rotary = model.model.rotary_emb
        angles = torch.outer(torch.arange(self.context).float(), _float32(rotary.inv_freq))
        self.rotations = torch.polar(torch.full_like(angles, float(rotary.attention_scaling)), angles)
        """Complex rotations for every position (context, D/2)."""

    def _layer(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        scale = self.head_size**-0.5
        before = self._norm_weight(layer.input_layernorm)
        between = self._norm_weight(layer.post_attention_layernorm)
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        q, k, v = (_float32(p.weight) * before for p in projections)
        qkv = torch.cat([self._paired(q) * scale, self._paired(k), v])
        bias = None
        if attention.q_proj.bias is not None:
            q, k, v = (_float32(p.bias) for p in projections)
            bias = torch.cat([self._paired(q) * scale, self._paired(k), v])
        gate_up = torch.cat([_float32(mlp.gate_proj.weight), _float32(mlp.up_proj.weight)]) * between
        return _Layer(
            qkv=qkv.t().contiguous(),
            qkv_bias=bias,
            out=_float32(attention.o_proj.weight).t().contiguous(),
            gate_up=gate_up.t().contiguous(),
            down=_float32(mlp.down_proj.weight).t().contiguous(),
        )

    def _paired(self, rows: Tensor) -> Tensor:
        """Move coordinates i and i + D/2 of each head, which form a rotary pair, to 2i and 2i + 1."""
        halves = rows.reshape(-1, 2, self.head_size // 2, *rows.shape[1:])
        return halves.transpose(1, 2).reshape(rows.shape)

    def norm(self, x: Tensor) -> Tensor:
        """Return x / sqrt(sum(x²) + h * epsilon) for each row of x, which has the shape (rows, h).

        The other two factors of the RMS norm, its weight and sqrt(h), are parts of the next weight matrix.
        """
        lengths: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / lengths.hypot_(self.floor)

    def _norm_weight(self, norm: Any) -> Tensor:
        return torch.mul(_float32(norm.weight), self.root_size)

    def feed_forward(self, layer: _Layer, x: Tensor) -> None:
        """Add the output of a layer's feed-forward block to x, of shape (rows, h), in place."""
        gate, up = (self.norm(x) @ layer.gate_up).chunk(2, -1)
        x.addmm_(F.silu(gate).mul_(up), layer.down)


def _float32(weight: Tensor) -> Tensor:
    return weight.detach().float()


def check_supported(name: str, config: Any) -> None:
    """Raise `PolicyError` for an architecture or option that the sampler does not support."""
    if name not in ARCHITECTURES:
        raise PolicyError(
            f"the local proposer samples from {' and '.join(ARCHITECTURES)}, not from {name}; "
            "serve this model with vLLM and use the openai proposer"
        )
    rope_type = (config.rope_parameters or {}).get("rope_type", "default")
    unsupported = {
        f"hidden_act={config.hidden_act!r}": config.hidden_act != "silu",
        "mlp_bias=true": getattr(config, "mlp_bias", False),
        "attention_bias=true": getattr(config, "attention_bias", False),
        "use_sliding_window=true": getattr(config, "use_sliding_window", False),
        f"rope_type={rope_type!r}": rope_type not in _STATIC_ROTARY,
    }
    found = [option for option, is_set in unsupported.items() if is_set]
    if found:
        raise PolicyError(
            f"the local proposer does not compute {name} with {', '.join(found)}; "
            "serve this model with vLLM and use the openai proposer"
        )


class _Prefix(NamedTuple):
    """Keys and values of P prompts in L layers, left-padded to the same length Tp."""

    keys: Tensor
    """Shape (L, P, K, D, Tp): transposed for the product with the queries."""
    values: Tensor
    """Shape (L, P, K, Tp, D)."""
    lengths: npt.NDArray[np.int64]
    """Length of each prompt in tokens (P)."""


class _Batch:
    """The B replies being sampled (rows), with their cached keys and values.

    Rows are sorted by prompt. Attention uses a grid of P prompts with n rows each. Copies of a row fill the
    grid if a prompt has fewer rows; their results are ignored.
    """

    def __init__(
        self, weights: Weights, prefix: _Prefix, prompt_of_row: npt.NDArray[np.int64], capacity: int
    ) -> None:
        w = self.weights = weights
        self.prefix = prefix
        self.prompt_of_row = prompt_of_row
        self.length = 0
        layers, prompts, key_heads, size, padded = prefix.keys.shape
        counts = np.bincount(prompt_of_row, minlength=prompts)
        rows, places = len(prompt_of_row), int(counts.max())
        group = w.heads // key_heads
        first = np.cumsum(counts) - counts
        place_of_row = np.arange(rows) - first[prompt_of_row]
        self.slot_of_row = prompt_of_row * places + place_of_row
        slots = prompts * places
        self.grid_shape = (prompts, key_heads, places)
        self.is_full = rows == slots
        width = (w.heads + 2 * key_heads) * size

        self.qkv = torch.empty(rows, width)
        grid = self.qkv
        if not self.is_full:
            row_of_slot = np.repeat(first, places)
            row_of_slot[self.slot_of_row] = np.arange(rows)
            self.gather_in = torch.from_numpy(row_of_slot)
            self.gather_out = torch.from_numpy(self.slot_of_row)
            grid = self.grid = torch.empty(slots, width)
        pairs = torch.view_as_complex(grid.view(prompts, places, -1, size // 2, 2))
        self.q_in = pairs[:, :, : w.heads].view(prompts, places, key_heads, group, size // 2).transpose(1, 2)
        self.k_in = pairs[:, :, w.heads : w.heads + key_heads].transpose(1, 2)
        self.v_in = grid.view(prompts, places, -1, size)[:, :, w.heads + key_heads :].transpose(1, 2)

        self.q = torch.empty(prompts, key_heads, places, group, size)
        self.q_pairs = torch.view_as_complex(self.q.view(*self.q.shape[:-1], size // 2, 2))
        self.q_prefix = self.q.view(prompts * key_heads, places * group, size)
        self.q_suffix = self.q.view(slots * key_heads, group, size)
        self.k_prefix = [k.reshape(prompts * key_heads, size, padded) for k in prefix.keys]
        self.v_prefix = [v.reshape(prompts * key_heads, padded, size) for v in prefix.values]
        self.cache = torch.empty(2, layers, slots * key_heads, capacity, size)
        shape = (*self.grid_shape, capacity, size // 2)
        self.k_cache_pairs = [torch.view_as_complex(k.view(*shape, 2)) for k in self.cache[0]]
        self.v_cache_grid = [v.view(*self.grid_shape, capacity, size) for v in self.cache[1]]
        self.k_cache = [k.transpose(1, 2) for k in self.cache[0]]
        self.v_cache = list(self.cache[1])

        self.scores_prefix = torch.empty(prompts * key_heads, places * group, padded)
        self.bias = None
        if (prefix.lengths != padded).any():
            is_padding = np.arange(padded) < padded - prefix.lengths[:, None]
            bias = np.where(is_padding, -np.inf, 0.0).astype(np.float32)
            self.bias = torch.from_numpy(bias).view(prompts, 1, 1, padded)
            self.scores_biased = self.scores_prefix.view(prompts, key_heads, places * group, padded)
        self.mixed = torch.empty(prompts, key_heads, places, group, size)
        self.mixed_prefix = self.mixed.view(prompts * key_heads, places * group, size)
        self.mixed_suffix = self.mixed.view(slots * key_heads, group, size)
        self.mixed_transposed = self.mixed.transpose(1, 2)
        self.mixed_slots = torch.empty(prompts, places, key_heads, group, size)
        self.mixed_flat = self.mixed_slots.view(slots, w.heads * size)
        self.positions = torch.from_numpy(prefix.lengths)
        self.padded = padded

    def keep(self, rows: npt.NDArray[np.int64], capacity: int) -> "_Batch":
        """Return a batch of the given rows (ascending), with room for `capacity` sampled tokens per row."""
        kept_prompts, prompt_of_row = np.unique(self.prompt_of_row[rows], return_inverse=True)
        prefix = self.prefix
        if len(kept_prompts) < len(prefix.lengths):
            index = torch.from_numpy(kept_prompts)
            lengths = prefix.lengths[kept_prompts]
            start = prefix.keys.shape[-1] - int(lengths.max())
            keys, values = prefix.keys[..., start:], prefix.values[..., start:, :]
            prefix = _Prefix(keys.index_select(1, index), values.index_select(1, index), lengths)
        kept = _Batch(self.weights, prefix, prompt_of_row, capacity)
        prompts, key_heads, places = kept.grid_shape
        old_slots = self.slot_of_row[rows]
        source = np.full(prompts * places, old_slots[0])
        source[kept.slot_of_row] = old_slots
        old_prompt, old_place = np.divmod(source.reshape(prompts, 1, places), self.grid_shape[2])
        heads = np.arange(key_heads)[None, :, None]
        index = torch.from_numpy(((old_prompt * key_heads + heads) * self.grid_shape[2] + old_place).ravel())
        kept.cache[:, :, :, : self.length] = self.cache[:, :, :, : self.length].index_select(2, index)
        kept.length = self.length
        return kept

    def step(self, tokens: Tensor) -> Tensor:
        """Append a token to each row. `tokens` has shape (B,). Return the next logits, of shape (B, V)."""
        w, t, padded = self.weights, self.length, self.padded
        rotation = w.rotations.index_select(0, self.positions + t)[:, None, None]
        rotation_q = rotation.unsqueeze(3)
        x = w.embedding.index_select(0, tokens)
        for i, layer in enumerate(w.layers):
            y = w.norm(x)
            if layer.qkv_bias is None:
                torch.mm(y, layer.qkv, out=self.qkv)
            else:
                torch.addmm(layer.qkv_bias, y, layer.qkv, out=self.qkv)
            if not self.is_full:
                torch.index_select(self.qkv, 0, self.gather_in, out=self.grid)
            torch.mul(self.q_in, rotation_q, out=self.q_pairs)
            torch.mul(self.k_in, rotation, out=self.k_cache_pairs[i][:, :, :, t])
            self.v_cache_grid[i][:, :, :, t].copy_(self.v_in)
            torch.bmm(self.q_prefix, self.k_prefix[i], out=self.scores_prefix)
            suffix = torch.bmm(self.q_suffix, self.k_cache[i][:, :, : t + 1])
            if self.bias is not None:
                self.scores_biased.add_(self.bias)
            scores = torch.cat([self.scores_prefix, suffix.view(*self.scores_prefix.shape[:2], t + 1)], -1)
            shares = torch.softmax(scores, -1)
            torch.bmm(shares[:, :, :padded], self.v_prefix[i], out=self.mixed_prefix)
            own = shares.view(*self.q_suffix.shape[:2], -1)[:, :, padded:]
            self.mixed_suffix.baddbmm_(own, self.v_cache[i][:, : t + 1])
            self.mixed_slots.copy_(self.mixed_transposed)
            mixed = self.mixed_flat if self.is_full else self.mixed_flat.index_select(0, self.gather_out)
            x.addmm_(mixed, layer.out)
            w.feed_forward(layer, x)
        self.length += 1
        return w.norm(x) @ w.head


def _prefill(w: Weights, prompts: Sequence[Sequence[int]]) -> tuple[_Prefix, Tensor]:
    """Return the keys and values of the prompts, and the logits of the next tokens, of shape (P, V)."""
    lengths = np.array([len(ids) for ids in prompts])
    padded = int(lengths.max())
    k_heads, size = w.key_heads, w.head_size
    keys = torch.zeros(len(w.layers), len(prompts), k_heads, size, padded)
    values = torch.zeros(len(w.layers), len(prompts), k_heads, padded, size)
    last = []
    for p, ids in enumerate(prompts):
        start = padded - len(ids)
        x = w.embedding[torch.tensor(ids)]
        for i, layer in enumerate(w.layers):
            y = w.norm(x)
            qkv = y @ layer.qkv if layer.qkv_bias is None else torch.addmm(layer.qkv_bias, y, layer.qkv)
            qkv = qkv.view(len(ids), -1, size)
            pairs = torch.view_as_complex(qkv[:, : w.heads + k_heads].view(len(ids), -1, size // 2, 2))
            qk = torch.view_as_real(pairs * w.rotations[: len(ids), None]).flatten(-2).transpose(0, 1)
            q, k, v = qk[: w.heads], qk[w.heads :], qkv[:, w.heads + k_heads :].transpose(0, 1)
            keys[i, p, :, :, start:] = k.transpose(1, 2)
            values[i, p, :, start:] = v
            is_last = i == len(w.layers) - 1
            if is_last:  # only the last position is needed
                x, q = x[-1:], q[:, -1:]
            mixed = F.scaled_dot_product_attention(
                q[None], k[None], v[None], is_causal=not is_last, scale=1.0, enable_gqa=True
            )
            x = torch.addmm(x, mixed[0].transpose(0, 1).flatten(1), layer.out)
            w.feed_forward(layer, x)
        last.append(x)
    return _Prefix(keys, values, lengths), w.norm(torch.cat(last)) @ w.head


def uniforms(seed: int, index: int, count: int) -> npt.NDArray[np.float32]:
    """Return `count` random numbers for the tokens of reply `index`: multiples of 2^-24 in [0, 1)."""
    key = np.array([seed % 2**64, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random(count, dtype=np.float32)


def draw(scaled: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Sample one token per row. Return token ids and log-probabilities, both of shape (B,).

    `scaled` contains the logits divided by the temperature, of shape (B, V). `uniform` contains a random
    multiple of 2^-24 in [0, 1) for each row.
    """
    probabilities = torch.softmax(scaled, -1)
    cumulative = probabilities.cumsum(-1)
    # The threshold is at most 1 - 2^-24 of the total and never rounds up to the total. A token of positive
    # probability is therefore always found.
    threshold = uniform * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, threshold[:, None], right=True)
    return tokens[:, 0], probabilities.gather(1, tokens)[:, 0].log_()


def sample(
    weights: Weights, requests: Sequence[SampleRequest], end_ids: Sequence[int]
) -> list[list[Completion]]:
    """Return, for each request, one completion per index in `request.indices`, in that order.

    A reply ends at the first token in `end_ids`, at `max_tokens`, or at the end of the model's context.
    Raises the errors of `check_request`, and `PolicyError` for a model whose logits are not finite.
    """
    for request in requests:
        check_request(request, weights.context)
    with torch.inference_mode():
        return _sample(weights, requests, np.array(sorted(end_ids)))


def check_request(request: SampleRequest, context: int) -> None:
    """Raise `ConfigError` for invalid settings, and `PolicyError` for an empty or too long prompt."""
    check_sampling(Sampling(request.temperature, request.max_tokens))
    if not 0 < len(request.prompt_ids) < context:
        raise PolicyError(
            f"the prompt has {len(request.prompt_ids)} tokens; the model reads from 1 to {context - 1}; "
            "shorten the prompt or use a model with a longer context"
        )


def _sample(
    weights: Weights, requests: Sequence[SampleRequest], end_ids: npt.NDArray[np.int64]
) -> list[list[Completion]]:
    pairs = [(r, i) for r, request in enumerate(requests) for i in request.indices]
    if not pairs:
        return [[] for _ in requests]
    prompts = sorted({requests[r].prompt_ids for r, _ in pairs})
    number = {ids: p for p, ids in enumerate(prompts)}
    pairs.sort(key=lambda pair: number[requests[pair[0]].prompt_ids])
    request_of_row = [requests[r] for r, _ in pairs]
    prompt_of_row = np.array([number[request.prompt_ids] for request in request_of_row])
    room = weights.context - np.array([len(request.prompt_ids) for request in request_of_row])
    limits = np.minimum(room, [request.max_tokens for request in request_of_row])
    temperatures = torch.tensor([request.temperature for request in request_of_row])[:, None]
    is_scaled = bool((temperatures != 1).any())
    rows, longest = len(pairs), int(limits.max())
    uniform_T_B = torch.from_numpy(np.stack([uniforms(requests[r].seed, i, longest) for r, i in pairs], 1))

    tokens_B_T = np.zeros((rows, longest), dtype=np.int64)
    logprobs_B_T = np.zeros((rows, longest), dtype=np.float32)
    lengths = np.zeros(rows, dtype=np.int64)
    is_stopped = np.zeros(rows, dtype=bool)

    prefix, logits = _prefill(weights, prompts)
    if not logits.isfinite().all():
        raise PolicyError(
            "the model gives logits that are not finite, so that nothing can be sampled; its training "
            "diverged or its files are damaged: use another version"
        )
    logits = logits.index_select(0, torch.from_numpy(prompt_of_row))
    batch = _Batch(weights, prefix, prompt_of_row, longest)
    live = np.arange(rows)  # index of each row of the batch in the arrays above
    is_running = np.ones(rows, dtype=bool)
    for t in range(longest):
        tokens, logprobs = draw(logits / temperatures if is_scaled else logits, uniform_T_B[t])
        drawn = tokens.numpy()
        tokens_B_T[live, t] = drawn
        logprobs_B_T[live, t] = logprobs.numpy()
        at_end = (drawn[:, None] == end_ids).any(1)
        ends = is_running & (at_end | (limits[live] == t + 1))
        if ends.any():
            lengths[live[ends]] = t + 1
            is_stopped[live[ends]] = at_end[ends]
            is_running &= ~ends
            kept = np.flatnonzero(is_running)
            if not len(kept):
                break
            if len(kept) <= _KEEP_SHARE * len(live):
                live, is_running = live[kept], is_running[kept]
                batch = batch.keep(kept, int(limits[live].max()))
                index = torch.from_numpy(kept)
                tokens, temperatures, uniform_T_B = tokens[index], temperatures[index], uniform_T_B[:, index]
        logits = batch.step(tokens)

    completions = {
        pair: Completion(tuple(tokens[:n].tolist()), tuple(logprobs[:n].tolist()), bool(stopped))
        for pair, tokens, logprobs, n, stopped in zip(
            pairs, tokens_B_T, logprobs_B_T, lengths, is_stopped, strict=True
        )
    }
    return [[completions[r, i] for i in request.indices] for r, request in enumerate(requests)]
