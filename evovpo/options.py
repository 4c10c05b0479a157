"""Typed configuration trees: sections of checked options, read from TOML files, overrides and stored JSON.

`evovpo/config.py` holds the tree of a run and `trainer/config.py` that of a training. Every value is
checked when its section is built, so a tree that exists is a usable one; unknown keys are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from evovpo.errors import ConfigError, nearest_hint

LARGEST = 2**63 - 1
"""The largest whole number that an option may hold."""


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
        if self.above is not None and self.high is not None:
            return f"{names[kind]} above {self.above:g} and at most {self.high:g}"
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
        if isinstance(value, int) and abs(value) > LARGEST:
            return False
        return (
            (self.above is None or value > self.above)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
        )


def option(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Return a dataclass field of a section; the type of `default` is the type of the field.

    `doc` is one sentence on what it is and who would change it. A number lies between `low` and `high`,
    both included, or above `above`; a text is one of `choices`, if there are any.
    """
    return dataclasses.field(default=default, metadata={"option": _Option(doc, low, high, above, choices)})


class Section:
    """Base of the sections, which are frozen dataclasses whose fields are all `option`s.

    Checks every field; whole numbers become floats where floats are meant. Raises `ConfigError`.
    """

    __slots__ = ()
    section: ClassVar[str]
    """Its name in files and overrides."""

    def __post_init__(self) -> None:
        for field in _fields(type(self)).values():
            value = _checked(self.section, field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)


class Tree:
    """Base of whole configurations: frozen dataclasses whose fields are sections with all defaults."""

    __slots__ = ()

    def to_json(self) -> str:
        """Return the resolved form as one line of JSON, keys sorted."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the configuration that `to_json` wrote; fields it lacks get their defaults.

        Raises `ConfigError` on text that is not such JSON, unknown keys and values out of range.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ConfigError(
                f"stored configuration: expected JSON, found {text[:80]!r} ({error})"
            ) from error
        return cls._build(cls._read_tree(data, "stored configuration"))

    @classmethod
    def load(cls, path: Path | None, overrides: Sequence[str] = ()) -> Self:
        """Return the defaults, changed by the TOML file at `path` (if any), then by `section.key=value`.

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
            tree = cls._read_tree(data, str(path))
        for text in overrides:
            section, key, value = cls._read_override(text)
            tree.setdefault(section, {})[key] = value
        return cls._build(tree)

    def to_toml(self) -> str:
        """Return the resolved form as TOML, each field under its explanation."""
        lines: list[str] = []
        for name, section in self._sections().items():
            lines += ["", f"[{name}]"] if lines else [f"[{name}]"]
            for field in _fields(section).values():
                value = getattr(getattr(self, name), field.name)
                lines += [f"# {field.metadata['option'].doc}", f"{field.name} = {_toml_value(value)}"]
        return "\n".join(lines) + "\n"

    @classmethod
    def _sections(cls) -> dict[str, type[Section]]:
        """Return the sections by name, in order."""
        sections: dict[str, type[Section]] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            default: Any = field.default
            sections[field.name] = type(default)
        return sections

    @classmethod
    def _read_tree(cls, data: object, origin: str) -> dict[str, dict[str, object]]:
        """Return section -> key -> checked value; raises `ConfigError` starting with `origin`."""
        sections = cls._sections()
        if not isinstance(data, Mapping):
            raise ConfigError(f"{origin}: expected sections with keys, found {data!r:.80}")
        tree: dict[str, dict[str, object]] = {}
        for name, values in data.items():
            if name not in sections:
                raise ConfigError(f"{origin}: unknown section [{name}]; {nearest_hint(name, sections)}")
            if not isinstance(values, Mapping):
                raise ConfigError(f"{origin}: [{name}]: expected a section with keys, found {values!r:.80}")
            tree[name] = {key: _known(sections[name], key, value, origin) for key, value in values.items()}
        return tree

    @classmethod
    def _read_override(cls, text: str) -> tuple[str, str, object]:
        """Return (section, key, checked value) of `section.key=value`."""
        sections = cls._sections()
        origin = f"override {text!r}"
        name, equals, written = text.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and section and key):
            first = next(iter(sections.values()))
            field = next(iter(_fields(first).values()))
            example = f"{first.section}.{field.name}={field.default}"
            raise ConfigError(f"{origin}: expected section.key=value, for example {example}")
        if section not in sections:
            raise ConfigError(f"{origin}: unknown section {section!r}; {nearest_hint(section, sections)}")
        value: object = written
        found = _fields(sections[section]).get(key)
        kind: type = str if found is None else type(found.default)
        if kind is bool:
            value = {"true": True, "false": False}.get(written.strip().lower(), written)
        elif kind in (int, float):
            # What cannot be converted stays text: the check below names what was expected.
            with contextlib.suppress(ValueError):
                value = kind(written)
        return section, key, _known(sections[section], key, value, origin)

    @classmethod
    def _build(cls, tree: Mapping[str, Mapping[str, Any]]) -> Self:
        sections = cls._sections()
        return cls(**{name: sections[name](**values) for name, values in tree.items()})


def _fields(section: type[Section]) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(section)}  # type: ignore[arg-type]


def _checked(section: str, field: dataclasses.Field[Any], value: object) -> object:
    """Return `value` as the field's type; raises `ConfigError` if it is of another type or out of range."""
    kind: type = type(field.default)
    found: _Option = field.metadata["option"]
    if kind is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if type(value) is not kind or not found.allows(value):
        advice = "change it"
        if found.choices and isinstance(value, str):
            advice = nearest_hint(value, found.choices)
        raise ConfigError(
            f"{section}.{field.name}: expected {found.describe(kind)}, found {value!r:.200}; {advice}"
        )
    return value


def _known(section: type[Section], key: str, value: object, origin: str) -> object:
    """Return the checked value of a key that exists; raises `ConfigError` starting with `origin`."""
    fields = _fields(section)
    if key not in fields:
        raise ConfigError(f"{origin}: unknown key {section.section}.{key}; {nearest_hint(key, fields)}")
    try:
        return _checked(section.section, fields[key], value)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON leaves DEL as it is; TOML wants it escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
