"""Base classes of configurations: trees of validated sections, read from TOML, overrides or stored JSON.

A setting is a field of a section. Its type defines the valid values. Its docstring describes the setting and
says when to change it. Values are checked when a section is created.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from evovpo.config_values import as_typed, expected, read_text, toml_value
from evovpo.errors import ConfigError, EvovpoError, nearest_hint

LARGEST = 2**63 - 1

Count = Annotated[int, Field(ge=0, le=LARGEST)]
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
AboveZero = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """Base class of configuration sections. Values are frozen; an invalid value raises `ConfigError`."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    gone: ClassVar[Mapping[str, str]] = {}
    """Advice on a replacement for each removed setting, which stored configurations may still contain."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(self._explained(error)[0]) from None

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, values: Mapping[str, object]) -> dict[str, object]:
        fields = cls.model_fields
        return {key: as_typed(fields[key], one) if key in fields else one for key, one in values.items()}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raise `ConfigError` if values contradict each other."""

    @classmethod
    def section(cls) -> str:
        return cls.__name__.removesuffix("Config").lower()

    def changed(self, **values: Any) -> Self:
        """Return a validated copy with new values. A field that is a section takes {key to change: value}."""
        found = dict(self)
        for name, value in values.items():
            is_section = isinstance(value, Mapping) and isinstance(found[name], Section)
            found[name] = found[name].changed(**value) if is_section else value
        return type(self)(**found)

    @classmethod
    def faults(cls, values: Mapping[str, object]) -> list[str]:
        """Return the error message of each invalid key, without the errors of `check`."""
        try:
            cls.__pydantic_validator__.validate_python(dict(values), self_instance=cls.model_construct())
        except ValidationError as error:
            return cls._explained(error, keys_only=True)
        return []

    @classmethod
    def _explained(cls, error: ValidationError, *, keys_only: bool = False) -> list[str]:
        faults = []
        for one in error.errors(include_url=False):
            if not one["loc"]:  # raised by `check`
                faults += [] if keys_only else [str(one["ctx"]["error"])]
                continue
            key, value = str(one["loc"][0]), one["input"]
            if key in cls.gone:
                faults.append(f"{cls.section()}.{key} is gone: {cls.gone[key]}")
                continue
            if key not in cls.model_fields:
                faults.append(f"unknown key {cls.section()}.{key}; {nearest_hint(key, cls.model_fields)}")
                continue
            field, hint = cls.model_fields[key], "change it"
            if isinstance(value, str) and get_origin(field.annotation) is Literal:
                hint = nearest_hint(value, get_args(field.annotation))
            faults.append(f"{cls.section()}.{key}: expected {expected(field)}, found {value!r:.200}; {hint}")
        return faults


