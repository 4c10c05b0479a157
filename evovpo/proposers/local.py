"""A proposer that samples from a Hugging Face model folder in this process, on the CPU.

A PEFT adapter is merged into its base model, which needs `pip install 'evovpo[train]'`. The messages of a
prompt are joined to one text. Chat templates and GPUs are not supported; use vLLM instead.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.errors import PolicyError
from evovpo.proposers import check_sampling, check_ticket, text_rollout
from evovpo.proposers.policy_folders import base_version, is_adapter, require_folder
from evovpo.types import PolicyVersion, Prompt, Rollout, Sampling

try:
    import torch

    warnings.filterwarnings("ignore", "IProgress not found")  # its own bars are not shown
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging
except ImportError as error:
    raise PolicyError(
        f"the local proposer needs torch and transformers ({error}); run: pip install 'evovpo[local]'"
    ) from error

from evovpo.proposers.sampler import (
    Completion,
    SampleRequest,
    Weights,
    check_request,
    check_supported,
    sample,
)

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
_WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")
_ONE_LOADING = threading.Lock()
"""Lock for transformers, which cannot load two models at once in one process."""


@dataclass(frozen=True)
class LocalPolicy:
    number: int
    weights: Weights
    tokenizer: Any
    """A transformers tokenizer, which also adds special tokens such as a start token."""
    end_ids: tuple[int, ...]
    """Ids of the tokens that end a reply, from generation_config.json and the tokenizer."""

    def request(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> SampleRequest:
        """Return a request for the replies with the given indices. Raises the errors of `check_request`."""
        check_sampling(sampling)
        text = "".join(message.content for message in prompt.messages)
        ids = tuple(self.tokenizer(text)["input_ids"])
        request = SampleRequest(ids, prompt.seed, tuple(indices), sampling.temperature, sampling.max_tokens)
        check_request(request, self.weights.context)
        return request

    def rollout(
        self,
        prompt: Prompt,
        request: SampleRequest,
        index: int,
        completion: Completion,
        sampling: Sampling,
        seconds: float = 0.0,
    ) -> Rollout:
        """Return the rollout of a sampled completion; special tokens are removed from the text."""
        text = str(self.tokenizer.decode(completion.token_ids, skip_special_tokens=True))
        return replace(
            text_rollout(prompt, index, text, sampling),
            policy_version=self.number,
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            prompt_token_ids=request.prompt_ids,
            finish_reason="stop" if completion.is_stopped else "length",
            seconds=seconds,
        )


class LoadedModel(NamedTuple):
    """The contents of a policy folder; an adapter is merged into its base model."""

    model: Any
    tokenizer: Any
    end_ids: tuple[int, ...]


def load_local_policy(version: PolicyVersion) -> LocalPolicy:
    """Return the policy loaded from the folder `version.path`. Raises `PolicyError` if loading fails."""
    model, tokenizer, end_ids = load_model(version, is_sampled_here=True)
    return LocalPolicy(version.number, Weights(model), tokenizer, end_ids)


def load_model(version: PolicyVersion, is_sampled_here: bool = False) -> LoadedModel:
    """Return the model in the folder `version.path`: full weights, or an adapter merged into its base model.

    Raises `PolicyError` for an unusable folder, and for an adapter if peft is not installed. If
    `is_sampled_here` is true, also raises `PolicyError` if this package's sampler does not support the model.
    """
    base = base_version(version)
    folder = Path(base.path)
    if version.number > 0:
        require_folder(version)
    if is_adapter(PolicyVersion(0, None, str(folder))):
        raise PolicyError(
            f"the adapter in {version.path} stands on {folder}, which is an adapter itself; merge that one "
            "into its base (merge_and_unload) and train on the result"
        )
    check_model_folder(folder)
    loader: Any = AutoModelForCausalLM  # transformers declares a return type without the loading info
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with _damage_named(folder):
        config = AutoConfig.from_pretrained(folder, **own)
    for name in config.architectures or () if is_sampled_here else ():
        check_supported(name, config)
    own |= {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}  # and no pickle
    with _ONE_LOADING, _damage_named(folder), no_progress_bar():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model, info = loader.from_pretrained(folder, **own)
    if missing := sorted(info["missing_keys"]):
        raise PolicyError(
            f"the weights in {folder} lack {len(missing)} tensors of the model in config.json, {missing[0]} "
            "among them; write the folder again with save_pretrained"
        )
    embeddings = len(model.get_input_embeddings().weight)
    largest = max(tokenizer.get_vocab().values())
    if largest >= embeddings:
        raise PolicyError(
            f"the tokenizer in {folder} has ids up to {largest}, the model only {embeddings} "
            "embeddings; put the tokenizer that the model was trained with beside it"
        )
    ends = end_ids(model, tokenizer)
    if base is not version:
        model = _with_adapter(model, Path(version.path))
    return LoadedModel(model.eval(), tokenizer, ends)


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids of the tokens that end a reply, ascending. Raises `PolicyError` if there are none."""
    found: set[int] = set()
    for value in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        found.update([value] if isinstance(value, int) else value or ())
    if not found:
        raise PolicyError(
            f"model folder {tokenizer.name_or_path} names no end token; set eos_token_id in "
            "generation_config.json or eos_token in tokenizer_config.json"
        )
    return tuple(sorted(found))


