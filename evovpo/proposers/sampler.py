"""Sampling from a small Llama or Qwen2 model on a CPU, with the log-probability of every sampled token.

A loop of our own, because Hugging Face `generate` costs several times as much for models of a few million
parameters, where the number of tensor operations in a step and the bytes that attention reads decide. So

- a prompt is prefilled once, and its keys and values are shared by all of its rows, not copied to each;
- what can be folded into the weights is folded at load: norms, the attention scale, query, key and value in
  one product, gate and up in one product, rotary pairs side by side so that a rotation is one complex
  multiplication;
- rows that have finished leave the batch.

What a row samples depends on the weights, its prompt, its seed, its index and its sampling settings, not on
its neighbours: row (seed, index) has a counter-based generator of its own, one uniform number a step, which
the inverse of the cumulative distribution turns into a token. The logits of a row may differ in their last
bits between batches of different shapes. That changes a token only if the uniform number falls within the
same distance (some 1e-6) of the boundary between two tokens; none of 11,000 tokens did when batches of 64
and 24 rows were compared. Rounding the logits would not help, as it has boundaries of its own.

Left out on purpose: top-k, top-p and penalties, since a trainer needs the log-probabilities of the plain
softmax at one temperature; bfloat16, which makes the products up to 1.6 times faster from 16 rows on where
the processor has it, but rounds the log-probabilities; accelerators.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (the name that everyone gives it)
from torch import Tensor

from evovpo.errors import PolicyError
from evovpo.proposers import check_sampling
from evovpo.types import Sampling

ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM")
"""The model classes, by their Hugging Face names, that this sampler computes."""

_STATIC_ROTARY = ("default", "linear", "llama3")
"""Kinds of rotary embedding whose angles do not change with the length of the text."""

_KEEP_SHARE = 0.8
"""The batch is rebuilt without its finished rows when no more than this share still runs. A rebuild
copies the caches, so doing it at every finished row costs more than it saves."""


class Request(NamedTuple):
    """Replies to sample for one prompt."""

    prompt_ids: tuple[int, ...]
    seed: int
    indices: tuple[int, ...]
    """The replies wanted; reply i has random numbers of its own, whichever others are asked."""
    temperature: float
    max_tokens: int


class Completion(NamedTuple):
    """One sampled reply: T tokens, the end token included when there is one."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithms of the probabilities at the request's temperature (T)."""
    is_stopped: bool
    """True if the last token is an end token, false if a limit cut the reply."""


class _Layer(NamedTuple):
    """Weights of one layer, transposed for `x @ w`: h hidden, H heads of size D, K key heads."""

    qkv: Tensor
    """(h, (H + 2K) D), with the norm, the attention scale and the rotary order folded in."""
    qkv_bias: Tensor
    """Zeros where the model has none."""
    out: Tensor
    """(H D, h)"""
    out_bias: Tensor
    gate_up: Tensor
    """(h, 2 I), with the norm folded in."""
    down: Tensor
    """(I, h)"""


