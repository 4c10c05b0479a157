"""OpenEvolve's YAML -> our configuration: what each of its keys becomes here, and which have no effect.

OpenEvolve's own loader reads the values, so that they mean what they mean there. It ignores keys that it
does not know without a word, so the keys themselves are compared here: every key of a file ends up in
exactly one line of `Settings.keys`. A secret in a file is neither kept nor shown.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.errors import ConfigError
from evovpo.types import Feature


class Effect(StrEnum):
    """What a key of a file does here."""

    MAPPED = "mapped"
    NONE = "without effect"
    UNKNOWN = "unknown"


class Key(NamedTuple):
    """One key of a file and what became of it."""

    name: str
    """With its sections, for example `llm.models[].name`."""
    effect: Effect
    remark: str
    """The setting that it became, or why it has no effect."""


class Settings(NamedTuple):
    """What an OpenEvolve configuration says, in our terms."""

    values: dict[str, object]
    """Setting such as `search.islands` -> value; only of keys that the file holds."""
    models: tuple[dict[str, object], ...]
    """Tables of `[[models]]`, where the file names several models; else none."""
    statement: str
    """The system message: what a program is for. Empty where the file has none."""
    axes: tuple[tuple[str, int], ...]
    """Names and bins of the feature dimensions that the file names."""
    keys: tuple[Key, ...]

    def base(self) -> dict[str, object]:
        """Return values as sections with keys, and models as a list, as a configuration file has them."""
        sections: dict[str, dict[str, object]] = {}
        for setting, value in self.values.items():
            section, _, key = setting.partition(".")
            sections.setdefault(section, {})[key] = value
        return {**sections, **({"models": list(self.models)} if self.models else {})}

    def features(self, objectives: tuple[str, ...]) -> tuple[Feature, ...]:
        """Return the grid axes that exist here: the length of the source, and any objective."""
        found = []
        for name, bins in self.axes:
            if name == "complexity":
                found.append(Feature("length", bins=bins))
            elif name in objectives:
                found.append(Feature(f"reward:{name}", bins=bins))
        return tuple(found)


NO_SETTINGS = Settings({}, (), "", (), ())
"""Of a project without a configuration file."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECTIONS = ("llm", "prompt", "database", "evaluator", "evolution_trace")
_STORED = "every call, program and judgement is in the store"
_SELECTED = "search.selection chooses parents"
_ELSEWHERE = "only OpenAI-compatible servers are asked"
_OWN_PROMPTS = "the prompts here are other ones; see prompt.templates"
_NO_JUDGE = "judgements come from the evaluator alone"

