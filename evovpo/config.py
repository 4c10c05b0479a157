"""The configuration of a run: one typed tree, read from a TOML file and `section.key=value` overrides.

Every value is checked when its section is built, so a `Config` that exists is a usable one. The
resolved tree is stored with each run (`Config.to_json`) and read back by `Config.from_json`.
What a problem needs (limits, objectives) is not here: it belongs to the problem's folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from evovpo.errors import ConfigError, nearest_hint

SELECTIONS = ("lexicase", "dirichlet", "pareto", "map-elites", "power-law")
"""Names of the ways to select a parent."""

PROPOSERS = ("local", "random", "scripted")
"""Names of the proposers that a run can use."""

SANDBOX_LEVELS = ("landlock+seccomp", "bwrap+landlock+seccomp")
"""Names of the isolation levels, weakest first; the sandbox's own list, without importing it."""

_LARGEST = 2**63 - 1


class _Option(NamedTuple):
    """What is known of one field beside its default: its explanation and its allowed values."""

    doc: str
    low: float | None
    high: float | None
    above: float | None
    choices: tuple[str, ...]

    def describe(self, kind: type) -> str:
        """Return the expected value in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        if self.above is not None:
            return f"{names[kind]} above {self.above:g}"
        if self.low is not None and self.high is not None:
            return f"{names[kind]} from {self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"{names[kind]}, {self.low:g} or more"
        return names[kind]

    def allows(self, value: Any) -> bool:
        """True if a value of the right type lies in the allowed range."""
        if self.choices:
            return value in self.choices
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, int) and abs(value) > _LARGEST:
            return False
        return (
            (self.above is None or value > self.above)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
        )


def _option(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Return a dataclass field; the type of `default` is the type of the field."""
    return dataclasses.field(default=default, metadata={"option": _Option(doc, low, high, above, choices)})


class _Section:
    """Base of the sections: checks every field; whole numbers become floats where floats are meant."""

    __slots__ = ()
    section: ClassVar[str]

    def __post_init__(self) -> None:
        for field in _fields(type(self)).values():
            value = _checked(self.section, field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)


def _fields(section: type[_Section]) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(section)}  # type: ignore[arg-type]


def _checked(section: str, field: dataclasses.Field[Any], value: object) -> object:
    """Return `value` as the field's type; raises `ConfigError` if it is of another type or out of range."""
    kind: type = type(field.default)
    option: _Option = field.metadata["option"]
    if kind is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if type(value) is not kind or not option.allows(value):
        advice = "change it"
        if option.choices and isinstance(value, str):
            advice = nearest_hint(value, option.choices)
        raise ConfigError(
            f"{section}.{field.name}: expected {option.describe(kind)}, found {value!r:.200}; {advice}"
        )
    return value