def _with_adapter(model: Any, folder: Path) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise PolicyError(
            f"{folder} holds an adapter, and merging it needs peft ({error}); run: pip install "
            "'evovpo[train]', or serve it with vLLM"
        ) from error
    with _damage_named(folder), warnings.catch_warnings():
        # peft only warns about missing tensors, which would leave the adapter untrained.
        warnings.filterwarnings("error", "Found missing adapter keys")
        return PeftModel.from_pretrained(model, folder, local_files_only=True).merge_and_unload()


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise PolicyError(
            f"model folder {folder} cannot be loaded ({type(error).__name__}: {error}); "
            "write it again with save_pretrained of model and tokenizer"
        ) from error


@contextmanager
def no_progress_bar() -> Iterator[None]:
    log: Any = transformers_logging  # not typed
    was_enabled = log.is_progress_bar_enabled()
    log.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            log.enable_progress_bar()


def check_model_folder(folder: Path) -> None:
    """Raise `PolicyError` if a file of the model is missing, or if the model needs custom code."""
    if not folder.is_dir():
        raise PolicyError(
            f"model folder {folder} does not exist or is no folder; "
            "give the path of a Hugging Face model folder"
        )
    wanted = (("config.json",), _WEIGHT_FILES, _TOKENIZER_FILES)
    missing = [" or ".join(names) for names in wanted if not any((folder / name).exists() for name in names)]
    if missing:
        raise PolicyError(
            f"{folder} is not a model folder: it lacks {'; '.join(missing)}; "
            "write it with save_pretrained of model and tokenizer"
        )
    for name in ("config.json", "tokenizer_config.json"):
        if (folder / name).is_file() and b'"auto_map"' in (folder / name).read_bytes():
            raise PolicyError(
                f"{folder / name} names code of the model's own (auto_map), which never runs here; expected "
                "a model that transformers itself knows"
            )


@dataclass(frozen=True)
class _Waiting:
    policy: LocalPolicy
    request: SampleRequest
    future: asyncio.Future[tuple[list[Completion], float]]


class LocalProposer:
    """A proposer that samples from a policy version in batches, in one worker thread.

    Token ids include the end token; texts do not. `loaded` is the policy of `version`, if it is loaded
    already. `follow` is called for every prompt and returns the version to use.
    """

    def __init__(
        self,
        version: PolicyVersion,
        *,
        max_batch_rows: int = 32,
        follow: Callable[[], PolicyVersion] | None = None,
        loaded: LocalPolicy | None = None,
    ) -> None:
        self._policy = loaded or load_local_policy(version)
        self._version = version
        self._follow = follow
        self._loading = asyncio.Lock()
        self._max_batch_rows = max_batch_rows
        self._waiting: list[_Waiting] = []
        self._serving: asyncio.Task[None] | None = None
        self._worker = ThreadPoolExecutor(1, "evovpo-sampler", torch.set_num_threads, (1,))
        self._is_closed = False

    @property
    def policy_version(self) -> int:
        return self._policy.number

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the sampled replies; see `Proposer.propose`. All calls must use the same event loop.

        Raises `PolicyError` if the prompt exceeds the model's context or the version cannot be loaded.
        """
        check_ticket(prompt, indices)
        if self._is_closed:
            raise RuntimeError("this proposer is closed; make a new one")
        if not indices:
            return []
        policy = await self._policy_to_use()
        loop = asyncio.get_running_loop()
        waiting = _Waiting(policy, policy.request(prompt, indices, sampling), loop.create_future())
        self._waiting.append(waiting)
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        completions, seconds = await waiting.future
        return [
            policy.rollout(prompt, waiting.request, index, completion, sampling, seconds)
            for index, completion in zip(indices, completions, strict=True)
        ]

    async def aclose(self) -> None:
        self._is_closed = True
        async with self._loading:
            pass  # requests waiting for a version are in the queue now
        if self._serving is not None and not self._serving.done():
            await self._serving
        self._worker.shutdown()

    async def _policy_to_use(self) -> LocalPolicy:
        if self._follow is None or self._follow() == self._version:
            return self._policy
        async with self._loading:  # only the first request that sees a new version loads it
            version = self._follow()
            if version != self._version:
                run = asyncio.get_running_loop().run_in_executor
                self._policy = await run(self._worker, load_local_policy, version)
                self._version = version
            return self._policy

    async def _serve(self) -> None:
        while batch := self._take_batch():
            policy, requests = batch[0].policy, [waiting.request for waiting in batch]
            started = time.perf_counter()
            run = asyncio.get_running_loop().run_in_executor
            try:
                results = await run(self._worker, sample, policy.weights, requests, policy.end_ids)
            except Exception as error:  # any error is passed to the waiting requests
                for waiting in batch:
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                continue
            seconds = (time.perf_counter() - started) / sum(len(request.indices) for request in requests)
            for waiting, completions in zip(batch, results, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result((completions, seconds))

    def _take_batch(self) -> list[_Waiting]:
        queue = [waiting for waiting in self._waiting if not waiting.future.done()]
        batch: list[_Waiting] = []
        rows = 0
        for waiting in queue:
            rows += len(waiting.request.indices)
            if batch and (rows > self._max_batch_rows or waiting.policy is not batch[0].policy):
                break
            batch.append(waiting)
        self._waiting = queue[len(batch) :]
        return batch
