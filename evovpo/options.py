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


def rows(section: type[Section], doc: str) -> Any:
    """Return a field of a tree that holds any number of sections of one kind, none by default.

    In TOML they are an array of tables, in JSON a list. `doc` says what one more is for.
    """
    return dataclasses.field(default=(), metadata={"rows": section, "doc": doc})


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
    """Base of whole configurations: frozen dataclasses of sections with all defaults, and of `rows`."""

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
    def load(
        cls,
        path: Path | None,
        overrides: Sequence[str] = (),
        base: Mapping[str, object] | None = None,
        origin: str = "base settings",
    ) -> Self:
        """Return the defaults, changed by the TOML file at `path` (if any), then by `section.key=value`.

        A later override wins over an earlier one. `base` changes the defaults before all that, with sections
        and keys as a file has them; `origin` is what errors call it. Raises `ConfigError`, naming the file or
        override, for a file that cannot be read, an unknown section or key (with the nearest known name), and
        a value of the wrong type or out of range.
        """
        tree: dict[str, Any] = {} if base is None else cls._read_tree(base, origin)
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
            for name, values in cls._read_tree(data, str(path)).items():
                tree[name] = values if isinstance(values, list) else tree.get(name, {}) | values
        for text in overrides:
            section, key, value = cls._read_override(text)
            tree.setdefault(section, {})[key] = value
        return cls._build(tree)

    @classmethod
    def key_faults(cls, base: Mapping[str, object], origin: str) -> list[str]:
        """Return what is wrong with sections and keys, each taken by itself; `base` is as in `load`.

        Empty does not say that the values fit together: loading them does.
        """
        faults = []
        for name, values in base.items():
            parts = (
                [{key: value} for key, value in values.items()] if isinstance(values, Mapping) else [values]
            )
            for part in parts:
                try:
                    cls._read_tree({name: part}, origin)
                except ConfigError as error:
                    faults.append(str(error))
        return faults

    def to_toml(self) -> str:
        """Return the resolved form as TOML, each field under its explanation."""
        lines: list[str] = []
        for name, section in self._sections().items():
            lines += ["", f"[{name}]"] if lines else [f"[{name}]"]
            for field in _fields(section).values():
                value = getattr(getattr(self, name), field.name)
                lines += [f"# {field.metadata['option'].doc}", f"{field.name} = {_toml_value(value)}"]
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if kind := field.metadata.get("rows"):
                lines += ["", f"# {field.metadata['doc']}"]
                for row in getattr(self, field.name):
                    lines.append(f"[[{field.name}]]")
                    lines += [f"{key} = {_toml_value(getattr(row, key))}" for key in _fields(kind)]
                if not getattr(self, field.name):
                    lines.append(f"# [[{field.name}]]")
                    for key, one in _fields(kind).items():
                        lines.append(f"# {key} = {_toml_value(one.default)}  # {one.metadata['option'].doc}")
        return "\n".join(lines) + "\n"

    @classmethod
    def _sections(cls) -> dict[str, type[Section]]:
        """Return the sections by name, in order."""
        sections: dict[str, type[Section]] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            default: Any = field.default
            if "rows" not in field.metadata:
                sections[field.name] = type(default)
        return sections

    @classmethod
    def _rows(cls) -> dict[str, type[Section]]:
        """Return the kind of section of each field that holds any number of them."""
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {field.name: field.metadata["rows"] for field in fields if "rows" in field.metadata}

    @classmethod
    def _read_tree(cls, data: object, origin: str) -> dict[str, Any]:
        """Return section -> key -> checked value, for rows a list; raises `ConfigError` with `origin`."""
        sections, rows_of = cls._sections(), cls._rows()
        if not isinstance(data, Mapping):
            raise ConfigError(f"{origin}: expected sections with keys, found {data!r:.80}")
        tree: dict[str, Any] = {}
        for name, values in data.items():
            if name in rows_of:
                if not (isinstance(values, list) and all(isinstance(row, Mapping) for row in values)):
                    raise ConfigError(
                        f"{origin}: {name}: expected one [[{name}]] with keys for each, found {values!r:.80}"
                    )
                kind = rows_of[name]
                tree[name] = [
                    {key: _known(kind, key, value, origin) for key, value in row.items()} for row in values
                ]
                continue
            if name not in sections:
                raise ConfigError(
                    f"{origin}: unknown section [{name}]; {nearest_hint(name, [*sections, *rows_of])}"
                )
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
        if section in cls._rows():
            raise ConfigError(
                f"{origin}: [[{section}]] tables are read from a configuration file; write them there"
            )
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
    def _build(cls, tree: Mapping[str, Any]) -> Self:
        sections, rows_of = cls._sections(), cls._rows()
        return cls(
            **{
                name: tuple(rows_of[name](**row) for row in values)
                if name in rows_of
                else sections[name](**values)
                for name, values in tree.items()
            }
        )


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