@dataclass(frozen=True, slots=True)
class SearchConfig(_Section):
    """How the population is searched."""

    section: ClassVar[str] = "search"

    evaluations: int = _option(
        1000, "Budget in proposed candidates; raise it for a hard problem.", low=1, high=_LARGEST
    )
    islands: int = _option(
        4, "Sub-populations; more keep more variety in a long run, 1 is plain search.", low=1, high=1024
    )
    rollouts: int = _option(
        8,
        "G, completions sampled for one prompt; whoever trains from the run sets the group size.",
        low=1,
        high=1024,
    )
    answers: int = _option(
        1,
        "M, answers asked for in one completion; 3 for a run that VPO trains from, 1 solves more.",
        low=1,
        high=4,
    )
    selection: str = _option(
        "lexicase", "How a parent is chosen; for those who compare selection methods.", choices=SELECTIONS
    )
    root_share: float = _option(
        0.5,
        "Share of asks that show no parent; raise it where the model solves from scratch.",
        low=0.0,
        high=1.0,
    )
    inspirations: int = _option(
        0,
        "Further programs shown beside the parent; for large models with room in the prompt.",
        low=0,
        high=64,
    )
    elites: int = _option(
        32, "Archive size of an island; raise it for problems with many objectives.", low=1, high=100_000
    )
    migration_interval: int = _option(
        10,
        "Asks of an island between migrations; lower it to make islands alike sooner.",
        low=1,
        high=_LARGEST,
    )
    migrants: int = _option(
        2, "Programs that move at each migration; 0 keeps the islands apart.", low=0, high=100_000
    )
    joins: bool = _option(
        True, "Join complementary programs under one condition; switch off to measure the model alone."
    )
    join_proposals: int = _option(
        8, "Most programs in one join ticket; lower it for a small budget.", low=1, high=10_000
    )
    join_share: float = _option(
        0.1, "Largest share of the budget that joins may take; lower it if joins memorise.", low=0.0, high=1.0
    )
    lone_row_joins_after: float = _option(
        0.5,
        "Share of the budget after which a join may single out one row; 1 forbids such joins.",
        low=0.0,
        high=1.0,
    )
    focus_share: float = _option(
        0.25,
        "Share of parentless asks that show only rows the chosen program fails; 0 shows all rows.",
        low=0.0,
        high=1.0,
    )
    in_flight: int = _option(
        8, "Asks open at a time; 1 makes a run reproducible, more keep a server busy.", low=1, high=1024
    )
    stop_when_solved: bool = _option(
        True, "Stop at the first program that passes every training row; off to spend the whole budget."
    )


@dataclass(frozen=True, slots=True)
class SamplingConfig(_Section):
    """How completions are sampled."""

    section: ClassVar[str] = "sampling"

    temperature: float = _option(
        1.0, "Sampling temperature; the trainer must use the same, so change it for both.", above=0.0
    )
    max_tokens: int = _option(
        160, "Completion tokens before a chain is cut; raise it for longer programs.", low=1, high=1_000_000
    )


@dataclass(frozen=True, slots=True)
class ProposerConfig(_Section):
    """Who proposes programs."""

    section: ClassVar[str] = "proposer"

    name: str = _option(
        "local", "The built-in model, or random programs of its grammar as a baseline.", choices=PROPOSERS
    )
    model: str = _option("", "Model folder of your own training; empty is the built-in one.")
    threads: int = _option(
        0, "Torch threads; 0 leaves them to the environment, 1 is best on a busy machine.", low=0, high=1024
    )


@dataclass(frozen=True, slots=True)
class SandboxConfig(_Section):
    """How untrusted programs are run."""

    section: ClassVar[str] = "sandbox"

    minimum_level: str = _option(
        "landlock+seccomp",
        "Weakest isolation accepted; raise it where programs must not even see that a file exists.",
        choices=SANDBOX_LEVELS,
    )
    workers: int = _option(
        0,
        "Programs run at a time; 0 is the number of cores, fewer leave room for the model.",
        low=0,
        high=1024,
    )


@dataclass(frozen=True, slots=True)
class StoreConfig(_Section):
    """Where everything that happens is kept."""

    section: ClassVar[str] = "store"

    url: str = _option(
        "sqlite:///evovpo.db", "SQLAlchemy URL; a PostgreSQL one for runs on several machines."
    )