_MAPPED: dict[str, tuple[str, Callable[[Any], object]]] = {
    "max_iterations": ("search.evaluations", lambda c: c.max_iterations),
    "random_seed": ("run.seed", lambda c: c.random_seed),
    "diff_based_evolution": ("prompt.style", lambda c: "diff" if c.diff_based_evolution else "rewrite"),
    "early_stopping_patience": ("search.patience", lambda c: _positive(c.early_stopping_patience)),
    "llm.api_base": ("proposer.base_url", lambda c: c.llm.api_base),
    "llm.temperature": ("sampling.temperature", lambda c: c.llm.temperature),
    "llm.max_tokens": ("sampling.max_tokens", lambda c: c.llm.max_tokens),
    "llm.timeout": ("proposer.timeout_seconds", lambda c: c.llm.timeout),
    "llm.retries": ("proposer.attempts", lambda c: c.llm.retries + 1),
    "prompt.num_top_programs": ("search.inspirations", lambda c: _inspirations(c)),
    "prompt.num_diverse_programs": ("search.inspirations", lambda c: _inspirations(c)),
    "prompt.include_artifacts": (
        "evaluator.artifacts",
        lambda c: c.prompt.include_artifacts and c.evaluator.enable_artifacts,
    ),
    "prompt.max_artifact_bytes": (
        "evaluator.artifact_bytes",
        lambda c: min(c.prompt.max_artifact_bytes, 20_480),
    ),
    "database.num_islands": ("search.islands", lambda c: c.database.num_islands),
    "database.migration_interval": ("search.migration_interval", lambda c: c.database.migration_interval),
    "database.archive_size": ("search.elites", lambda c: _elites(c)),
    "database.migration_rate": (
        "search.migrants",
        lambda c: math.ceil(c.database.migration_rate * _elites(c)),
    ),
    "database.embedding_model": ("search.novelty_model", lambda c: c.database.embedding_model),
    "database.similarity_threshold": ("search.novelty_cosine", lambda c: c.database.similarity_threshold),
    "evaluator.timeout": ("evaluator.timeout_seconds", lambda c: c.evaluator.timeout),
    "evaluator.memory_limit_mb": ("evaluator.memory_mb", lambda c: c.evaluator.memory_limit_mb),
    "evaluator.cascade_evaluation": ("evaluator.cascade", lambda c: c.evaluator.cascade_evaluation),
    "evaluator.cascade_thresholds": (
        "evaluator.thresholds",
        lambda c: ", ".join(str(float(value)) for value in c.evaluator.cascade_thresholds),
    ),
    "evaluator.parallel_evaluations": ("sandbox.workers", lambda c: c.evaluator.parallel_evaluations),
    "evaluator.enable_artifacts": (
        "evaluator.artifacts",
        lambda c: c.prompt.include_artifacts and c.evaluator.enable_artifacts,
    ),
}
"""Key -> our setting, and its value from the loaded configuration."""

_WITHOUT_EFFECT: dict[str, str] = {
    "checkpoint_interval": "every judgement is stored at once",
    "log_level": _STORED,
    "log_dir": _STORED,
    "language": "the initial program's file ending says it",
    "file_suffix": "the initial program's file ending is kept",
    "max_code_length": "sampling.max_tokens bounds a program",
    "enforce_evolve_blocks": "edits outside EVOLVE-BLOCK markers are always refused",
    "diff_pattern": "the usual SEARCH/REPLACE form is read",
    "convergence_threshold": "any improvement counts",
    "early_stopping_metric": "search.target and search.patience look at the best program",
    "max_tasks_per_child": "each evaluation has a process of its own",
    "llm.provider": _ELSEWHERE,
    "llm.init_client": _ELSEWHERE,
    "llm.name": "models are named in llm.models or llm.primary_model",
    "llm.weight": "a weight belongs to one of several models",
    "llm.retry_delay": "waiting doubles from attempt to attempt, or is what the server asks for",
    "llm.random_seed": "sampling seeds derive from run.seed",
    "llm.max_budget_usd": "a limit of another client for one call; see [budget]",
    "llm.max_ai_credits": _ELSEWHERE,
    "llm.allow_all_tools": _ELSEWHERE,
    "llm.manual_mode": _ELSEWHERE,
    "llm.evaluator_models": _NO_JUDGE,
    "prompt.template_dir": _OWN_PROMPTS,
    "prompt.evaluator_system_message": _NO_JUDGE,
    "prompt.programs_as_changes_description": "programs are shown as they are",
    "prompt.system_message_changes_description": "programs are shown as they are",
    "prompt.initial_changes_description": "programs are shown as they are",
    "prompt.use_template_stochasticity": _OWN_PROMPTS,
    "prompt.template_variations": _OWN_PROMPTS,
    "prompt.use_meta_prompting": "OpenEvolve does not use it either",
    "prompt.meta_prompt_weight": "OpenEvolve does not use it either",
    "prompt.artifact_security_filter": "artifacts are capped and marked as untrusted text",
    "prompt.suggest_simplification_after_chars": _OWN_PROMPTS,
    "prompt.include_changes_under_chars": _OWN_PROMPTS,
    "prompt.concise_implementation_max_lines": _OWN_PROMPTS,
    "prompt.comprehensive_implementation_min_lines": _OWN_PROMPTS,
    "prompt.diff_summary_max_line_len": _OWN_PROMPTS,
    "prompt.diff_summary_max_lines": _OWN_PROMPTS,
    "prompt.code_length_threshold": _OWN_PROMPTS,
    "database.db_path": "store.url names the database",
    "database.in_memory": "store.url names the database",
    "database.log_prompts": _STORED,
    "database.population_size": "elites and cells bound an island",
    "database.elite_selection_ratio": _SELECTED,
    "database.exploration_ratio": _SELECTED,
    "database.exploitation_ratio": _SELECTED,
    "database.diversity_metric": "reward vectors keep programs apart",
    "database.diversity_reference_size": "reward vectors keep programs apart",
    "database.random_seed": "run.seed is the source of all randomness",
    "database.artifacts_base_path": _STORED,
    "database.artifact_size_threshold": _STORED,
    "database.cleanup_old_artifacts": _STORED,
    "database.artifact_retention_days": _STORED,
    "database.max_snapshot_artifacts": "every prompt has its parent's feedback",
    "database.novelty_llm": "no model judges novelty",
    "database.embedding_api_base": "embeddings come from proposer.base_url",
    "evaluator.max_retries": "a program that fails once has failed; faults of the machine are retried",
    "evaluator.cpu_limit": "the time limit bounds an evaluation",
    "evaluator.distributed": "OpenEvolve does not use it either",
    "evaluator.use_llm_feedback": _NO_JUDGE,
    "evaluator.llm_feedback_weight": _NO_JUDGE,
    "evaluator.max_artifact_storage": "evaluator.artifact_bytes bounds what is kept",
    **{
        f"evolution_trace.{name}": _STORED
        for name in (
            "enabled",
            "format",
            "include_code",
            "include_prompts",
            "output_path",
            "buffer_size",
            "compress",
        )
    },
}
"""Key -> why it has no effect here."""

