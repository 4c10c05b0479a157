"""A small vLLM: an HTTP server on this machine that samples from a model folder with our own sampler.

It speaks what `evovpo.proposers.openai` and `evovpo.proposers.policy_server` use of vLLM, and can be told to
misbehave as servers do. One request at a time is computed.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from http_servers import listening

from evovpo.proposers.local import load_model
from evovpo.proposers.sampler import SampleRequest, Weights, sample
from evovpo.types import PolicyVersion

Answer = tuple[int, dict[str, Any]]
ENDPOINTS = ("/v1/completions", "/v1/chat/completions")


class _Loaded:
    """A model by name: for sampling, and for the log-probabilities of a given text."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.model, self.tokenizer, self.end_ids = load_model(PolicyVersion(0, None, folder))
        self.weights = Weights(self.model)

    def next_logprobs(self, ids: list[int], temperature: float = 1.0) -> torch.Tensor:
        """Return the log-probabilities (T, V) behind every prefix of `ids`."""
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([ids])).logits[0]
        return torch.log_softmax(logits / temperature, -1)


@dataclass
class Faults:
    """How the server misbehaves; the defaults are good behaviour."""

    statuses: list[int] = field(default_factory=list)
    """Answers to the next completion requests, instead of completions."""
    retry_after: str = "0"
    lies: bool = False
    """Answer 200 to new weights and go on with the base model's."""
    has_adapters: bool = True
    """Know the paths that load and unload adapters, as vLLM does only when started so."""
    refuses: bool = False
    """Answer 500 to new weights."""
    has_logprobs: bool = True
    has_token_ids: bool = True
    obeys_n: bool = True
    follows_temperature: bool = True
    aborts: int = 0
    """Completion requests that are broken off half done."""
    gibberish: int = 0
    """Completion requests that are answered with something that is no completion."""
    seconds: float = 0.0
    """Pause before each completion."""
    manners: list[str] = field(default_factory=list)
    """How the next completions are answered: `ok`, a status such as `500`, `hang` (no answer in time),
    `trickle` (a byte at a time), `truncated` (JSON cut short), `close` (no answer at all), `broken` (closed
    in the middle), `empty` (no choices)."""
    refuses_n: bool = False
    """Answer 400 to several choices a request."""
    refused_fields: frozenset[str] = frozenset()
    """Answer 400 to a request with one of these fields, naming one of them."""
    as_fastapi: bool = False
    """Refuse fields as FastAPI does: with 422, naming all of them."""
    limit_name: str = "max_tokens"
    """What the most tokens of a reply are called; the other name is refused."""
    key: str = ""
    """Answer 401 to requests without this key, repeating what came instead."""
    has_usage: bool = True
    lists_models: bool = True
    refused_text: str = ""
    """Answer 400 to prompts that hold this text."""