class Weights:
    """The weights of a Llama or Qwen2 model, rearranged for sampling; they do not change.

    Raises `PolicyError` for a model that this sampler does not compute exactly.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        check_supported(type(model).__name__, config)
        self.heads: int = config.num_attention_heads
        self.key_heads: int = config.num_key_value_heads
        self.head_size: int = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.context: int = config.max_position_embeddings
        self.root_size = float(config.hidden_size) ** 0.5
        self.floor = torch.tensor(config.rms_norm_eps**0.5 * self.root_size)
        self.embedding = _float32(model.model.embed_tokens.weight)
        self.head = (_float32(model.lm_head.weight) * self._norm_weight(model.model.norm)).t().contiguous()
        self.layers = [self._layer(layer) for layer in model.model.layers]
        rotary = model.model.rotary_emb
        angles = torch.outer(torch.arange(self.context).float(), _float32(rotary.inv_freq))
        self.rotations = torch.polar(torch.full_like(angles, float(rotary.attention_scaling)), angles)
        """(context, D/2), complex"""

    def _layer(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        scale = self.head_size**-0.5
        before = self._norm_weight(layer.input_layernorm)
        between = self._norm_weight(layer.post_attention_layernorm)
        inner = (attention.q_proj, attention.k_proj, attention.v_proj)
        q, k, v = (_float32(part.weight) * before for part in inner)
        q_bias, k_bias, v_bias = map(_bias, inner)
        gate_up = torch.cat([_float32(mlp.gate_proj.weight), _float32(mlp.up_proj.weight)]) * between
        return _Layer(
            qkv=torch.cat([self._paired(q) * scale, self._paired(k), v]).t().contiguous(),
            qkv_bias=torch.cat([self._paired(q_bias) * scale, self._paired(k_bias), v_bias]),
            out=_float32(attention.o_proj.weight).t().contiguous(),
            out_bias=_bias(attention.o_proj),
            gate_up=gate_up.t().contiguous(),
            down=_float32(mlp.down_proj.weight).t().contiguous(),
        )

    def _paired(self, rows: Tensor) -> Tensor:
        """Put the two coordinates that rotate together side by side: (i, i + D/2) -> (2i, 2i + 1).

        Queries and keys are reordered alike, so their products stay the same.
        """
        halves = rows.reshape(-1, 2, self.head_size // 2, *rows.shape[1:])
        return halves.transpose(1, 2).reshape(rows.shape)

    def norm(self, x: Tensor) -> Tensor:
        """Return x (rows, h) over its length; the rest of the RMS norm is in the next product.

        x / sqrt(mean(x²) + epsilon) is sqrt(h) x / hypot(|x|, sqrt(h epsilon)); a third of the time.
        """
        lengths: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / lengths.hypot_(self.floor)

    def _norm_weight(self, norm: Any) -> Tensor:
        return torch.mul(_float32(norm.weight), self.root_size)

    def attention_inputs(self, layer: _Layer, x: Tensor, rotation: Tensor) -> Tensor:
        """Return queries, keys and values (rows, H + 2K, D) of x (rows, h), all but the values rotated."""
        qkv = torch.addmm(layer.qkv_bias, self.norm(x), layer.qkv).view(len(x), -1, self.head_size)
        pairs = qkv[:, : self.heads + self.key_heads].unflatten(2, (-1, 2))
        torch.view_as_complex(pairs).mul_(rotation)
        return qkv

    def feed_forward(self, layer: _Layer, x: Tensor) -> None:
        """Add the feed-forward part of a layer to x (rows, h), in place."""
        gate, up = (self.norm(x) @ layer.gate_up).chunk(2, -1)
        x.addmm_(F.silu(gate).mul_(up), layer.down)


def _float32(weight: Tensor) -> Tensor:
    return weight.detach().float()


def _bias(part: Any) -> Tensor:
    return torch.zeros(part.out_features) if part.bias is None else _float32(part.bias)


def check_supported(name: str, config: Any) -> None:
    """Raise `PolicyError` for an architecture or option that the sampling loop does not compute."""
    if name not in ARCHITECTURES:
        raise PolicyError(
            f"the local proposer samples from {' and '.join(ARCHITECTURES)}, not from {name}; "
            "serve this model with vLLM and use the openai proposer"
        )
    rope_type = (config.rope_parameters or {}).get("rope_type", "default")
    unsupported = {
        f"hidden_act={config.hidden_act!r}": config.hidden_act != "silu",
        "mlp_bias=true": getattr(config, "mlp_bias", False),
        "use_sliding_window=true": getattr(config, "use_sliding_window", False),
        f"rope_type={rope_type!r}": rope_type not in _STATIC_ROTARY,
    }
    found = [option for option, is_set in unsupported.items() if is_set]
    if found:
        raise PolicyError(
            f"the local proposer does not compute {name} with {', '.join(found)}; "
            "serve this model with vLLM and use the openai proposer"
        )


class _Group:
    """The n rows in flight of one prompt of Tp tokens, which share its keys and values and have their own."""

    def __init__(self, weights: Weights, prompt_ids: Sequence[int], rows: int, capacity: int) -> None:
        """Read the prompt, alone: what comes out is the same whatever stands beside it."""
        w = self.weights = weights
        self.length, self.rows = len(prompt_ids), rows
        self.own = torch.empty(len(w.layers), 2 * w.key_heads, rows, capacity, w.head_size)
        """Keys and values of new tokens (L, 2K, n, capacity, D)."""
        self.keys: list[Tensor] = []
        """Of the prompt in each layer (K, D, Tp)."""
        self.values: list[Tensor] = []
        """Of the prompt in each layer (K, Tp, D)."""
        x = w.embedding[torch.tensor(prompt_ids)]
        for i, layer in enumerate(w.layers):
            qkv = w.attention_inputs(layer, x, w.rotations[: self.length, None]).transpose(0, 1)
            q, k, v = qkv.split([w.heads, w.key_heads, w.key_heads])
            self.keys.append(k.transpose(1, 2).contiguous())
            self.values.append(v.contiguous())
            is_last = i == len(w.layers) - 1
            if is_last:  # nothing but the last position is read any more
                x, q = x[-1:], q[:, -1:]
            mixed = F.scaled_dot_product_attention(
                q[None], k[None], v[None], is_causal=not is_last, scale=1.0, enable_gqa=True
            )
            x = torch.addmm(x, mixed[0].transpose(0, 1).flatten(1), layer.out).add_(layer.out_bias)
            w.feed_forward(layer, x)
        self.last = x
        """What follows from the last token of the prompt (1, h)."""

    def keep(self, rows: npt.NDArray[np.int64]) -> None:
        """Let all but the given rows go."""
        self.own = self.own.index_select(2, torch.from_numpy(rows))
        self.rows = len(rows)

    def attend(self, i: int, t: int, qkv: Tensor) -> Tensor:
        """Return what new token t takes in layer i from those before and itself (n, H D).

        Queries, keys and values are (n, H + 2K, D); the latter two are stored.
        """
        key_heads, size = self.weights.key_heads, self.weights.head_size
        own = self.own[i, :, :, : t + 1]
        own[:, :, t] = qkv[:, self.weights.heads :].transpose(0, 1)
        own_keys, own_values = own[:key_heads].flatten(0, 1), own[key_heads:].flatten(0, 1)
        q = qkv[:, : self.weights.heads].unflatten(1, (key_heads, -1)).transpose(0, 1).contiguous()
        of_prompt = torch.bmm(q.view(key_heads, -1, size), self.keys[i])
        of_own = torch.bmm(q.view(len(own_keys), -1, size), own_keys.transpose(1, 2))
        scores = torch.cat([of_prompt, of_own.view(key_heads, -1, t + 1)], -1)
        shares = torch.softmax(scores, -1)
        mixed = torch.bmm(shares[:, :, : self.length], self.values[i])
        own_shares = shares.view(len(own_keys), -1, self.length + t + 1)[:, :, self.length :]
        mixed.view(len(own_keys), -1, size).baddbmm_(own_shares, own_values)
        return mixed.view(q.shape).transpose(0, 1).reshape(self.rows, -1)


def _step(w: Weights, groups: Sequence[_Group], tokens: Tensor, t: int) -> Tensor:
    """Append token t to every row (B) and return the logits (B, V) of the next."""
    x = w.embedding.index_select(0, tokens)
    rows = [group.rows for group in groups]
    positions = torch.tensor([group.length + t for group in groups]).repeat_interleave(torch.tensor(rows))
    rotation = w.rotations.index_select(0, positions)[:, None]
    for i, layer in enumerate(w.layers):
        parts = w.attention_inputs(layer, x, rotation).split(rows)
        mixed = [group.attend(i, t, part) for group, part in zip(groups, parts, strict=True)]
        x.addmm_(torch.cat(mixed), layer.out).add_(layer.out_bias)
        w.feed_forward(layer, x)
    return w.norm(x) @ w.head


def uniforms(seed: int, index: int, count: int) -> npt.NDArray[np.float32]:
    """Return the first `count` random numbers of reply `index`, multiples of 2^-24 in [0, 1), one a token."""
    key = np.array([seed % 2**64, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random(count, dtype=np.float32)


def draw(scaled: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return token ids and their log-probabilities (B), by the inverse of the cumulative distribution.

    `scaled` (B, V) are logits over temperature, `uniform` (B) are multiples of 2^-24 in [0, 1).
    """
    probabilities = torch.softmax(scaled, -1)
    cumulative = probabilities.cumsum(-1)
    # The largest uniform number is 1 - 2^-24, and its product with the total never rounds up to the total:
    # a token is always found, and one of positive probability.
    threshold = uniform * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, threshold[:, None], right=True)
    return tokens[:, 0], probabilities.gather(1, tokens)[:, 0].log_()