_LEGACY_MODELS = ("primary_model", "primary_model_weight", "secondary_model", "secondary_model_weight")
_FOR_EACH_MODEL = ("top_p", "reasoning_effort")
"""Keys of `llm` that have a place only in the table of a model."""
_TOP_LEVEL_WORKERS = "parallel_evaluations"
_OF_MODEL = {
    "api_base": "base_url",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "top_p": "top_p",
    "reasoning_effort": "extra",
}
"""What a model may have of its own: their name, ours."""
_NO_SETTING = "no setting of OpenEvolve's; it ignores it too"


def _positive(number: int) -> int | None:
    """A negative patience there means: stop where a score is exactly the threshold."""
    return number if number > 0 else None


def _inspirations(config: Any) -> int:
    return int(config.prompt.num_top_programs + config.prompt.num_diverse_programs)


def _elites(config: Any) -> int:
    """An island's part of the archive, which they share there."""
    size, islands = int(config.database.archive_size), int(config.database.num_islands)
    return max(1, math.ceil(size / max(1, islands)))


def read_settings(path: Path) -> Settings:
    """Return what the YAML file at `path` says.

    Raises `ConfigError`, naming the file, if it cannot be read, is no YAML, holds no key of OpenEvolve's, or
    is one that OpenEvolve refuses.
    """
    raw, twice = _raw(path)
    loaded = _loaded(path, raw)
    models = _models(raw, loaded)
    values: dict[str, object] = {}
    keys = [Key(name, Effect.NONE, "given twice; the later one counts") for name in twice]
    for name, value in _leaves(raw):
        section, _, last = name.rpartition(".")
        setting, of = _MAPPED.get(name, ("", None))
        if value is None:
            keys.append(Key(name, Effect.NONE, "empty: nothing is said"))
        elif last == "api_key":
            keys.append(_secret(name, value))
        elif name in ("prompt.system_message", "llm.system_message"):
            keys.append(Key(name, Effect.MAPPED, "what prompts say of the task"))
        elif name.startswith("database.feature_"):
            keys.append(Key(name, Effect.MAPPED, "grid axes: complexity is length, metrics are rewards"))
        elif section == "llm.models[]" or (section == "llm" and last in (*_LEGACY_MODELS, *_FOR_EACH_MODEL)):
            keys.append(_model_key(name, last))
        elif of is not None and of(loaded) is None:
            keys.append(Key(name, Effect.NONE, f"{setting} has no such value; it stays as it is"))
        elif of is not None:
            values[setting] = of(loaded)
            keys.append(Key(name, Effect.MAPPED, f"{setting} = {values[setting]}"))
        elif name == _TOP_LEVEL_WORKERS:
            values["sandbox.workers"] = value
            keys.append(Key(name, Effect.MAPPED, f"sandbox.workers = {value}; OpenEvolve ignores it here"))
        else:
            reason = _reason(name)
            keys.append(Key(name, Effect.NONE if reason else Effect.UNKNOWN, reason or _NO_SETTING))
    own = [model for model in models if model.keys() - {"name", "weight"}]
    tables = tuple(models) if len(models) > 1 or own else ()
    if models:
        values["proposer.name"] = "openai"
    if models and not tables:
        values["proposer.model"] = models[0]["name"]
    return Settings(values, tables, _statement(loaded), _axes(raw, loaded), tuple(dict.fromkeys(keys)))


