"""Who writes the programs of a run: the proposer that the configuration names, with its policy version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evovpo.builtin import BUILT_IN_MODEL, FORMULA_MODEL
from evovpo.builtin.choice import built_in_fault, built_in_model, random_proposer
from evovpo.builtin.formulas.format import formula_fault
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import BudgetConfig, Config
from evovpo.errors import ConfigError
from evovpo.proposers import Checked, Proposer
from evovpo.proposers.limits import Spent
from evovpo.store import Store
from evovpo.types import PolicyVersion, Problem

if TYPE_CHECKING:
    from evovpo.proposers.embeddings import OpenAIEmbedder


def check_proposer(problem: Problem, config: Config) -> None:
    """Raise `ConfigError` if the configured proposer cannot write programs for the problem, by its kind."""
    if problem.evaluator is not None and config.proposer.name in ("local", "random"):
        raise ConfigError(
            f"'{problem.id}' is an OpenEvolve project, for which the built-in model cannot write; expected "
            "an instruction model behind a server: give --base-url URL --model NAME, or llm.api_base and "
            "llm.models in its config.yaml"
        )
    faults = {"auto": built_in_fault, "alignment": expression_fault, "formula": formula_fault}
    fault = faults.get(config.prompt.style, lambda _: "")(problem)
    if fault and config.proposer.name in ("local", "random"):
        raise ConfigError(
            f"the built-in model cannot write for '{problem.id}': {fault}; expected an instruction model "
            "behind a server: give --base-url URL --model NAME"
        )


def open_proposer(problem: Problem, config: Config, store: Store | None = None) -> Proposer:
    """Return the proposer that the configuration names, sampling from the policy version that it names.

    Without a store the only policy is `start`. Raises `PolicyError` for a model folder that is not one or is
    gone, `StoreError` for a policy version that the store does not hold, `ConfigError` for a name without a
    proposer of its own (`scripted` is built by tests) and for a server without an address.
    """
    settings = config.proposer
    if settings.name != "openai" and (config.models or config.budget != BudgetConfig()):
        raise ConfigError(
            f"proposer.name is '{settings.name}', and [[models]] and [budget] are for servers; set "
            "proposer.name=openai, or leave them out"
        )
    if settings.name == "random":
        return random_proposer(problem)
    if settings.name == "local":
        from evovpo.proposers.local import LocalProposer

        start = PolicyVersion(0, None, settings.model or str(built_in_model(problem)))
        if store is not None and not settings.model and settings.policy != "start":
            _check_start_model(problem, store)
        version, follow = _choose_policy(settings.policy, start, store)
        return LocalProposer(version, threads=settings.threads or 1, follow=follow)
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
            spent_before=(lambda run_id: Spent()) if store is None else partial(_spent, store),
        )
    raise ConfigError(f"proposer.name is '{settings.name}'; expected local, openai or random; change it")


def _spent(store: Store, run_id: str) -> Spent:
    """Return what the stored requests of a run took."""
    totals = store.call_totals(run_id)
    return Spent(totals.prompt_tokens + totals.completion_tokens, totals.cost or 0.0)


def _choose_policy(
    policy: str, start: PolicyVersion, store: Store | None
) -> tuple[PolicyVersion, Callable[[], PolicyVersion] | None]:
    """Return the version to sample from, and for `served` what says before each request which it is now."""
    if policy == "start":
        return start, None
    if store is None:
        raise ConfigError(f"proposer.policy is {policy}, and there is no store here; change it to start")
    if policy == "served":

        def follow() -> PolicyVersion:
            return store.served() or start

        return follow(), follow
    if int(policy) == 0 and not any(version.number == 0 for version in store.policy_versions()):
        return start, None
    return store.policy_version(int(policy)), None


def _check_start_model(problem: Problem, store: Store) -> None:
    """Raise `ConfigError` if a store's versions come from a built-in model that writes something else."""
    fitting = built_in_model(problem)
    for version in store.policy_versions():
        others = {BUILT_IN_MODEL, FORMULA_MODEL} - {fitting}
        if version.number == 0 and Path(version.path).resolve() in {folder.resolve() for folder in others}:
            raise ConfigError(
                f"the policy versions in {store.name} come from the built-in model in {version.path}, and "
                f"for '{problem.id}' the one in {fitting} writes; give it a store of its own (--store)"
            )


class Servers(NamedTuple):
    """Who is asked while a run is searched."""

    proposer: Proposer
    embedder: OpenAIEmbedder | None
    """Turns programs into vectors; None where novelty is not judged by meaning."""


def open_servers(problem: Problem, config: Config, store: Store, proposer: Proposer | None = None) -> Servers:
    """Return the given proposer, or the configured one, and the configured embedder.

    Raises as `open_proposer`, and what is wrong with a server, before anything is spent.
    """
    servers = Servers(proposer or open_proposer(problem, config, store), _open_embedder(config))
    if isinstance(servers.proposer, Checked):
        asyncio.run(servers.proposer.check())
    return servers


def _open_embedder(config: Config) -> OpenAIEmbedder | None:
    if not config.search.novelty_model:
        return None
    from evovpo.proposers.embeddings import OpenAIEmbedder

    return OpenAIEmbedder(config.proposer, config.search.novelty_model)