def sample(weights: Weights, requests: Sequence[Request], end_ids: Sequence[int]) -> list[list[Completion]]:
    """Return the completions of each request, in the order of its indices.

    A reply ends with the first token in `end_ids`, at its `max_tokens`, or where the context of the
    model ends. Raises `ConfigError` for a temperature or limit that cannot be sampled, `PolicyError` for a
    prompt that leaves no room for a token and for a model whose logits are not finite.
    """
    for request in requests:
        check_request(request, weights.context)
    with torch.inference_mode():
        return _sample(weights, requests, np.array(sorted(end_ids)))


def check_request(request: Request, context: int) -> None:
    """Raise what `sample` would raise for this request, of a model with that context length."""
    check_sampling(Sampling(request.temperature, request.max_tokens), "local")
    if not 0 < len(request.prompt_ids) < context:
        raise PolicyError(
            f"the prompt has {len(request.prompt_ids)} tokens; the model reads from 1 to {context - 1}; "
            "shorten the prompt or use a model with a longer context"
        )


def _sample(
    weights: Weights, requests: Sequence[Request], end_ids: npt.NDArray[np.int64]
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
    uniform_TB = torch.from_numpy(np.stack([uniforms(requests[r].seed, i, longest) for r, i in pairs], 1))  # noqa: N806

    tokens_BT = np.zeros((rows, longest), dtype=np.int64)  # noqa: N806
    logprobs_BT = np.zeros((rows, longest), dtype=np.float32)  # noqa: N806
    lengths = np.zeros(rows, dtype=np.int64)
    is_stopped = np.zeros(rows, dtype=bool)

    counts = np.bincount(prompt_of_row)
    groups = [_Group(weights, ids, int(n), longest) for ids, n in zip(prompts, counts, strict=True)]
    logits = weights.norm(torch.cat([group.last for group in groups])) @ weights.head
    if not logits.isfinite().all():
        raise PolicyError(
            "the model gives logits that are not finite, so that nothing can be sampled; its training "
            "diverged or its files are damaged: use another version"
        )
    logits = logits.index_select(0, torch.from_numpy(prompt_of_row))
    live = np.arange(rows)  # where each row of the batch stands in the arrays above
    is_running = np.ones(rows, dtype=bool)
    for t in range(longest):
        tokens, logprobs = draw(logits / temperatures if is_scaled else logits, uniform_TB[t])
        drawn = tokens.numpy()
        tokens_BT[live, t] = drawn
        logprobs_BT[live, t] = logprobs.numpy()
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
                ends_of_groups = np.cumsum([group.rows for group in groups])
                for group, runs in zip(groups, np.split(is_running, ends_of_groups[:-1]), strict=True):
                    group.keep(np.flatnonzero(runs))
                groups = [group for group in groups if group.rows]
                live, is_running = live[kept], is_running[kept]
                index = torch.from_numpy(kept)
                tokens, temperatures, uniform_TB = tokens[index], temperatures[index], uniform_TB[:, index]  # noqa: N806
        logits = _step(weights, groups, tokens, t)

    completions = {
        pair: Completion(tuple(tokens[:n].tolist()), tuple(logprobs[:n].tolist()), bool(stopped))
        for pair, tokens, logprobs, n, stopped in zip(
            pairs, tokens_BT, logprobs_BT, lengths, is_stopped, strict=True
        )
    }
    return [[completions[r, i] for i in request.indices] for r, request in enumerate(requests)]
