"""Files that a candidate may read: the Python installation and system libraries, except hidden paths."""

import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from evovpo.errors import SandboxError

SYSTEM_PATHS = (
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
)
PACKAGE = Path(__file__).resolve().parents[1]
OWN = (str(PACKAGE), str(PACKAGE.parent / "trainer"))
"""The folders of evovpo itself: always hidden, because they contain problems with their answers."""


def python_executable() -> str:
    """Return the path of the running Python, without `..` because namespaces cannot resolve `..`."""
    return _without_dots(sys.executable)


def _without_dots(file: str) -> str:
    path = Path(file)
    return str(path.parent.resolve() / path.name) if ".." in path.parts else file


def python_paths() -> list[str]:
    prefixes = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    named = [path for path in prefixes if ".." not in Path(path).parts]
    return list(dict.fromkeys([*named, *map(os.path.realpath, prefixes)]))


def library_paths(modules: Iterable[str]) -> list[str]:
    """Return the folders that contain the given top-level modules, which may be outside `sys.prefix`.

    Raises `SandboxError` for a module that is not installed.
    """
    found = []
    for name in modules:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is None:
            raise SandboxError(
                f"module {name!r} is to be preloaded but is not installed; install it or leave it out"
            )
        if spec.origin and spec.has_location:
            parents = Path(_without_dots(spec.origin)).parents
            found.append(str(parents[1] if spec.submodule_search_locations else parents[0]))
    return list(dict.fromkeys(found))


def reading_rules(roots: Iterable[str], hidden: Iterable[str]) -> list[tuple[str, bool]]:
    """Return rules (path, is_listing_only) that allow reading everything below `roots` except `hidden`.

    Landlock cannot exclude a path inside an allowed folder. The rule of a folder that contains a hidden path
    therefore allows only listing the folder, and each entry that is not hidden gets a rule of its own.
    """
    real_hidden = {os.path.realpath(path) for path in hidden}
    rules = (rule for root in roots for rule in _without(os.path.realpath(root), real_hidden))
    return list(dict.fromkeys(rules))


def _without(root: str, hidden: set[str]) -> Sequence[tuple[str, bool]]:
    if any(root == path or root.startswith(f"{path}/") for path in hidden):
        return []
    if not any(path.startswith(f"{root.rstrip('/')}/") for path in hidden):
        return [(root, False)]
    rules = [(root, True)]
    try:
        entries = list(os.scandir(root))
    except OSError:
        return rules
    for entry in entries:
        # A symbolic link (`lib64 -> lib`) would allow everything hidden in its target.
        if not entry.is_symlink():
            rules += _without(entry.path, hidden)
    return rules


COPIED_FILES, COPIED_BYTES = 200, 8 << 20
"""Maximum numbers of files and bytes of a project that evaluations copy; larger projects are linked."""
_NOT_COPIED = frozenset({"__pycache__", "openevolve_output", "node_modules"})


def project_copy(
    folder: Path, hidden: Iterable[str], readable: Sequence[str] = ()
) -> tuple[list[tuple[str, str, bool]], bool]:
    """Return the entries (name, source, is_link) of a copy of `folder`, and whether all entries are links.

    Paths in `hidden` are left out, and entries whose names begin with a dot, except those in `readable`.
    """
    left_out = {os.path.realpath(path) for path in hidden}
    found: list[Path] = []
    size = 0
    for root, folders, files in os.walk(folder):
        names = [name for name in (*folders, *files) if name not in _NOT_COPIED]
        names = [name for name in names if name[0] != "." or str(Path(root, name)) in readable]
        folders[:] = [name for name in names if name in folders]
        paths = [path for name in names if os.path.realpath(path := Path(root, name)) not in left_out]
        found += [path for path in paths if path.is_symlink() or path.is_file()]
        size += sum(path.stat().st_size for path in paths if path.is_file())
        if len(found) > COPIED_FILES or size > COPIED_BYTES:
            above = [path for path in folder.iterdir() if os.path.realpath(path) not in left_out]
            seen = [path for path in above if path.name[0] != "." or str(path) in readable]
            return [(path.name, str(path), True) for path in seen], True
    copied = [(str(path.relative_to(folder)), os.path.realpath(path), path.is_symlink()) for path in found]
    return copied, False
