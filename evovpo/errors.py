"""The one family of exceptions that evovpo raises for causes it can name.

Every message says what was expected, what came, and what to do. A failing candidate is not an
exception: it is an `Evaluation` with a status.
"""

import difflib
from collections.abc import Iterable


class EvovpoError(Exception):
    """Root of every error raised on purpose; the command line prints it and exits with code 2."""


class ConfigError(EvovpoError, ValueError):
    """A configuration file or option that cannot be used."""


class ProblemError(EvovpoError, ValueError):
    """A problem folder that cannot be loaded, or whose scorer answered outside its contract."""


class StoreError(EvovpoError, RuntimeError):
    """A database that cannot be opened, read or written."""


class PolicyError(EvovpoError, ValueError):
    """A model folder that is not one, or a policy version that is not there."""


class SandboxError(EvovpoError, RuntimeError):
    """The sandbox itself (not the candidate) cannot be started or keeps failing."""


class SearchError(EvovpoError, ValueError):
    """An ask or tell outside the protocol: an unknown ticket, a vector of the wrong length."""


class ReplayError(EvovpoError, RuntimeError):
    """A stored run that cannot be rebuilt from its rows."""


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the nearest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "known: " + ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
