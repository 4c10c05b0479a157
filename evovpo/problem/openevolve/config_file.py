"""Converts OpenEvolve's YAML configuration to settings of evovpo.

Unknown keys are reported. Secrets are neither stored nor displayed.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.config_tree import in_sections
from evovpo.errors import ConfigError
from evovpo.problem.openevolve import config_keys as theirs
from evovpo.types import Feature


class Effect(StrEnum):
    MAPPED = "mapped"
    NONE = "without effect"
    UNKNOWN = "unknown"


class Key(NamedTuple):
    name: str
    effect: Effect
    remark: str
    """The setting of evovpo that results from the key, or the reason that the key has no effect."""


class OpenEvolveSettings(NamedTuple):
    values: dict[str, object]
    """Setting of evovpo, such as `search.islands`, -> value; only settings that the file determines."""
    models: tuple[dict[str, object], ...]
    """Tables for `[[models]]`; empty for a single model without settings of its own."""
    statement: str
    axes: tuple[tuple[str, int], ...]
    """Name and number of bins of each feature dimension in the file."""
    keys: tuple[Key, ...]

    def base(self) -> dict[str, object]:
        """Return the settings as nested sections, as in a configuration file of evovpo."""
        return in_sections(self.values | ({"models": list(self.models)} if self.models else {}))

    def remarks(self, name: str) -> list[str]:
        """Return a line that counts the keys by effect, or no line if there are no keys."""
        names = {effect: {key.name for key in self.keys if key.effect is effect} for effect in Effect}
        counts = ", ".join(f"{len(found)} {effect}" for effect, found in names.items())
        unknown = f" (unknown: {', '.join(sorted(names[Effect.UNKNOWN]))})" * bool(names[Effect.UNKNOWN])
        said = f"OpenEvolve configuration{unknown}: keys {counts}; all of them:  evovpo check {name}"
        return [said] * bool(self.keys)

    def features(self, objectives: tuple[str, ...]) -> tuple[Feature, ...]:
        """Return a `Feature` (axis of the MAP-Elites grid) for each feature dimension except `diversity`."""
        known = {name: f"reward:{name}" for name in objectives} | {"complexity": "length", "score": "score"}
        axes = [(known.get(name, f"metric:{name}"), bins) for name, bins in self.axes if name != "diversity"]
        return tuple(Feature(name, bins=bins) for name, bins in axes)


NO_SETTINGS = OpenEvolveSettings({}, (), "", (), ())

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_NODES = 100_000
_SECTIONS = ("llm", "prompt", "database", "evaluator", "evolution_trace")


def read_settings(path: Path) -> OpenEvolveSettings:
    """Return the settings in an OpenEvolve YAML file. Raises `ConfigError` if the file is invalid."""
    raw = _raw_yaml(path)
    loaded = _loaded(path, raw)
    models = _model_tables(raw, loaded)
    values = _judges(raw, loaded)
    keys: list[Key] = []
    for name, value in _leaves(raw):
        section, _, last = name.rpartition(".")
        setting, of = theirs.MAPPED.get(name, ("", None))
        mapped = None if of is None or value is None else of(loaded)
        if value is None:
            keys.append(Key(name, Effect.NONE, "empty: nothing is said"))
        elif last == "api_key":
            variable = _environment_variable(value)
            unread = "a key in a file is not read; put it into the environment: OPENAI_API_KEY"
            remark = f"models.key_variable = {variable}" if variable else unread
            keys.append(Key(name, Effect.MAPPED if variable else Effect.NONE, remark))
        elif name in ("prompt.system_message", "llm.system_message"):
            keys.append(Key(name, Effect.MAPPED, "what prompts say of the task"))
        elif name.startswith("database.feature_"):
            keys.append(Key(name, Effect.MAPPED, "axes: length for complexity, metrics; diversity has none"))
        elif section == "llm.models[]" or (section == "llm" and last in theirs.OF_ONE_MODEL):
            keys.append(_model_key(name, last))
        elif setting and mapped is None:
            ours = "the prompts here are other ones, unless there is prompt.template_dir"
            none = f"{setting} has no such value; it stays as it is"
            keys.append(Key(name, Effect.NONE, ours if setting == theirs.PROMPTS else none))
        elif setting:
            values[setting] = mapped
            told = "OpenEvolve's own prompts, without {changes}" if setting == theirs.PROMPTS else mapped
            keys.append(Key(name, Effect.MAPPED, f"{setting} = {told}"))
        elif name == theirs.TOP_LEVEL_WORKERS:
            values["sandbox.workers"] = value
            keys.append(Key(name, Effect.MAPPED, f"sandbox.workers = {value}; OpenEvolve ignores it here"))
        else:
            is_judge = name.startswith("llm.evaluator_models[].")
            reason = theirs.NO_JUDGE if is_judge else theirs.WITHOUT_EFFECT.get(name)
            effect = Effect.NONE if reason else Effect.UNKNOWN
            if reason == theirs.NO_JUDGE and "evaluator.judges" in values:
                effect, reason = Effect.MAPPED, "evaluator.judges: models that score programs too"
            keys.append(Key(name, effect, reason or theirs.NO_SETTING))
    own = [model for model in models if model.keys() - {"name", "weight"}]
    tables = tuple(models) if len(models) > 1 or own else ()
    if models:
        values["proposer.name"] = "openai"
    if models and not tables:
        values["proposer.model"] = models[0]["name"]
    # "system_message" is the name of OpenEvolve's default template.
    messages = (loaded.prompt.system_message, loaded.llm.system_message)
    own_text = (one for one in messages if isinstance(one, str) and one.strip() not in ("", "system_message"))
    return OpenEvolveSettings(
        values, tables, next(own_text, ""), _axes(raw, loaded), tuple(dict.fromkeys(keys))
    )


def _raw_yaml(path: Path) -> dict[str, Any]:
    import yaml
    from openevolve.config import Config

    try:
        text = path.read_text(encoding="utf-8-sig")
        if _size(yaml.compose(text, Loader=yaml.SafeLoader), {}) > _MOST_NODES:
            raise ValueError(f"expected at most {_MOST_NODES} values, found more: aliases repeat them")
        raw = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"{path}: expected a YAML file, but it cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected YAML: {_one_line(error)}; correct it") from error
    if raw is None:
        return {}
    known = {field.name for field in dataclasses.fields(Config)} | {theirs.TOP_LEVEL_WORKERS}
    if not isinstance(raw, dict) or not known & raw.keys():
        found = ", ".join(str(key) for key in list(raw)[:8]) if isinstance(raw, dict) else f"{raw!r:.80}"
        raise ConfigError(
            f"{path}: expected a configuration of OpenEvolve's, found none of its keys (only {found}); give "
            "another file with --config, or --config none to read none"
        )
    return raw


def _size(node: Any, known: dict[int, int]) -> int:
    """Return the number of values in a YAML node, aliases expanded; above `_MOST_NODES` for a cyclic node."""
    if id(node) not in known:
        known[id(node)] = _MOST_NODES + 1
        inside = getattr(node, "value", ())
        items = [one for item in inside for one in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 if isinstance(inside, str) else 1 + sum(_size(one, known) for one in items)
    return known[id(node)]


def _loaded(path: Path, raw: Mapping[str, Any]) -> Any:
    from openevolve.config import Config

    for name in _SECTIONS:
        if not isinstance(raw.get(name) or {}, dict):
            raise ConfigError(
                f"{path}: {name}: expected a section with keys, found {raw[name]!r:.80}; correct it"
            )
    data = _without_secrets(raw)
    llm = data.get("llm", {})
    for model in ("primary_model", "secondary_model"):
        if model not in llm:
            llm.pop(f"{model}_weight", None)  # weight without a model
    try:
        loaded = Config.from_dict(data)
    except Exception as error:  # any exception of its loader means an invalid file
        raise ConfigError(f"{path}: OpenEvolve refuses this file: {_one_line(error)}; correct it") from error
    if loaded.prompt.template_dir is not None:
        folder = path.resolve().parent / loaded.prompt.template_dir
        if not folder.is_dir():
            raise ConfigError(
                f"{path}: prompt.template_dir: expected a folder, found no {folder}; correct it"
            )
        loaded.prompt.template_dir = str(folder)
    return loaded


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_secrets(inner)
            for key, inner in value.items()
            if (inner is not None or key in theirs.OFF_BY_NULL) and key != "api_key"
        }
    return [_without_secrets(inner) for inner in value] if isinstance(value, list) else value


def _leaves(value: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, dict) and inner and name not in theirs.KNOWN:
            yield from _leaves(inner, f"{name}.")
        elif isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            for item in inner:
                yield from _leaves(item, f"{name}[].")
        else:
            yield name, inner


def _axes(raw: Mapping[str, Any], loaded: Any) -> tuple[tuple[str, int], ...]:
    if (raw.get("database") or {}).get("feature_dimensions") is None:
        return ()
    bins = loaded.database.feature_bins
    return tuple(
        (str(name), int(bins.get(name, 10) if isinstance(bins, dict) else bins))
        for name in loaded.database.feature_dimensions
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _model_tables(raw: Mapping[str, Any], loaded: Any, kind: str = "models") -> list[dict[str, Any]]:
    shared = raw.get("llm") or {}
    entries = shared.get(kind) or shared.get("models") or []
    tables: dict[str, dict[str, Any]] = {}
    for index, model in enumerate(getattr(loaded.llm, kind)):  # listed models first, then the two named ones
        entry = entries[index] if index < len(entries) else {}
        if not model.name or not model.weight:
            continue
        table: dict[str, Any] = {"name": str(model.name)}
        for key in ("api_base", "temperature", "max_tokens"):
            if entry.get(key) is not None:
                table[theirs.OF_MODEL[key]] = entry[key]
        extra = {key: getattr(model, key) for key in ("top_p", "reasoning_effort")}
        if given := {key: value for key, value in extra.items() if value is not None}:
            table["extra"] = given
        variable = _environment_variable(entry.get("api_key") or shared.get("api_key"))
        if variable:
            table["key_variable"] = variable
        same = tables.setdefault(repr(table), table)
        same["weight"] = same.get("weight", 0.0) + float(model.weight)
    return list(tables.values())


def _judges(raw: Mapping[str, Any], loaded: Any) -> dict[str, object]:
    models = _model_tables(raw, loaded, "evaluator_models") if loaded.evaluator.use_llm_feedback else []
    prompt = {"template_dir": loaded.prompt.template_dir}
    told = {"models": models, "weight": loaded.evaluator.llm_feedback_weight, "prompt": prompt}
    return {"evaluator.judges": told} if models else {}


def _environment_variable(secret: object) -> str | None:
    found = _VARIABLE.fullmatch(secret) if isinstance(secret, str) else None
    return found[1] if found else None


def _model_key(name: str, last: str) -> Key:
    if last in ("name", "weight", *theirs.LEGACY_MODELS):
        key = "weight" if last.endswith("weight") else "name"
        return Key(
            name, Effect.MAPPED, f"models.{key}" + ", or proposer.model of a single one" * (key == "name")
        )
    if last in theirs.OF_MODEL:
        return Key(name, Effect.MAPPED, f"models.{theirs.OF_MODEL[last]}")
    reason = theirs.WITHOUT_EFFECT.get(f"llm.{last}")
    if last == "system_message":
        reason = "the prompt's own is sent, as OpenEvolve does"
    elif reason is None and f"llm.{last}" in theirs.MAPPED:
        reason = "one value for all models: give it in llm"
    return Key(name, Effect.UNKNOWN if reason is None else Effect.NONE, reason or theirs.NO_SETTING)
