"""Loads, checks and unloads policy versions on a model server.

Servers have been seen to answer 200 and then compute with other weights. A version therefore counts as served
only after the server's log-probabilities of a fixed text have been compared with the trainer's.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evovpo.errors import ConfigError, ServerError
from evovpo.proposers.endpoints import PLAIN_SOFTMAX
from evovpo.proposers.fetch import KEY_VARIABLE, fetch, json_object, reason
from evovpo.proposers.policy_folders import WarmUp, is_adapter, served_name
from evovpo.types import PolicyVersion

TOLERANCE = 1e-4
"""Maximum difference in nats between two float32 computations of the same log-probability."""
_TOP = 20


@dataclass(eq=False)
class VLLMServer:
    """A running vLLM server that can load adapters.

    Loading adapters needs `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, which are unsafe on a
    public port. Full weights cannot be replaced: vLLM 0.31 on a CPU accepts new weights, answers 200 and
    computes wrongly. In a mixed batch, vLLM applies an adapter also to requests without an adapter (vLLM PR
    48421); `load_and_compare` detects this. `--max-num-batched-tokens` should be at least `--max-num-seqs`
    times `--max-model-len`: vLLM crashes if it processes the prompt of a request with a seed in chunks.

    `base_url` ends in `/v1`; `model` is the name of the server's own weights. `tolerance` is the maximum
    difference, in nats, of a log-probability from the trainer's value: 1e-4 for float32, more for bfloat16.
    Raises `ConfigError` for an address that is not HTTP or has a password or query. Every method can raise
    `ServerError`.
    """

    base_url: str
    model: str
    tolerance: float = TOLERANCE
    timeout_seconds: float = 120.0
    key_variable: str = KEY_VARIABLE

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"proposer.base_url is {self.base_url!r}; expected the address of an OpenAI-compatible "
                "server, for example http://127.0.0.1:8000/v1"
            )
        if "@" in self.base_url or "?" in self.base_url:
            raise ConfigError(
                "proposer.base_url holds a password or a query, and runs store their settings; put a key "
                "into the environment variable OPENAI_API_KEY instead"
            )
        self.address = self.base_url.rstrip("/").removesuffix("/v1")

    def load(self, version: PolicyVersion) -> None:
        """Load an adapter unless the server has it already. Raises `PolicyError` if the folder is gone."""
        name = served_name(version, self.model)
        path = str(Path(version.path).resolve())
        try:
            self._request("/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
        except ServerError:
            # Loaded already, perhaps by another process: the name contains a digest of its files.
            with contextlib.suppress(ServerError):
                if name in self._names():
                    return
            raise

    def unload(self, version: PolicyVersion) -> None:
        name = served_name(version, self.model)
        if is_adapter(version) and name in self._names():
            self._request("/v1/unload_lora_adapter", {"lora_name": name})

    def logprobs(
        self, version: PolicyVersion, text_ids: Sequence[int], next_ids: Sequence[int]
    ) -> list[float]:
        """Return the log-probability of each token in `next_ids`, given the text up to its position.

        The positions are the last N of the text, as in `WarmUp`. A token that the server does not list gets
        minus infinity. vLLM's field `prompt_logprobs` is not used, because it bypasses the server's cache,
        ignores an adapter of the last layer, and crashes a busy server (issues 16668, 29955, 51594).
        """
        prefixes = [list(text_ids[: len(text_ids) - left]) for left in reversed(range(len(next_ids)))]
        body = {
            "model": served_name(version, self.model),
            "prompt": prefixes,
            "max_tokens": 1,
            "logprobs": _TOP,
            "return_tokens_as_token_ids": True,
            **PLAIN_SOFTMAX,
        }
        try:
            choices = sorted(self._request("/v1/completions", body)["choices"], key=lambda one: one["index"])
            places = [choice["logprobs"]["top_logprobs"][0] for choice in choices]
            pairs = zip(places, next_ids, strict=True)
            return [float(place.get(f"token_id:{token}", -math.inf)) for place, token in pairs]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ServerError(
                f"{self.address} gave no log-probabilities to compare ({type(error).__name__}: {error}); "
                "expected those of vLLM's completions"
            ) from error

    def _names(self) -> set[str]:
        return {str(model.get("id")) for model in self._request("/v1/models").get("data", ())}

    def _request(self, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        try:
            status, text = fetch(self.address + path, body, self.key_variable, self.timeout_seconds)
        except OSError as error:
            raise ServerError(
                f"{self.address} cannot be reached for {path} ({error}); is the server running?"
            ) from error
        if status >= 400:
            advice = "; start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
            is_advised = status in (404, 405) and "lora_adapter" in path
            raise ServerError(
                f"{self.address} answered {status} to {path}: {reason(text)}{advice * is_advised}"
            )
        return json_object(text) or {}


def load_and_compare(server: VLLMServer, version: PolicyVersion, warm_up: WarmUp) -> float:
    """Load `version` if it is an adapter. Return its maximum log-probability difference to `warm_up` in nats.

    If a request fails or the difference is too large, unloads the adapter and raises `ServerError`.
    """
    is_loaded = is_adapter(version)
    if is_loaded:
        server.load(version)
    try:
        difference = warm_up.difference(server.logprobs(version, *warm_up[:2]))
        if not difference <= server.tolerance:
            advice = "" if is_loaded else f"; start it on {version.path}, or train an adapter"
            raise ServerError(
                f"{server.address} was asked for policy version {version.number} and computes with other "
                f"weights: its log-probabilities differ by {difference:.3g} nats from the trainer's (allowed "
                f"{server.tolerance:g}; inf: what is likeliest to the trainer is not even listed){advice}"
            )
    except ServerError:
        if is_loaded:
            with contextlib.suppress(ServerError):
                server.unload(version)
        raise
    return difference
