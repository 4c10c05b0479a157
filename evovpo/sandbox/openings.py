"""Permissions that a user grants to a trusted evaluator."""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evovpo.errors import ConfigError, nearest_hint

_ALONE = ("network", "gpu", "sandbox=off")
_KINDS = ("env=", "read=", "write=", "path=", "cwd=", *_ALONE)
_NETWORK_FILES = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/ssl", "/etc/ca-certificates", "/etc/pki"),
)
_GPU_DEVICES = ("nvidia*", "dri", "kfd")


_PROGRAM = re.compile(
    r"(?:No such file or directory|Permission denied): '([\w.+-]*[\w+-])'|\b([\w+-]+): (?:command )?not found"
    r"|(?i:tool|command|executable|program) not found: '?([\w.+-]*[\w+-])"
)
_FILE = re.compile(r"Permission denied: '(/[^']+)'|'(/[^']+)'[^'\n]*Permission denied")
_NETWORK = re.compile(
    r"name resolution|Name or service not known|getaddrinfo|Network is unreachable|URLError"
    r"|Max retries exceeded|ConnectionError|Could not resolve host|urlopen error|load_verify_locations"
    r"|\[Errno 13\] Permission denied(?!:)"
)
_MODULE = re.compile(r"No module named '(\w+)'")
_VARIABLE = re.compile(r"KeyError: '([A-Z][A-Z0-9_]*)'")


@dataclass(frozen=True, slots=True)
class Openings:
    """Permissions of an evaluator, in addition to its private folder, Python and system libraries."""

    words: tuple[str, ...] = ()
    """The permissions as the user wrote them, such as `env=NAME`; in order and without duplicates."""
    variables: tuple[tuple[str, str], ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    working_folder: str = ""

    @property
    def has_network(self) -> bool:
        """True if the evaluator may use the network, including services of this machine."""
        return "network" in self.words

    @property
    def is_off(self) -> bool:
        """True if the evaluator runs without isolation; limits still apply."""
        return "sandbox=off" in self.words


def what_is_missing(text: str, allowed: Iterable[str] = ()) -> str:
    """Return advice if an error text shows a missing program or permission, otherwise an empty text."""
    for name in map("".join, _PROGRAM.findall(text)):
        path, at_home = shutil.which(name), Path.home() / name
        if name.startswith(".") and at_home.exists():
            return f"{name} is in your home folder: open it with --allow env=HOME --allow read={at_home}"
        if path is None and f"Permission denied: '{name}'" in text:
            if f"write={name}" in allowed:
                continue
            return f"{name} is closed in the sandbox: create it and open it with --allow write={name}"
        if path is None and "." in name:
            usual = "give its whole path there, and open it with --allow read=PATH"
            return f"there is no file {name} in the folder of the evaluator: {usual}"
        if path is None:
            return f"there is no program {name} on the PATH of this machine: install it"
        words = [f"path={Path(path).parent}"]
        if Path(path).resolve().name == "rustup":  # it looks for its toolchains in the home directory
            words = ["path=$(rustc --print sysroot)/bin", "read=$(rustc --print sysroot)"]
        if words[0] not in allowed:
            return f"{path} is closed in the sandbox: open it with --allow {' --allow '.join(words)}"
    for name in map("".join, _FILE.findall(text)):
        if Path(name).exists() and f"read={name}" not in allowed:
            return f"{name} is closed in the sandbox: open it with --allow read={name}"
    for name in _VARIABLE.findall(text):
        if name in os.environ and f"env={name}" not in allowed:
            return f"the sandbox does not have the variable {name}: open it with --allow env={name}"
    for name in _MODULE.findall(text):
        return f"this Python has no module {name}: install the package that has it"
    if not _NETWORK.search(text):
        return ""
    if "network" in allowed:
        return "the network is open, but the address cannot be reached from this machine"
    return "the network is closed in the sandbox: open it with --allow network"


def split_words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def read_openings(words: Iterable[str], folder: Path, place: str = "evaluator.allow") -> Openings:
    """Return the permissions granted by `words`, for example `env=NAME`, `read=PATH` or `network`.

    Relative paths start from `folder`. An unknown word, or a missing path, variable or GPU, raises a
    `ConfigError` whose message begins with `place`.
    """
    kept = tuple(dict.fromkeys(words))
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for word in kept:
        name, sign, value = word.partition("=")
        kind = word if word in _ALONE else name + sign
        if kind not in found or not (value or word in _ALONE):
            known = "env=NAME, read=PATH, write=PATH, path=FOLDER, cwd=FOLDER, network, gpu or sandbox=off"
            raise ConfigError(f"{place}: expected {known}, found {word!r}; {nearest_hint(word, _KINDS)}")
        if kind == "env=" and not os.environ.get(value):
            raise ConfigError(f"{place}: {word}: expected a value of {value}, found none; export it first")
        if kind in ("read=", "write=", "path=", "cwd="):
            path = Path(os.path.abspath(folder / Path(value).expanduser()))  # noqa: PTH100  # links stay
            if not (path.is_dir() if kind in ("path=", "cwd=") else path.exists()):
                what, found_there = ("a folder", "a file") if path.exists() else ("to find it", "nothing")
                said = f"expected {what}, found {found_there} at {path}"
                raise ConfigError(f"{place}: {word}: {said}; correct it" + ", or use read=" * path.exists())
            value = str(path)
        found[kind].append(value)
    if len(found["cwd="]) > 1:
        raise ConfigError(f"{place}: expected one cwd=FOLDER, found {', '.join(found['cwd='])}; leave one")
    devices = sorted(str(path) for pattern in _GPU_DEVICES for path in Path("/dev").glob(pattern))
    if found["gpu"] and not devices:
        raise ConfigError(f"{place}: gpu: expected a device such as /dev/nvidia0, found none; leave it out")
    own = (*found["read="], *found["path="], *found["cwd="])
    return Openings(
        words=kept,
        variables=tuple((name, os.environ[name]) for name in found["env="]),
        readable=(*own, *(_NETWORK_FILES if found["network"] else ()), *(["/sys"] if found["gpu"] else ())),
        writable=(*found["write="], *(devices if found["gpu"] else ())),
        programs=tuple(found["path="]),
        working_folder="".join(found["cwd="]),
    )