@dataclass(frozen=True, slots=True)
class RunConfig(_Section):
    """What tells one run from another with the same settings."""

    section: ClassVar[str] = "run"

    seed: int = _option(
        0, "Source of all randomness; change it for an independent repetition.", low=0, high=_LARGEST
    )


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration, resolved and checked."""

    search: SearchConfig = SearchConfig()
    sampling: SamplingConfig = SamplingConfig()
    proposer: ProposerConfig = ProposerConfig()
    sandbox: SandboxConfig = SandboxConfig()
    store: StoreConfig = StoreConfig()
    run: RunConfig = RunConfig()

    def to_json(self) -> str:
        """Return the resolved form as one line of JSON, keys sorted."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Config:
        """Return the configuration that `to_json` wrote; fields it lacks get their defaults.

        Raises `ConfigError` on text that is not such JSON, unknown keys and values out of range.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ConfigError(
                f"stored configuration: expected JSON, found {text[:80]!r} ({error})"
            ) from error
        return _build(_read_tree(data, "stored configuration"))

    def to_toml(self) -> str:
        """Return the resolved form as TOML, each field under its explanation."""
        lines: list[str] = []
        for name, section in _SECTIONS.items():
            lines += ["", f"[{name}]"] if lines else [f"[{name}]"]
            for field in _fields(section).values():
                value = getattr(getattr(self, name), field.name)
                lines += [f"# {field.metadata['option'].doc}", f"{field.name} = {_toml_value(value)}"]
        return "\n".join(lines) + "\n"


_SECTIONS: dict[str, type[_Section]] = {
    section.section: section
    for section in (SearchConfig, SamplingConfig, ProposerConfig, SandboxConfig, StoreConfig, RunConfig)
}


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """Return the defaults, changed by the TOML file at `path` (if any), then by `section.key=value` texts.

    A later override wins over an earlier one. Raises `ConfigError`, naming the file or override, for a
    file that cannot be read, an unknown section or key (with the nearest known name), and a value of
    the wrong type or out of range.
    """
    tree: dict[str, dict[str, object]] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ConfigError(
                f"{path}: expected a TOML file, but it cannot be read: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: expected UTF-8 text ({error}); save the file as UTF-8") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: expected TOML: {error}") from error
        tree = _read_tree(data, str(path))
    for text in overrides:
        section, key, value = _read_override(text)
        tree.setdefault(section, {})[key] = value
    return _build(tree)


def _read_tree(data: object, origin: str) -> dict[str, dict[str, object]]:
    """Return section -> key -> checked value; raises `ConfigError` starting with `origin`."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{origin}: expected sections with keys, found {data!r:.80}")
    tree: dict[str, dict[str, object]] = {}
    for section, values in data.items():
        if section not in _SECTIONS:
            raise ConfigError(f"{origin}: unknown section [{section}]; {nearest_hint(section, _SECTIONS)}")
        if not isinstance(values, Mapping):
            raise ConfigError(f"{origin}: [{section}]: expected a section with keys, found {values!r:.80}")
        tree[section] = {key: _known(section, key, value, origin) for key, value in values.items()}
    return tree


def _read_override(text: str) -> tuple[str, str, object]:
    """Return (section, key, checked value) of `section.key=value`."""
    origin = f"override {text!r}"
    name, equals, written = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(f"{origin}: expected section.key=value, for example search.islands=2")
    if section not in _SECTIONS:
        raise ConfigError(f"{origin}: unknown section {section!r}; {nearest_hint(section, _SECTIONS)}")
    value: object = written
    field = _fields(_SECTIONS[section]).get(key)
    kind: type = str if field is None else type(field.default)
    if kind is bool:
        value = {"true": True, "false": False}.get(written.strip().lower(), written)
    elif kind in (int, float):
        # What cannot be converted stays text: the check below names what was expected.
        with contextlib.suppress(ValueError):
            value = kind(written)
    return section, key, _known(section, key, value, origin)


def _known(section: str, key: str, value: object, origin: str) -> object:
    """Return the checked value of a key that exists; raises `ConfigError` starting with `origin`."""
    fields = _fields(_SECTIONS[section])
    if key not in fields:
        raise ConfigError(f"{origin}: unknown key {section}.{key}; {nearest_hint(key, fields)}")
    try:
        return _checked(section, fields[key], value)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None


def _build(tree: Mapping[str, Mapping[str, Any]]) -> Config:
    sections: dict[str, Any] = {name: _SECTIONS[name](**values) for name, values in tree.items()}
    return Config(**sections)


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON leaves DEL as it is; TOML wants it escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
