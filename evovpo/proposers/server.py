"""What a model server is told about policy versions: load one, name it, compare it, let it go.

Publishing, rolling back and the `openai` proposer share this. A server is believed only after its
log-probabilities of one fixed text were compared with those the trainer wrote beside the weights
(`policy.json`): servers were seen to answer 200 and to compute with other weights.

Left out: starting and stopping servers, and moving folders to them. A policy folder must have the same path
for its server, the trainer and the search (one machine, or one volume).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import http.client
import json
import math
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from evovpo.errors import ConfigError, PolicyError, ServerError, nearest_hint
from evovpo.types import Message, PolicyVersion

POLICY_FILE = "policy.json"
"""Beside the weights: whose version this is, and its `WarmUp`."""
ADAPTER_FILE = "adapter_config.json"
KEY_VARIABLE = "OPENAI_API_KEY"
"""Environment variable that holds a server's key, if no other is named."""
TOLERANCE = 1e-4
"""Largest difference of two log-probabilities (nats) of one policy, both computed in float32."""
PLAIN_SOFTMAX: dict[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling that a request asks for; vLLM takes what is left out from the model's generation_config.json."""
_TOP = 20
"""Likeliest tokens asked of a server at each place, vLLM's default limit; a `WarmUp` holds the likeliest."""


class WarmUp(NamedTuple):
    """What a policy must say of a fixed text of T tokens, at its last N places."""

    text_ids: tuple[int, ...]
    """(T)"""
    next_ids: tuple[int, ...]
    """The policy's likeliest token behind each of the last N prefixes, the whole text being the last (N)."""
    logprobs: tuple[float, ...]
    """Their natural-log probabilities at temperature 1 (N)."""

    def difference(self, logprobs: Sequence[float]) -> float:
        """Return the largest absolute difference in nats; infinite if one of them is not finite."""
        if len(logprobs) != len(self.logprobs) or not all(map(math.isfinite, logprobs)):
            return math.inf
        return max(abs(a - b) for a, b in zip(self.logprobs, logprobs, strict=True))


class PolicyServer(Protocol):
    """A server that versions can be loaded into while it runs. Every method raises `ServerError`."""

    @property
    def address(self) -> str:
        """What messages call it."""
        ...

    @property
    def tolerance(self) -> float:
        """Largest difference in nats that its arithmetic explains; 1e-4 for float32, more for bfloat16."""
        ...

    def load(self, version: PolicyVersion) -> None:
        """Make the server able to sample from a version; loading an adapter twice changes nothing.

        An adapter comes beside what is loaded; full weights replace the server's own, once the requests
        on their way have ended.
        """
        ...

    def unload(self, version: PolicyVersion) -> None:
        """Let an adapter go, if it is loaded; full weights stay until others replace them."""
        ...

    def logprobs(
        self, version: PolicyVersion, text_ids: Sequence[int], next_ids: Sequence[int]
    ) -> list[float]:
        """Return the log-probabilities (N) of `next_ids` behind the last N prefixes of a text, see `WarmUp`.

        They come the way that a search request gets its own, through all that the server has cached. Minus
        infinity for a token that is not among the likeliest.
        """
        ...

    def pause(self) -> None:
        """Answer no more requests, because what is loaded must not be sampled from."""
        ...


def is_adapter(version: PolicyVersion) -> bool:
    """True if the version's folder holds a PEFT adapter, false for full weights (or no folder here)."""
    return (Path(version.path) / ADAPTER_FILE).is_file()


def base_version(version: PolicyVersion) -> PolicyVersion:
    """Return the version itself, or for an adapter the full weights that it stands on, under its number.

    Raises `PolicyError` if its configuration names no folder.
    """
    if not is_adapter(version):
        return version
    file = Path(version.path) / ADAPTER_FILE
    try:
        base = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
        found = Path(version.path, base)  # an absolute path stays one
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PolicyError(
            f"{file} names no base model ({type(error).__name__}: {error}); write the adapter again"
        ) from error
    if not found.is_dir():
        raise PolicyError(
            f"the adapter in {version.path} stands on the model in {base}, which is no folder here; put it "
            f"back, or change base_model_name_or_path in {file}"
        )
    return dataclasses.replace(version, path=str(found))


def served_name(version: PolicyVersion, model: str) -> str:
    """Return the name under which a server offers a version, `model` being that of its own weights.

    For an adapter `policy-vNUMBER-DIGEST`: every version has a name of its own, and the digest of its
    files keeps apart versions of the same number (of two stores, or of a publication that failed). A server
    that met other weights under one name and path would reuse what it cached (vLLM issue 42125). Raises
    `PolicyError` if the folder of a trained version is gone.
    """
    if version.number > 0:
        require_folder(version)
    return f"policy-v{version.number}-{_digest(version.path)}" if is_adapter(version) else model


def require_folder(version: PolicyVersion) -> None:
    """Raise `PolicyError` if the folder of a version is gone."""
    if not Path(version.path).is_dir():
        raise PolicyError(
            f"policy version {version.number} is gone: {version.path} does not exist or is no folder; put it "
            "back, or use another version (proposer.policy=NUMBER, evovpo rollback NUMBER)"
        )


@functools.lru_cache(maxsize=256)
def _digest(folder: str) -> str:
    """Return 8 hex digits of an adapter's files; published folders do not change."""
    digest = hashlib.sha256()
    for file in sorted(Path(folder).glob("adapter_*")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:8]


def read_warm_up(folder: Path) -> WarmUp | None:
    """Return what was written beside the weights, or none where nothing was (a model from elsewhere).

    Raises `PolicyError` for a file that cannot be read.
    """
    file = folder / POLICY_FILE
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))["warm_up"]
        return WarmUp(*(tuple(data[name]) for name in WarmUp._fields))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PolicyError(
            f"{file} cannot be read ({type(error).__name__}: {error}); publish the version again"
        ) from error