class FakeServer:
    """See the module; `requests` records every (path, body), `faults` may be changed at any time."""

    def __init__(self, folder: Path, model: str = "base", max_model_len: int = 96) -> None:
        self.name = model
        self.max_model_len = max_model_len
        self._base = _Loaded(str(folder))
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.gate = threading.Event()
        """Completions of the models in `held` wait until it is set."""
        self.held: set[str] = set()
        self._cache: dict[tuple[str, str, tuple[int, ...]], torch.Tensor] = {}
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._inside = 0
        self.restart()

    def restart(self) -> None:
        """Go back to the state at the start: the base model, no faults, nothing recorded."""
        self.models = {self.name: self._base}
        self.faults = Faults()
        self.requests.clear()
        self._cache.clear()
        self.held.clear()
        self.gate.clear()
        self.most_inside = 0
        """Most completion requests that waited at the same time."""

    @property
    def completions(self) -> list[dict[str, Any]]:
        """The bodies of the completion requests so far, of both endpoints."""
        return [body for path, body in self.requests if path in ENDPOINTS]

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Return status and JSON of the answer to a request."""
        self.requests.append((path, body))
        faults = self.faults  # those of now: a client that gave up leaves its request behind
        if path in ENDPOINTS:
            with self._counting:
                self._inside += 1
                self.most_inside = max(self.most_inside, self._inside)
            if body["model"] in self.held:
                self.gate.wait(300)
            time.sleep(faults.seconds)
            with self._counting:
                self._inside -= 1
        with self._lock:
            if path in ENDPOINTS:
                return self._complete(body, faults, is_chat=path == ENDPOINTS[1])
            routes = {
                "/v1/models": self._list,
                "/v1/load_lora_adapter": self._load,
                "/v1/unload_lora_adapter": self._unload,
            }
            return routes[path](body) if path in routes else _error(404, "Not Found")

    def _list(self, body: dict[str, Any]) -> Answer:
        if not self.faults.lists_models:
            return _error(404, "Not Found")
        return 200, {"object": "list", "data": [{"id": name} for name in self.models]}

    def _load(self, body: dict[str, Any]) -> Answer:
        name, folder = body["lora_name"], body["lora_path"]
        if not self.faults.has_adapters:
            return _error(404, "Not Found")
        if self.faults.refuses:
            return _error(500, "Call to add_lora method failed: out of memory")
        if name in self.models:
            return _error(400, f"The lora adapter '{name}' has already been loaded.")
        self.models[name] = self.models[self.name] if self.faults.lies else _Loaded(folder)
        return 200, {}

    def _unload(self, body: dict[str, Any]) -> Answer:
        if self.models.pop(body["lora_name"], None) is None:
            return _error(404, f"The lora adapter '{body['lora_name']}' cannot be found.")
        return 200, {}

    def _complete(self, body: dict[str, Any], faults: Faults, is_chat: bool) -> Answer:
        if faults.statuses:
            return _error(faults.statuses.pop(0), "as the test wants it")
        if faults.gibberish:
            faults.gibberish -= 1
            return 200, {"choices": None}
        if body["model"] not in self.models:
            return _error(404, f"The model `{body['model']}` does not exist.")
        if refusal := _refusal(body, faults):
            return refusal
        prompts = _prompt(body)
        if isinstance(prompts, str):
            prompts = [self.models[body["model"]].tokenizer(prompts)["input_ids"]]
        choices: list[dict[str, Any]] = []
        for ids in prompts:
            status, found = self._complete_one(body, faults, ids)
            if status != 200:
                return status, found
            choices += found["choices"]
        for index, choice in enumerate(choices):
            choice["index"] = index
        fixed: dict[str, Any] = {
            "id": "cmpl",
            "object": "text_completion",
            "created": 0,
            "model": body["model"],
        }
        written = sum(choice.pop("_tokens") for choice in choices)
        if faults.has_usage:
            fixed["usage"] = {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": written}
        if is_chat:
            fixed |= {"object": "chat.completion", "prompt_token_ids": choices[0].get("prompt_token_ids")}
            choices = [_as_chat(choice) for choice in choices]
        return 200, fixed | {"choices": choices[::-1]}

    def _complete_one(self, body: dict[str, Any], faults: Faults, ids: list[int]) -> Answer:
        loaded = self.models[body["model"]]
        most: int = body[faults.limit_name]
        if len(ids) + most > self.max_model_len:
            return _error(
                400,
                f"This model's maximum context length is {self.max_model_len} tokens. However, you requested "
                f"{most} output tokens and your prompt contains {len(ids)} input tokens.",
            )
        count = body.get("n", 1) if faults.obeys_n else 1
        completions = sample(
            loaded.weights,
            [
                SampleRequest(
                    tuple(ids),
                    body.get("seed", 0),
                    tuple(range(count)),
                    body["temperature"],
                    most,
                )
            ],
            loaded.end_ids,
        )[0]
        first = self._first_place(body, loaded, ids)
        choices = []
        for index, completion in enumerate(completions):
            tokens, logprobs = list(completion.token_ids), list(completion.logprobs)
            finish = "stop" if completion.is_stopped else "length"
            if faults.aborts and index == len(completions) - 1:
                faults.aborts -= 1
                finish, tokens, logprobs = "abort", tokens[:1], logprobs[:1]
            choice: dict[str, Any] = {
                "text": loaded.tokenizer.decode(tokens, skip_special_tokens=True),
                "finish_reason": finish,
                "_tokens": len(tokens),
            }
            if body.get("logprobs") not in (None, False) and faults.has_logprobs:
                choice["logprobs"] = {"token_logprobs": logprobs, "top_logprobs": [first]}
            if body.get("return_token_ids") and faults.has_token_ids:
                choice |= {"token_ids": tokens, "prompt_token_ids": list(ids)}
            choices.append(choice)
        return 200, {"choices": choices}

    def _first_place(self, body: dict[str, Any], loaded: _Loaded, ids: list[int]) -> dict[str, float]:
        """Return the likeliest first tokens, out of the prefix cache if the prompt is in it."""
        temperature = body["temperature"] if self.faults.follows_temperature else 1.0
        key = (body["model"], str(temperature), tuple(ids))
        if key not in self._cache:
            self._cache[key] = loaded.next_logprobs(ids, temperature)[-1]
        count = body.get("top_logprobs") if "messages" in body else body.get("logprobs")
        values, tokens = self._cache[key].topk(int(count or 1))
        return {
            f"token_id:{token}": value for token, value in zip(tokens.tolist(), values.tolist(), strict=True)
        }


def _prompt(body: dict[str, Any]) -> Any:
    """Return the prompt of a request; a chat is its messages one after the other."""
    if "messages" in body:
        return "".join(message["content"] for message in body["messages"])
    return body["prompt"]


def _refusal(body: dict[str, Any], faults: Faults) -> Answer | None:
    if faults.refused_text and faults.refused_text in str(_prompt(body)):
        return _error(400, "This prompt violates the policy.")
    if named := sorted(faults.refused_fields & body.keys()):
        if faults.as_fastapi:
            said = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": body}
            return 422, {"detail": [{**said, "loc": ["body", name]} for name in named]}
        return _error(400, f"Unrecognized request argument supplied: {named[0]}", named[0])
    if faults.refuses_n and body.get("n", 1) > 1:
        return _error(400, "Only one choice is supported.", "n")
    if faults.limit_name not in body:
        other = "max_tokens" if faults.limit_name == "max_completion_tokens" else "max_completion_tokens"
        told = f"Unsupported parameter: '{other}' is not supported with this model. "
        return _error(400, told + f"Use '{faults.limit_name}' instead.", other)
    return None


def _as_chat(choice: dict[str, Any]) -> dict[str, Any]:
    """Return a choice as the chat endpoint of vLLM gives it."""
    found = {name: choice[name] for name in ("index", "finish_reason", "token_ids") if name in choice}
    found["message"] = {"role": "assistant", "content": choice["text"]}
    if "logprobs" in choice:
        likeliest = [
            {"token": token, "logprob": value}
            for token, value in choice["logprobs"]["top_logprobs"][0].items()
        ]
        found["logprobs"] = {
            "content": [
                {"token": "?", "logprob": value, "top_logprobs": likeliest if place == 0 else []}
                for place, value in enumerate(choice["logprobs"]["token_logprobs"])
            ]
        }
    return found


def _error(status: int, message: str, parameter: str | None = None) -> Answer:
    return status, {"error": {"message": message, "type": "Error", "code": status, "param": parameter}}


@contextmanager
def serve(server: FakeServer) -> Iterator[str]:
    """Serve on a free port of this machine; yields the base URL, which ends in `/v1`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

        def _answer(self, body: dict[str, Any]) -> None:
            path, faults = urlsplit(self.path).path, server.faults
            manner = faults.manners.pop(0) if path in ENDPOINTS and faults.manners else "ok"
            given = self.headers.get("Authorization", "no key")
            if manner.isdecimal() or (faults.key and given != f"Bearer {faults.key}"):
                server.requests.append((path, body))
                status, found = (
                    _error(int(manner), "as the test wants it")
                    if manner.isdecimal()
                    else (_error(401, f"Incorrect API key provided: {given}."))
                )
            else:
                status, found = server.answer(path, body)
            if manner == "empty":
                found["choices"] = []
            data = json.dumps(found).encode()
            if manner == "truncated":
                data = data[: len(data) // 2]
            try:
                if manner == "hang":
                    server.gate.wait(300)
                if manner in ("hang", "close"):
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if status >= 400:
                    self.send_header("Retry-After", server.faults.retry_after)
                self.end_headers()
                if manner == "broken":
                    self.close_connection = True
                    data = data[: len(data) // 2]
                if manner == "trickle":
                    for byte in data:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        time.sleep(0.05)
                    return
                self.wfile.write(data)
            except ConnectionError:
                pass  # the client did not wait

    with listening(Handler) as address:
        try:
            yield f"{address}/v1"
        finally:
            server.gate.set()
