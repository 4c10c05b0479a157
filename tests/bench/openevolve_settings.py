"""Reads OpenEvolve configuration files and says what becomes of their keys.

    python tests/bench/openevolve_settings.py FOLDER/*.y*ml

Each file is loaded into a whole configuration or refused with a reason, and every key of a loaded one must
be mapped, without effect or unknown; a key that is none of these is an error. The last line of standard
output is JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.problem.openevolve.settings import Effect, read_settings


def keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys of a file, sections and lists of sections taken apart."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        name = f"{prefix}{key}"
        yield name
        yield from keys(inner, f"{name}.")
        for item in inner if isinstance(inner, list) else ():
            yield from keys(item, f"{name}[].")


def main(paths: list[str]) -> int:
    """Print a line a file and the counts; return 1 if a key of a loaded file was lost."""
    counts, unknown, lost = Counter[str](), Counter[str](), 0
    for path in map(Path, paths):
        try:
            settings = read_settings(path)
            Config.load(None, (), settings.base(), str(path))
        except ConfigError as error:
            counts["refused"] += 1
            print(f"refused: {error}")
            continue
        counts["loaded"] += 1
        names = {key.name for key in settings.keys}
        for name in keys(yaml.safe_load(path.read_text(encoding="utf-8"))):
            parts = name.split(".")
            above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
            below = any(known.startswith((f"{name}.", f"{name}[].")) for known in names)
            if not (above & names or below):
                lost += 1
                print(f"{path}: lost: {name}")
        for key in settings.keys:
            counts[str(key.effect)] += 1
            unknown[key.name] += key.effect is Effect.UNKNOWN
        print(f"loaded: {path.name}: {len(settings.keys)} keys")
    print(json.dumps({**counts, "lost": lost, "unknown_keys": dict(+unknown)}))
    return int(lost > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
