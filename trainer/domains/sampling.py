"""Samples and judges a policy's answers to a domain's prompts, in this process or on a server."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jinja2.exceptions import TemplateError
from transformers import GenerationConfig

from evovpo.config import ModelConfig, ProposerConfig
from evovpo.errors import PolicyError
from evovpo.judging.measure import JudgedAnswer
from evovpo.proposers.local import LoadedModel, load_model
from evovpo.types import Message, PolicyVersion, Prompt, PromptKind, Sampling
from trainer.domains.domain import Domain, Row

_ROWS_AT_ONCE = 192


@dataclass(frozen=True)
class Ask:
    """Sampling settings for a model. The model's generation_config.json only provides the end tokens."""

    completions: int
    temperature: float = 1.0
    seed: int = 0
    top_p: float = 1.0
    top_k: int = 0
    """Number of likeliest tokens to sample from; 0 for all tokens."""
    repetition_penalty: float = 1.0
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of transformers' `GenerationConfig`, such as min_p."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the chat template, such as enable_thinking."""

    @property
    def settings(self) -> dict[str, Any]:
        names = ("temperature", "top_p", "top_k", "repetition_penalty")
        return {name: getattr(self, name) for name in names}


class JudgedCompletion(NamedTuple):
    text: str
    answers: list[JudgedAnswer]
    tokens: int
    """Completion tokens, the end token included; 0 if unknown."""