def _statement(loaded: Any) -> str:
    """Return the system message, unless it is the name of OpenEvolve's own default one."""
    for message in (loaded.prompt.system_message, loaded.llm.system_message):
        if isinstance(message, str) and message.strip() not in ("", "system_message"):
            return message
    return ""


def _raw(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the file as it is, and the keys that it holds twice."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        raw = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"{path}: expected a YAML file, but it cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected YAML: {_one_line(error)}; correct it") from error
    if raw is None:
        return {}, []
    known = {field.name for field in _sections()[""]} | {_TOP_LEVEL_WORKERS}
    if not isinstance(raw, dict) or not known & raw.keys():
        found = ", ".join(str(key) for key in list(raw)[:8]) if isinstance(raw, dict) else f"{raw!r:.80}"
        raise ConfigError(
            f"{path}: expected a configuration of OpenEvolve's, found none of its keys (only {found}); give "
            "another file with --openevolve-config, or --openevolve-config none to read none"
        )
    return raw, list(_repeated(node, ""))


def _repeated(node: Any, prefix: str) -> Iterator[str]:
    """Yield the keys that a mapping of a YAML tree holds more than once."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item, f"{prefix.rstrip('.')}[].")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = f"{prefix}{key.value}"
            if name in seen:
                yield name
            seen.add(name)
            yield from _repeated(value, f"{name}.")


def _sections() -> dict[str, tuple[dataclasses.Field[Any], ...]]:
    """Return OpenEvolve's own settings, by section; "" is the top level."""
    from openevolve.config import Config

    whole = Config()
    fields = {"": dataclasses.fields(Config)}
    return fields | {name: dataclasses.fields(getattr(whole, name)) for name in _SECTIONS}


def _loaded(path: Path, raw: Mapping[str, Any]) -> Any:
    """Return what OpenEvolve's own loader makes of the file; raises `ConfigError` for what it refuses.

    Empty values are left out, which is what they mean, and so are keys to servers: its loader would put them
    into the configuration.
    """
    from openevolve.config import Config

    for name in _SECTIONS:
        if not isinstance(raw.get(name) or {}, dict):
            raise ConfigError(
                f"{path}: {name}: expected a section with keys, found {raw[name]!r:.80}; correct it"
            )
    data = _without_secrets(copy.deepcopy(dict(raw)))
    for model in ("primary_model", "secondary_model"):
        if "llm" in data and model not in data["llm"]:
            data["llm"].pop(f"{model}_weight", None)  # of no model
    try:
        return Config.from_dict(data)
    except Exception as error:  # whatever its loader and its data classes raise is a fault of the file
        raise ConfigError(f"{path}: OpenEvolve refuses this file: {_one_line(error)}; correct it") from error


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_secrets(inner)
            for key, inner in value.items()
            if inner is not None and key != "api_key"
        }
    return [_without_secrets(inner) for inner in value] if isinstance(value, list) else value


