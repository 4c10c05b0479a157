"""Chooses the proposer, servers and prompt format of a run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.random_baseline import RandomProposer
from evovpo.builtin.strings.format import PROMPT_END, ExpressionFormat, expression_fault
from evovpo.config import BudgetConfig, Config, ModelConfig
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import Judge, open_evaluator
from evovpo.judging.feedback import ModelJudge
from evovpo.problem.openevolve.prompting import OpenEvolvePrompts
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.request import PromptFormat, PromptRequest, ShownProgram, choose_rows
from evovpo.prompts.templates import load_templates
from evovpo.proposers import CheckedProposer, Proposer, interruptible
from evovpo.proposers.limits import Spending
from evovpo.proposers.policy_folders import SERVED, base_version
from evovpo.store import Store
from evovpo.types import Message, ParentRole, PolicyVersion, Problem, Prompt, PromptKind, content_id

_LONG_PROGRAM = 2000


def choose_format(problem: Problem, config: Config) -> PromptFormat:
    """Return the prompt format for the setting `prompt.style`.

    Style `auto` chooses the built-in model's format if that fits the proposer and the problem. Otherwise,
    long or partly fixed programs get a format for edits, and others a format for whole programs. Raises
    `ProblemError` if the problem does not fit the style, `ConfigError` for bad templates or proposers.
    """
    style, proposer = config.prompt.style, config.proposer
    if proposer.name == "random" and style not in ("auto", "alignment"):
        raise ConfigError(
            f"prompt.style is '{style}' and proposer.name 'random', which writes expressions as the built-in "
            "model does; expected style auto, or another proposer"
        )
    if style == "auto":
        is_chat = proposer.name == "own" or (proposer.name == "openai" and proposer.endpoint == "chat")
        if proposer.name in ("local", "random") and problem.evaluator is None:
            return ExpressionFormat(problem)
        style = _instruct_style(problem) if expression_fault(problem) or is_chat else "alignment"
    if style == "alignment":
        return ExpressionFormat(problem)
    templates = load_templates(config.prompt.templates)
    ours = (DiffFormat if style == "diff" else RewriteFormat)(config.prompt, templates)
    return OpenEvolvePrompts(ours, config.prompt) if config.prompt.openevolve is not None else ours


def _instruct_style(problem: Problem) -> Literal["diff", "rewrite"]:
    start = next((seed.source for seed in problem.seeds), "")
    # Edits suit a long program, or one with fixed parts.
    return "diff" if len(start) > _LONG_PROGRAM or "EVOLVE-BLOCK-START" in start else "rewrite"


def with_style(problem: Problem, config: Config, store: Store | None = None) -> Config:
    """Return `config`, with a concrete prompt style in place of `auto` if the proposer is a server."""
    if config.proposer.name != "openai" or config.prompt.style != "auto":
        return config
    fits = config.proposer.endpoint != "chat" and not expression_fault(problem)
    style = "alignment" if fits and _offers_ours(config, store) else _instruct_style(problem)
    return config.changed(prompt={"style": style})


def _offers_ours(config: Config, store: Store | None) -> bool:
    """Return whether a server's model supports the built-in model's prompts, judging by name or tokenizer."""
    policy, name = config.proposer.policy, config.proposer.model or "".join(m.name for m in config.models[:1])
    version = PolicyVersion(0, None, name)
    if policy != "start" and store is not None:
        version = _choose_policy(policy, version, store)[0]
    tokenizer = Path(base_version(version).path, "tokenizer.json")
    if tokenizer.is_file():
        return PROMPT_END in tokenizer.read_text(encoding="utf-8")
    return policy != "start" or name.startswith(SERVED)


def example_prompts(problem: Problem, config: Config) -> dict[PromptKind, tuple[Message, ...]]:
    """Return example prompts by kind: for a new program and, if possible, to improve a starting program."""
    made_by = choose_format(problem, with_style(problem, config))
    rng = np.random.default_rng(config.run.seed)
    rows = choose_rows(len(problem.train), made_by.max_rows, rng)
    plain = PromptRequest(config.search.answers, rows=rows)
    requests = [plain]
    for seed in problem.seeds[:1]:
        if made_by.can_show(problem, seed, ParentRole.PARENT):
            with open_evaluator(problem, config) as judge:
                parent = ShownProgram(seed, judge.evaluate(seed))
            requests.append(replace(plain, kind=PromptKind.MUTATE, parent=parent))
    return {request.kind: made_by.messages(problem, request) for request in requests}


def check_proposer(problem: Problem, config: Config) -> None:
    """Raise `ConfigError` if the configured kind of proposer cannot write programs for the problem."""
    if problem.evaluator is not None and config.proposer.name in ("local", "random"):
        raise ConfigError(
            f"'{problem.id}' is an OpenEvolve project, for which the built-in model cannot write; expected "
            "an instruction model behind a server: give --base-url URL --model NAME, or llm.api_base and "
            "llm.models in its config.yaml"
        )
    fault = expression_fault(problem) if config.prompt.style in ("auto", "alignment") else ""
    if fault and config.proposer.name in ("local", "random"):
        raise ConfigError(
            f"the built-in model writes functions of text, and cannot write for '{problem.id}': {fault}; or "
            "give an instruction model behind a server: --base-url URL --model NAME"
        )


def open_proposer(
    problem: Problem, config: Config, store: Store | None = None, said: set[str] | None = None
) -> Proposer:
    """Return the configured proposer, with the configured version of its model (`proposer.policy`).

    `said` is a set of printed messages about servers; proposers that share the set do not repeat a message.
    Without a store, the version must be `start`. Raises `PolicyError` for an unusable model folder,
    `StoreError` for an unknown version, and `ConfigError` for settings that do not fit together.
    """
    settings = config.proposer
    if settings.name != "openai" and (config.models or config.budget != BudgetConfig()):
        raise ConfigError(
            f"proposer.name is '{settings.name}', and [[models]] and [budget] are for servers; set "
            "proposer.name=openai, or leave them out"
        )
    if settings.name == "random":
        return RandomProposer(problem)
    if settings.name == "local":
        from evovpo.proposers.local import LocalProposer

        start = PolicyVersion(0, None, settings.model or str(BUILT_IN_MODEL))
        version, follow = _choose_policy(settings.policy, start, store)
        return LocalProposer(version, follow=follow)
    if settings.name == "openai":
        if not settings.model and not config.models:
            raise ConfigError(
                "proposer.model is empty; expected the name under which the server offers its model (its "
                "/v1/models lists them)"
            )
        from evovpo.proposers.openai import OpenAIProposer

        own = PolicyVersion(0, None, settings.model or config.models[0].name)
        version, follow = _choose_policy(settings.policy, own, store)
        return OpenAIProposer(
            settings,
            models=config.models,
            version=None if version == own else version,
            follow=follow,
            budget=config.budget,
            record=(lambda call: None) if store is None else store.add_call,
            spent_before=(lambda run_id: Spending()) if store is None else partial(_spent, store),
            said=said,
        )
    hint = " (in Python, give your function as proposer=)" * (settings.name == "own")
    raise ConfigError(f"proposer.name is '{settings.name}'; expected local, openai or random{hint}")


def with_models(judge: Judge, problem: Problem, config: Config, store: Store, run_id: str) -> Judge:
    """Return `judge`, extended by the scores of the models that `evaluator.judges` names, if any."""
    if not config.evaluator.judges:
        return judge

    said: set[str] = set()

    def ask(model: ModelConfig) -> Proposer:
        proposer = {"name": "openai", "model": None, "policy": "start", "patience_seconds": 0.0}
        return open_proposer(problem, config.changed(proposer=proposer, models=(model,)), store, said)

    first = Prompt(content_id(run_id, "0"), run_id, 0, 0, PromptKind.MUTATE)  # id of the first prompt
    return ModelJudge(judge, problem, config, first, ask)


def _spent(store: Store, run_id: str) -> Spending:
    totals = store.call_totals(run_id)
    return Spending(totals.prompt_tokens + totals.completion_tokens, totals.cost or 0.0)


def _choose_policy(
    policy: str, start: PolicyVersion, store: Store | None
) -> tuple[PolicyVersion, Callable[[], PolicyVersion] | None]:
    """Return the model version to use and, if that may change, a function that returns the newest version."""
    if policy == "start":
        return start, None
    if store is None:
        raise ConfigError(f"proposer.policy is {policy}, and there is no store here; change it to start")
    if policy == "served":
        return store.served() or start, lambda: store.served() or start
    if int(policy) == 0 and not any(version.number == 0 for version in store.policy_versions()):
        return start, None
    return store.policy_version(int(policy)), None


def checked_proposer(
    problem: Problem, config: Config, store: Store, proposer: Proposer | None = None
) -> Proposer:
    """Return `proposer`, by default the configured proposer, after checking the server that it uses."""
    proposer = proposer or open_proposer(problem, config, store)
    if isinstance(proposer, CheckedProposer):
        interruptible.run(proposer.check())
    return proposer