def model_folder(name: str) -> Path:
    """Return the folder of the model `name`, which is a folder or a name on the Hugging Face hub.

    A model on the hub is downloaded. Raises `PolicyError` if there is no such model.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise PolicyError(
            f"model {name!r}: expected a model folder or a name on the Hugging Face hub, found neither "
            f"({type(error).__name__}); give the path of a folder that save_pretrained wrote"
        ) from error


def load_policy(name: str) -> LoadedModel:
    """Return a model by folder or hub name: in bfloat16 on an accelerator, or in float32 on the CPU.

    Raises `PolicyError` if the model cannot be found or loaded.
    """
    found = load_model(PolicyVersion(0, None, str(model_folder(name))))
    if torch.accelerator.is_available():
        found = found._replace(model=found.model.to(torch.accelerator.current_accelerator(), torch.bfloat16))
    return found


def as_text(prompt: Any, tokenizer: Any) -> Any:
    """Return a prompt for TRL: chat messages become one text if the tokenizer has no chat template."""
    if isinstance(prompt, str) or getattr(tokenizer, "chat_template", None):
        return prompt
    return "".join(f"{message['content']}\n\n" for message in prompt)


def complete(
    policy: LoadedModel,
    domain: Domain,
    rows: Sequence[Row],
    ask: Ask,
    on_rows: Callable[[int], None] = lambda done: None,
) -> list[list[JudgedCompletion]]:
    """Return `ask.completions` judged completions of each row's prompt, sampled in this process.

    `ask.seed` determines the completions. The caller's random state does not change. Raises `PolicyError` if
    a prompt has no tokens, or fills the model's whole context.
    """
    domain.check_tokens(policy.tokenizer)
    found: list[list[JudgedCompletion]] = []
    per_batch = max(1, _ROWS_AT_ONCE // ask.completions)
    was_training = policy.model.training
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(ask.seed)
        policy.model.eval()
        for first in range(0, len(rows), per_batch):
            batch = rows[first : first + per_batch]
            prompts = [prompt_ids(policy.tokenizer, row["prompt"], ask.template) for row in batch]
            if not all(prompts):
                raise PolicyError(
                    f"{policy.tokenizer.name_or_path}: its tokenizer makes no token of a prompt of "
                    f"{domain.name}; is it the tokenizer that the model was trained with?"
                )
            ids = _sample(policy, prompts, domain, ask)
            for place, row in enumerate(batch):
                mine = ids[place * ask.completions : (place + 1) * ask.completions]
                found.append(_judged(policy, domain, row, mine))
            on_rows(len(found))
    policy.model.train(was_training)
    return found


def prompt_ids(tokenizer: Any, prompt: Any, template: Mapping[str, Any]) -> list[int]:
    """Return the token ids of a prompt. Raises `PolicyError` if the chat template refuses the prompt."""
    text = as_text(prompt, tokenizer)
    if isinstance(text, str):
        return list(tokenizer(text)["input_ids"])
    try:
        made = tokenizer.apply_chat_template(text, add_generation_prompt=True, return_dict=True, **template)
    except TemplateError as error:
        raise PolicyError(
            f"{tokenizer.name_or_path}: its chat template refused the prompt: {error}; give it what it needs "
            "with --template KEY=VALUE, in a training with --set 'chat_template_kwargs={...}'"
        ) from error
    return list(made["input_ids"])


def _sample(policy: LoadedModel, prompts: Sequence[list[int]], domain: Domain, ask: Ask) -> list[list[int]]:
    model, pad = policy.model, policy.end_ids[0]
    longest = max(map(len, prompts))
    context = getattr(model.config, "max_position_embeddings", None)
    room = domain.max_tokens if context is None else context - longest
    if room < 1:
        raise PolicyError(
            f"a prompt of {domain.name} has {longest} tokens, and the model's context {context}; choose a "
            "model with a longer one"
        )
    rows = [[pad] * (longest - len(ids)) + ids for ids in prompts]
    mask = [[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts]
    config = GenerationConfig(
        do_sample=True, **ask.settings, **ask.more, num_return_sequences=ask.completions,
        max_new_tokens=min(room, domain.max_tokens), eos_token_id=list(policy.end_ids), pad_token_id=pad,
    )  # fmt: skip
    with _only(model, config):
        sampled = model.generate(
            input_ids=torch.tensor(rows, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
        )
    found = []
    for row in sampled[:, longest:].tolist():
        ends = [place for place, token in enumerate(row) if token in policy.end_ids]
        found.append(row[: ends[0] + 1] if ends else row)
    return found


@contextmanager
def _only(model: Any, config: GenerationConfig) -> Iterator[None]:
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    own, whole.generation_config = whole.generation_config, config
    try:
        yield
    finally:
        whole.generation_config = own


def _judged(
    policy: LoadedModel, domain: Domain, row: Row, rows: Sequence[list[int]]
) -> list[JudgedCompletion]:
    texts = [str(policy.tokenizer.decode(ids, skip_special_tokens=domain.judge_ids is None)) for ids in rows]
    if domain.judge_ids is not None:
        chains = [domain.judge_ids(ids, row) for ids in rows]
    else:
        chains = domain.judge(texts, [row] * len(texts))
    return list(map(JudgedCompletion, texts, chains, map(len, rows)))


def complete_at(
    base_url: str,
    model: str,
    domain: Domain,
    rows: Sequence[Row],
    ask: Ask,
    on_rows: Callable[[int], None] = lambda done: None,
) -> list[list[JudgedCompletion]]:
    """Return judged completions from an OpenAI-compatible server. Raises `ServerError` if sampling fails."""
    from evovpo.proposers.openai import OpenAIProposer

    endpoint: Any = "completions" if isinstance(rows[0]["prompt"], str) else "chat"
    settings = ProposerConfig(name="openai", base_url=base_url, model=model, endpoint=endpoint)
    extra = {"top_p": ask.top_p, "top_k": ask.top_k, "repetition_penalty": ask.repetition_penalty, **ask.more}
    plain = {"top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0}
    fields = {name: value for name, value in extra.items() if plain.get(name) != value}
    if ask.template:
        fields["chat_template_kwargs"] = dict(ask.template)
    named = ModelConfig(name=model, extra=fields)
    sampling, done = Sampling(ask.temperature, domain.max_tokens), count(1)

    async def one(proposer: OpenAIProposer, number: int, row: Row) -> list[JudgedCompletion]:
        text = row["prompt"]
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        ticket = Prompt(
            id=f"measure-{number}", run_id="measure", sequence=number, tells_before=0, kind=PromptKind.ROOT,
            messages=tuple(Message(message["role"], message["content"]) for message in messages),
            rollouts=ask.completions, seed=ask.seed + number,
        )  # fmt: skip
        rollouts = await proposer.propose(ticket, range(ask.completions), sampling)
        texts = [rollout.text for rollout in rollouts]
        chains = await asyncio.to_thread(domain.judge, texts, [row] * len(texts))
        on_rows(next(done))
        lengths = [len(rollout.token_ids or ()) for rollout in rollouts]
        return list(map(JudgedCompletion, texts, chains, lengths))

    async def every() -> list[list[JudgedCompletion]]:
        proposer = OpenAIProposer(settings, models=[named])
        try:
            await proposer.check()
            return list(await asyncio.gather(*(one(proposer, *pair) for pair in enumerate(rows))))
        finally:
            await proposer.aclose()

    return asyncio.run(every())
