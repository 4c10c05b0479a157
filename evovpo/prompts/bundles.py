"""Bundles: programs of several files as one text, for the store, prompts and program ids.

Files are sorted by path. Each begins with a header line `=== FILE: PATH ===`; the file's text follows.
The header of a file without a final newline is `=== FILE (no newline at end): PATH ===`. In the text, a line
that begins with `=== FILE`, or with backslashes and `=== FILE`, is escaped by a backslash at its beginning.
"""

import re
from collections.abc import Iterable, Mapping

from evovpo.errors import BundleError

HEADER = re.compile(r"=== FILE( \(no newline at end\))?: (.+) ===")
_HEADER_LINE = re.compile(rf"^{HEADER.pattern}$\n?", re.MULTILINE)
_LOOKS_LIKE_HEADER = re.compile(r"^(\\*=== FILE)", re.MULTILINE)
_ESCAPED = re.compile(r"^\\(\\*=== FILE)", re.MULTILINE)
_ADVICE = "write a relative path such as src/main.py"


def header(path: str) -> str:
    return f"=== FILE: {path} ==="


def check_path(path: str) -> None:
    """Raise `BundleError` unless `path` is a normalized relative path with `/` as separator."""
    parts = path.split("/")
    fault = ""
    if path.startswith("/"):
        fault = "an absolute one"
    elif any(part in ("", ".", "..") for part in parts):
        fault = "one with an empty part, '.' or '..'"
    elif "\\" in path:
        fault = "one with a backslash"
    elif not path.isprintable() or path != path.strip():
        fault = "one with control characters or outer blanks"
    elif any(len(part.encode("utf-8")) > 255 for part in parts):
        fault = "one with a name of more than 255 bytes"
    if fault:
        raise BundleError(f"path {path[:200]!r}: expected a relative path, found {fault}; {_ADVICE}")


def pack(files: Mapping[str, str]) -> str:
    """Return `files` ({path: text}) as a bundle. Raises `BundleError` for an invalid path or no files."""
    if not files:
        raise BundleError("a bundle of no files: expected at least one; give the program's files")
    _check_paths(files)
    return "".join(_packed(path, files[path]) for path in sorted(files))


def unpack(source: str) -> dict[str, str]:
    """Return the files {path: text} in a bundle. Raises `BundleError` if `source` is not a bundle."""
    before, *rest = _HEADER_LINE.split(source)
    if before:
        line = before[: before.find("\n") + 1 or None]
        raise BundleError(
            f"expected a bundle of files, found {line[:80]!r} as its first line; put a line such as "
            f"'{header('main.py')}' before each file"
        )
    if not rest:
        raise BundleError("expected a bundle of files, found an empty text; give at least one file")
    files: dict[str, str] = {}
    for is_open, path, packed in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if path in files:
            raise BundleError(f"file {path!r} comes twice in a bundle: expected once; keep one of them")
        text = _ESCAPED.sub(r"\1", packed)
        files[path] = text.removesuffix("\n") if is_open else text
    _check_paths(files)
    return files


def is_bundle(source: str) -> bool:
    if not source.startswith("=== FILE"):
        return False
    try:
        unpack(source)
    except BundleError:
        return False
    return True


def _packed(path: str, text: str) -> str:
    escaped = _LOOKS_LIKE_HEADER.sub(r"\\\1", text)
    if not text or text.endswith("\n"):
        return f"{header(path)}\n{escaped}"
    return f"=== FILE (no newline at end): {path} ===\n{escaped}\n"


def _check_paths(paths: Iterable[str]) -> None:
    folders: set[str] = set()
    names = list(paths)
    for path in names:
        check_path(path)
        parts = path.split("/")
        folders |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    both = sorted(folders.intersection(names))
    if both:
        raise BundleError(f"path {both[0]!r} is both a file and a folder of a bundle; rename one of them")