def load_and_compare(server: PolicyServer, version: PolicyVersion, warm_up: WarmUp) -> float:
    """Make a server offer a version, and return the largest difference of its log-probabilities (nats).

    Full weights that the server computes already are not loaded again. Raises `ServerError` if the server
    refuses or computes something else; an adapter is then unloaded, full weights are as the server left
    them.
    """
    whole = not is_adapter(version)
    if whole:
        # Also where the answer is no: the text is then in the server's cache under the old weights, and a
        # reload that forgets to empty it shows below.
        difference = warm_up.difference(_logprobs(server, version, warm_up))
        if difference <= server.tolerance:
            return difference
    server.load(version)
    try:
        difference = warm_up.difference(_logprobs(server, version, warm_up))
        if not difference <= server.tolerance:
            raise ServerError(
                f"{server.address} loaded policy version {version.number} and computes with other weights: "
                f"its log-probabilities differ by {difference:.3g} nats from the trainer's (allowed: "
                f"{server.tolerance:g}; inf: what is likeliest to the trainer is not even listed)"
                + ("; on a CPU, try again while nothing else runs on it" if whole else "")
            )
    except ServerError:
        if not whole:
            with contextlib.suppress(ServerError):
                server.unload(version)
        raise
    return difference


def _logprobs(server: PolicyServer, version: PolicyVersion, warm_up: WarmUp) -> list[float]:
    return server.logprobs(version, warm_up.text_ids, warm_up.next_ids)


