"""Functions for values of settings: describe the valid values, convert or parse values, write TOML."""

import contextlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _alternatives(field: FieldInfo) -> list[Any]:
    is_union = get_origin(field.annotation) in (Union, UnionType)
    return list(get_args(field.annotation)) if is_union else [field.annotation]


def _plain_type(kind: Any) -> Any:
    return _plain_type(get_args(kind)[0]) if get_origin(kind) is Annotated else get_origin(kind) or kind


def _limits(field: FieldInfo) -> dict[str, float]:
    inner = [part for kind in _alternatives(field) for part in getattr(kind, "__metadata__", ())]
    rules = [*field.metadata, *(rule for part in inner for rule in part.metadata)]
    names = ("gt", "ge", "le")
    return {name: getattr(rule, name) for rule in rules for name in names if hasattr(rule, name)}


def expected(field: FieldInfo) -> str:
    """Return a description of the valid values of a setting."""
    said = [one for one in field.metadata if isinstance(one, str)]
    if said:
        return said[0]
    kind = _alternatives(field)[0]
    plain, members = _plain_type(kind), get_args(kind)
    if plain is Literal:
        return "one of " + ", ".join(members)
    if plain is tuple:
        return "a list of texts" if members[0] is str else "a list of numbers"
    if plain is dict:
        if members[1] is Any:
            return "a table"
        names = f" by {', '.join(get_args(members[0]))}" if members[0] is not str else ""
        return f"a table of numbers, 0 or more{names}"
    limits, name = _limits(field), _WORDS.get(plain, "a section")
    if "gt" in limits:
        return f"{name} above {limits['gt']:g}" + (f" and at most {limits['le']:g}" if "le" in limits else "")
    if {"ge", "le"} <= limits.keys():
        return f"{name} from {limits['ge']:g} to {limits['le']:g}"
    return f"{name}, {limits['ge']:g} or more" if "ge" in limits else name


def as_typed(field: FieldInfo, value: object) -> object:
    """Convert a value from a file, JSON or a caller to the type of its setting.

    Also accepts the values of earlier versions, which used text for lists and tables, and 0 or "" for `None`.
    """
    kinds = [_plain_type(kind) for kind in _alternatives(field)]
    if isinstance(value, str) and str not in kinds and {NoneType, tuple, dict} & {*kinds}:
        value = read_text(field, value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list) and tuple in kinds:
        return tuple(value)
    is_zero = value == 0 and not isinstance(value, bool) and {"gt", "ge"} & {*_limits(field)}
    return None if NoneType in kinds and (value == "" or is_zero) else value


def read_text(field: FieldInfo, text: str) -> object:
    """Parse text as the value of a setting. Invalid text is returned unchanged; `load` rejects it later."""
    kinds, stripped = [_plain_type(kind) for kind in _alternatives(field)], text.strip()
    if NoneType in kinds and stripped in ("", "None"):
        return None
    kind = kinds[0]
    if kind in (tuple, dict):
        with contextlib.suppress(ValueError):
            return _read_many(field, kind, stripped)
    if kind is bool:
        return {"true": True, "false": False}.get(stripped.lower(), text)
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(stripped)
    return text


def _read_many(field: FieldInfo, kind: type, text: str) -> object:
    if kind is tuple and not text.startswith("["):
        words = [word for part in text.split(",") if (word := part.strip())]
        return tuple(words if get_args(field.annotation)[0] is str else map(float, words))
    if kind is dict and text.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    written = text if text.startswith(("[", "{")) else f"{{{text}}}"
    found = tomllib.loads(f"value = {written}")["value"]
    return tuple(found) if isinstance(found, list) else found


def toml_value(value: object) -> str:
    """Return a string, number, boolean, list or table in TOML syntax."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {toml_value(one)}" for key, one in value.items() if one is not None)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # Escape more than JSON does: DEL, as TOML requires, and all other characters that do not print.
        quoted = json.dumps(value, ensure_ascii=False)
        return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)
    return repr(value)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else toml_value(name)