class Tree(Section):
    """Base class of whole configurations. Each field is a section, or a tuple of sections of one class."""

    def to_json(self) -> str:
        return json.dumps(self.model_dump(), sort_keys=True)

    def differences(self, other: Self) -> dict[str, tuple[object, object]]:
        """Return {`section.key`: (own value, value in `other`)} for all values that differ."""
        mine, its = (
            {
                (name if key is None else f"{name}.{key}"): value
                for name, part in tree.model_dump().items()
                for key, value in (part if isinstance(part, dict) else {None: part}).items()
            }
            for tree in (self, other)
        )
        return {name: (mine[name], its[name]) for name in mine if mine[name] != its[name]}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the configuration from JSON of any version. Raises `ConfigError` if the JSON is invalid."""
        origin = "stored configuration"
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{origin}: expected JSON, found {text[:80]!r} ({error})") from error
        return cls._build(cls._read(cls.of_today(data), origin))

    @classmethod
    def of_today(cls, data: Any) -> Any:
        """Return stored settings without the settings that no longer exist."""
        if not isinstance(data, Mapping):
            return data
        gone = {name: kind.gone for name, (kind, _) in cls._sections().items()}
        return {
            name: {key: value for key, value in part.items() if key not in gone.get(name, ())}
            if isinstance(part, Mapping)
            else part
            for name, part in data.items()
        }

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        changes: Mapping[str, object] | None = None,
        base: Mapping[str, object] | None = None,
        origin: str = "base settings",
    ) -> Self:
        """Return the defaults overridden by `base`, then by the TOML file at `path`, then by `changes`.

        `base` contains sections and keys, like a file; `origin` is its name in error messages. `changes` maps
        `section.key` to values. Raises `ConfigError` for an unreadable file, unknown keys and invalid values.
        """
        layers = [] if base is None else [cls._read(base, origin)]
        if path is not None:
            layers.append(cls._read(read_toml(path), str(path)))
        layers.append(cls._read(in_sections(changes or {}), "settings"))
        return cls._build(merged(layers))

    @classmethod
    def key_faults(cls, base: object, origin: str) -> list[str]:
        """Return an error message for each invalid section or key of `base`; parameters are as in `load`."""
        if not isinstance(base, Mapping):
            return [f"{origin}: expected sections with keys, found {base!r:.80}"]
        sections, faults = cls._sections(), []
        for name, values in base.items():
            if name not in sections:
                faults.append(f"unknown section [{name}]; {nearest_hint(name, sections)}")
                continue
            kind, is_many = sections[name]
            rows: list[Any] = [values]
            expected = f"[{name}]: expected a section with keys"
            if is_many:
                rows = values if isinstance(values, list) else [None]
                expected = f"{name}: expected one [[{name}]] with keys for each"
            if all(isinstance(row, Mapping) for row in rows):
                faults += [fault for row in rows for fault in kind.faults(row)]
            else:
                faults.append(f"{expected}, found {values!r:.80}")
        return [f"{origin}: {fault}" for fault in faults]

    def to_toml(self) -> str:
        """Return the resolved configuration as TOML, with an explanation above each field."""
        parts: list[str] = []
        for name, (kind, is_many) in self._sections().items():
            found = getattr(self, name)
            if not is_many:
                lines = [f"[{name}]"]
                for key, field in kind.model_fields.items():
                    lines += [f"# {_sentence(field)}", _line(key, getattr(found, key))]
            else:
                lines = [f"# {_sentence(type(self).model_fields[name])}"]
                for row in found:
                    lines += [f"[[{name}]]", *(_line(key, value) for key, value in row)]
                if not found:
                    lines.append(f"# [[{name}]]")
                    for key, field in kind.model_fields.items():
                        lines.append(f"# {_line(key, field.default).lstrip('# ')}  # {_sentence(field)}")
            parts.append("\n".join(lines) + "\n")
        return "\n".join(parts)

    @classmethod
    def _sections(cls) -> dict[str, tuple[type[Section], bool]]:
        found = {}
        for name, field in cls.model_fields.items():
            kind: Any = field.annotation
            found[name] = (get_args(kind)[0], True) if get_args(kind) else (kind, False)
        return found

    @classmethod
    def _read(cls, data: Any, origin: str) -> Mapping[str, Any]:
        for fault in cls.key_faults(data, origin):
            raise ConfigError(fault)
        checked: Mapping[str, Any] = data
        return checked

    @classmethod
    def read_changes(cls, texts: Iterable[str]) -> dict[str, object]:
        """Return {`section.key`: value} from texts `section.key=value`. The values are not checked yet."""
        sections, changes = cls._sections(), dict[str, object]()
        for text in texts:
            name, equals, value = text.partition("=")
            section, dot, key = name.strip().partition(".")
            if not (equals and dot and section and key):
                first, (kind, _) = next(iter(sections.items()))
                field, default = next(iter(kind.model_fields.items()))
                example = f"{first}.{field}={default.default}"
                raise ConfigError(f"--set {text!r}: expected section.key=value, for example {example}")
            kind, is_many = sections.get(section, (Section, False))
            if is_many:
                raise ConfigError(f"--set {text!r}: [[{section}]] tables are read from files")
            known = kind.model_fields.get(key)
            changes[f"{section}.{key}"] = value if known is None else read_text(known, value)
        return changes

    @classmethod
    def _build(cls, tree: Mapping[str, Any]) -> Self:
        found = {}
        for name, values in tree.items():
            kind, is_many = cls._sections()[name]
            found[name] = tuple(kind(**row) for row in values) if is_many else kind(**values)
        return cls(**found)


def _line(key: str, value: object) -> str:
    return f"# {key} = None" if value is None else f"{key} = {toml_value(value)}"


def _sentence(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def merged(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the layers merged key by key; later layers win. A list of tables is replaced as a whole."""
    tree: dict[str, Any] = {}
    for layer in layers:
        for name, values in layer.items():
            tree[name] = tree.get(name, {}) | dict(values) if isinstance(values, Mapping) else values
    return tree


def in_sections(values: Mapping[str, object]) -> dict[str, object]:
    """Convert {`section.key`: value} to {section: {key: value}}. A name without a dot is a whole section."""
    sections: dict[str, Any] = {}
    for name, value in values.items():
        section, dot, key = name.partition(".")
        if dot:
            sections.setdefault(section, {})[key] = value
        else:
            sections = merged([sections, {section: value}])
    return sections


def read_toml(path: Path, kind: type[EvovpoError] = ConfigError) -> dict[str, Any]:
    """Return the content of a TOML file. Raises `kind` if the file cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise kind(f"{path}: expected a TOML file, but it cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise kind(f"{path}: expected TOML in UTF-8: {error}; correct it") from error