class VLLMServer:
    """A running vLLM, spoken to by plain HTTP.

    Adapters need a server started with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, full
    weights one with VLLM_SERVER_DEV_MODE=1. Neither belongs on a public port.

    Seen of vLLM 0.31 on CPUs: it takes new full weights, answers 200 and computes wrongly, and it adds the
    adapter of other requests in a batch to those without one (vLLM PR 48421), which both show in the
    comparison; and it dies of a request with a seed whose prompt it computes in parts, unless
    `--max-num-batched-tokens` is as large as `--max-num-seqs` times `--max-model-len`.

    `base_url` ends in `/v1`, `model` is the name of the server's own weights. A key is read from the
    environment variable `key_variable`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        tolerance: float = TOLERANCE,
        timeout_seconds: float = 120.0,
        key_variable: str = KEY_VARIABLE,
    ) -> None:
        check_address(base_url)
        self._root = base_url.rstrip("/").removesuffix("/v1")
        self._model = model
        self._tolerance = tolerance
        self._timeout_seconds = timeout_seconds
        self._key_variable = key_variable

    @property
    def address(self) -> str:
        """The address without `/v1`."""
        return self._root

    @property
    def tolerance(self) -> float:
        """The number given at construction."""
        return self._tolerance

    def load(self, version: PolicyVersion) -> None:
        """See `PolicyServer.load`. Raises `PolicyError` if the folder is gone."""
        name = served_name(version, self._model)
        path = str(Path(version.path).resolve())
        if is_adapter(version):
            try:
                self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
            except ServerError:
                # Loaded by another process in the meantime, or before: the name says that it is the same.
                with contextlib.suppress(ServerError):
                    if name in self._names():
                        return
                raise
            return
        self._post("/pause?mode=wait")
        try:
            self._post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": path}})
            if not self._post("/reset_prefix_cache").get("success", False):
                raise ServerError(f"{self._root} did not empty its prefix cache after taking new weights")
        finally:
            self._post("/resume")

    def unload(self, version: PolicyVersion) -> None:
        """See `PolicyServer.unload`."""
        name = served_name(version, self._model)
        if is_adapter(version) and name in self._names():
            self._post("/v1/unload_lora_adapter", {"lora_name": name})

    def logprobs(
        self, version: PolicyVersion, text_ids: Sequence[int], next_ids: Sequence[int]
    ) -> list[float]:
        """See `PolicyServer.logprobs`: one request that generates a token behind each prefix.

        `prompt_logprobs` would be shorter, but is computed past the cache, leaves out an adapter of the last
        layer, and kills a vLLM with adapters that has other requests (vLLM issues 16668, 29955, 51594).
        """
        prefixes = [list(text_ids[: len(text_ids) - left]) for left in reversed(range(len(next_ids)))]
        body = {
            "model": served_name(version, self._model),
            "prompt": prefixes,
            "max_tokens": 1,
            "logprobs": _TOP,
            "return_tokens_as_token_ids": True,
            **PLAIN_SOFTMAX,
        }
        try:
            choices = sorted(self._post("/v1/completions", body)["choices"], key=lambda one: one["index"])
            places = [choice["logprobs"]["top_logprobs"][0] for choice in choices]
            found = [
                float(place.get(f"token_id:{token}", -math.inf))
                for place, token in zip(places, next_ids, strict=True)
            ]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ServerError(
                f"{self._root} gave no log-probabilities to compare ({type(error).__name__}: {error}); "
                "expected those of vLLM's completions"
            ) from error
        return found

    def measure(self, name: str, prompt: str | Sequence[Message]) -> tuple[int, int]:
        """Return the tokens of a prompt, plain or of a chat with model `name`, and those of its context."""
        body: dict[str, object] = {"model": name, "prompt": prompt}
        if not isinstance(prompt, str):
            body = {"model": name, "messages": [{"role": one.role, "content": one.content} for one in prompt]}
        found = self._post("/tokenize", body)
        try:
            return int(found["count"]), int(found["max_model_len"])
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError(f"{self._root} does not say how long a prompt is ({error})") from error

    def pause(self) -> None:
        """See `PolicyServer.pause`."""
        self._post("/pause?mode=keep")

    def _names(self) -> set[str]:
        models = self._request("/v1/models", None).get("data", ())
        return {str(model.get("id")) for model in models}

    def _post(self, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        return self._request(path, body or {})

    def _request(self, path: str, body: dict[str, object] | None) -> dict[str, Any]:
        """Return the JSON object of an answer, empty for another kind of text; GET without a body."""
        try:
            status, text = _fetch(self._root + path, body, self._key_variable, self._timeout_seconds)
        except OSError as error:
            raise ServerError(
                f"{self._root} cannot be reached for {path} ({error}); is the server running?"
            ) from error
        if status >= 400:
            raise ServerError(
                f"{self._root} answered {status} to {path}: {_reason(text)}{_advice(path, status)}"
            )
        return _json_object(text) or {}


def check_model(base_url: str, name: str, key_variable: str, timeout_seconds: float) -> None:
    """Raise unless the server at `base_url` is there, takes the key and lists the model `name`.

    `ServerError` if it cannot be reached, `ConfigError` for a key, an address or a model that it lacks.
    A server that is busy or failing, or lists no models at all, passes: the first request will tell.
    """
    base_url = base_url.rstrip("/")
    try:
        status, text = _fetch(base_url + "/models", None, key_variable, timeout_seconds)
        if status in (404, 405):
            other, _ = _fetch(base_url + "/v1/models", None, key_variable, timeout_seconds)
            if other < 400:
                raise ConfigError(
                    f"{base_url} has its interface below /v1; set proposer.base_url={base_url}/v1"
                )
    except OSError as error:
        raise ServerError(
            f"{base_url} cannot be reached ({error}); is the server running, and is proposer.base_url right?"
        ) from error
    if status in (401, 403):
        raise ConfigError(refused_key(base_url, key_variable, _reason(text)))
    if status >= 400:
        return
    listed = (_json_object(text) or {}).get("data")
    if not isinstance(listed, list):
        raise ConfigError(
            f"{base_url} is no OpenAI-compatible server: {base_url}/models answered {text[:80]!r}; check "
            "proposer.base_url, for vLLM http://HOST:PORT/v1"
        )
    names = [str(model.get("id")) for model in listed if isinstance(model, dict)]
    # Some list a model under a longer name than the one they take: models/NAME, NAME:latest.
    known = {*names, *(one.removeprefix("models/") for one in names), *(one.split(":")[0] for one in names)}
    if name not in known:
        raise ConfigError(
            f"{base_url} does not offer the model {name!r}; {nearest_hint(name, names)}; set proposer.model "
            "(or models.name) to one of them"
        )


def refused_key(address: str, variable: str, detail: str) -> str:
    """Return the message for a key that is refused or missing."""
    if not os.environ.get(variable):
        return f"{address} wants a key ({detail}), and {variable} is not set; set that environment variable"
    return f"{address} refused the key ({detail}); set the environment variable {variable} to a valid one"


def _fetch(
    url: str, body: dict[str, object] | None, key_variable: str, timeout_seconds: float
) -> tuple[int, str]:
    """Return status and text of an answer, the key taken out of it; GET without a body. Raises `OSError`."""
    headers = {"Content-Type": "application/json"}
    key = os.environ.get(key_variable, "")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:
            status, text = answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read().decode(errors="replace")
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return status, text.replace(key, "***") if key else text


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def check_address(base_url: str) -> None:
    """Raise `ConfigError` unless this is an http address that may be stored with a run."""
    if not base_url.startswith(("http://", "https://")):
        raise ConfigError(
            f"proposer.base_url is {base_url!r}; expected the address of an OpenAI-compatible server, for "
            "example http://127.0.0.1:8000/v1"
        )
    if "@" in base_url:
        raise ConfigError(
            "proposer.base_url holds a password, and runs store their settings; put the key into the "
            "environment variable OPENAI_API_KEY instead"
        )


def _reason(text: str) -> str:
    """Return the message of an error answer."""
    text = text.strip()
    try:
        found = json.loads(text)
        return str(found["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return text[:500] or "no reason given"


def _advice(path: str, status: int) -> str:
    if status not in (404, 405):
        return ""
    if "lora_adapter" in path:
        return "; start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
    if path.startswith(("/pause", "/collective_rpc", "/reset_prefix_cache", "/resume")):
        return "; start vLLM with VLLM_SERVER_DEV_MODE=1 to replace full weights, or train an adapter"
    return ""