def _leaves(value: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of the file with its value, sections and lists of sections taken apart."""
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, dict) and inner and name not in _WITHOUT_EFFECT:
            yield from _leaves(inner, f"{name}.")
        elif isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            for item in inner:
                yield from _leaves(item, f"{name}[].")
        else:
            yield name, inner


def _axes(raw: Mapping[str, Any], loaded: Any) -> tuple[tuple[str, int], ...]:
    """Return the feature dimensions that the file itself names, each with its bins."""
    if (raw.get("database") or {}).get("feature_dimensions") is None:
        return ()
    bins = loaded.database.feature_bins
    return tuple(
        (str(name), int(bins.get(name, 10) if isinstance(bins, dict) else bins))
        for name in loaded.database.feature_dimensions
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _models(raw: Mapping[str, Any], loaded: Any) -> list[dict[str, object]]:
    """Return a table of `[[models]]` for each model that the file names; weights of like ones are added.

    Only what a model has of its own is in its table; the rest it has from `[proposer]` and `[sampling]`.
    """
    shared = raw.get("llm") or {}
    entries = shared.get("models") or []
    tables: list[dict[str, object]] = []
    for index, model in enumerate(loaded.llm.models):  # those of the list first, then the named two
        entry = entries[index] if index < len(entries) else {}
        if not model.name or not model.weight:
            continue
        table: dict[str, object] = {
            _OF_MODEL[key]: entry[key]
            for key in ("api_base", "temperature", "max_tokens")
            if entry.get(key) is not None
        }
        if model.top_p is not None:
            table["top_p"] = float(model.top_p)
        if model.reasoning_effort is not None:
            table["extra"] = json.dumps({"reasoning_effort": model.reasoning_effort})
        variable = _variable(entry.get("api_key") or shared.get("api_key"))
        if variable:
            table["key_variable"] = variable
        table = {"name": str(model.name), "weight": float(model.weight), **table}
        for other in tables:
            if {**other, "weight": 0.0} == {**table, "weight": 0.0}:
                other["weight"] = float(str(other["weight"])) + float(model.weight)
                break
        else:
            tables.append(table)
    return tables


def _variable(secret: object) -> str | None:
    """Return the name in `${NAME}`, or none for anything else."""
    found = _VARIABLE.fullmatch(secret) if isinstance(secret, str) else None
    return found[1] if found else None


def _secret(name: str, value: object) -> Key:
    variable = _variable(value)
    if variable is None:
        return Key(
            name, Effect.NONE, "a key in a file is not read; put it into the environment: OPENAI_API_KEY"
        )
    return Key(name, Effect.MAPPED, f"models.key_variable = {variable}")


def _model_key(name: str, last: str) -> Key:
    if last in ("name", "weight", *_LEGACY_MODELS):
        return Key(name, Effect.MAPPED, "proposer.model, or [[models]] where there are several")
    if last in _OF_MODEL:
        return Key(name, Effect.MAPPED, f"models.{_OF_MODEL[last]}")
    reason = _WITHOUT_EFFECT.get(f"llm.{last}")
    if last == "system_message":
        reason = "the prompt's own is sent, as OpenEvolve does"
    elif reason is None and f"llm.{last}" in _MAPPED:
        reason = "one value for all models: give it in llm"
    return Key(name, Effect.UNKNOWN if reason is None else Effect.NONE, reason or _NO_SETTING)


def _reason(name: str) -> str | None:
    """Return why a key has no effect here, or none if OpenEvolve has no such key."""
    if name.startswith("llm.evaluator_models[]."):
        return _NO_JUDGE
    return _WITHOUT_EFFECT.get(name)
