"""What an owner opens of the sandbox for an evaluator that is trusted that far."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evovpo.errors import ConfigError, nearest_hint

_WITH_VALUE = ("env", "read", "write", "path", "cwd")
_ALONE = ("network", "gpu", "sandbox=off")
_NETWORK_FILES = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/ssl", "/etc/ca-certificates", "/etc/pki"),
)
"""What finding hosts and checking certificates reads."""
_GPU_DEVICES = ("nvidia*", "dri", "kfd")
"""Patterns below `/dev`."""


@dataclass(frozen=True, slots=True)
class Openings:
    """What an evaluator may have besides its private folder, Python and the system's libraries."""

    words: tuple[str, ...] = ()
    """As they were given, each once, in order."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables with their values."""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Folders in front of `PATH`; readable too."""
    filters: tuple[str, ...] = ()
    """Of `network` and `gpu` those that are opened."""
    working_folder: str = ""
    """Empty for a private copy of the project's folder."""
    is_off: bool = False
    """Nothing isolates the evaluator; limits hold."""

    @property
    def text(self) -> str:
        """What is added to the level of isolation of a result."""
        return f"; opened: {', '.join(self.words)}" if self.words else ""


def split_words(text: str) -> list[str]:
    """Return the words of a text with commas between them."""
    return [word for part in text.split(",") if (word := part.strip())]


def read_openings(words: Iterable[str], folder: Path, place: str = "evaluator.allow") -> Openings:
    """Return what `words` open, such as `env=NAME`, `read=PATH`, `network`; relative paths lie in `folder`.

    Raises `ConfigError` that names the `place` of the words for one that is not known, and for variables,
    paths and devices that are not there.
    """
    kept = tuple(dict.fromkeys(words))
    found: dict[str, list[str]] = {kind: [] for kind in _WITH_VALUE}
    for word in kept:
        kind, _, value = word.partition("=")
        if word in _ALONE:
            continue
        if kind not in _WITH_VALUE or not value:
            known = [*(f"{kind}=" for kind in _WITH_VALUE), *_ALONE]
            raise ConfigError(
                f"{place}: expected env=NAME, read=PATH, write=PATH, path=FOLDER, cwd=FOLDER, network, gpu "
                f"or sandbox=off, found {word!r}; {nearest_hint(word, known)}"
            )
        if kind == "env":
            if not os.environ.get(value):
                raise ConfigError(
                    f"{place}: {word}: expected a value of {value}, found none; export it first"
                )
            found[kind].append(value)
            continue
        path = Path(os.path.abspath(folder / Path(value).expanduser()))  # noqa: PTH100  # links stay
        if not (path.is_dir() if kind in ("path", "cwd") else path.exists()):
            raise ConfigError(
                f"{place}: {word}: expected it to be there, found nothing at {path}; correct it"
            )
        found[kind].append(str(path))
    if len(found["cwd"]) > 1:
        raise ConfigError(f"{place}: expected one cwd=FOLDER, found {', '.join(found['cwd'])}; leave one")
    devices: list[str] = []
    if "gpu" in kept:
        devices = sorted(str(path) for pattern in _GPU_DEVICES for path in Path("/dev").glob(pattern))
        if not devices:
            raise ConfigError(
                f"{place}: gpu: expected a device such as /dev/nvidia0, found none; leave it out"
            )
    network = _NETWORK_FILES if "network" in kept else ()
    return Openings(
        words=kept,
        variables=tuple((name, os.environ[name]) for name in found["env"]),
        readable=(*found["read"], *found["path"], *found["cwd"], *network, *(["/sys"] if devices else [])),
        writable=(*found["write"], *devices),
        programs=tuple(found["path"]),
        filters=tuple(word for word in ("network", "gpu") if word in kept),
        working_folder="".join(found["cwd"]),
        is_off="sandbox=off" in kept,
    )
