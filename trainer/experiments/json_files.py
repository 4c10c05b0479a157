"""JSON files that a reader, or the next start after a crash, never sees half of."""

from __future__ import annotations

import json
from pathlib import Path


def write_json(path: Path, value: object, indent: int | None = None) -> None:
    """Write a value beside its place, then rename the file."""
    aside = path.with_suffix(".partial")
    aside.write_text(json.dumps(value, indent=indent) + "\n")
    aside.replace(path)
