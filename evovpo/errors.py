"""The one family of exceptions that evovpo raises for causes it can name.

Every message says what was expected, what came, and what to do. A failing candidate is not an
exception: it is an `Evaluation` with a status.
"""

import difflib
from collections.abc import Iterable, Mapping


class EvovpoError(Exception):
    """Root of every error raised on purpose; the command line prints it and exits, mostly with code 2."""


class ConfigError(EvovpoError, ValueError):
    """A configuration file or option that cannot be used."""


class NotAllowedError(ConfigError):
    """What a store or a project asks for and nobody granted; `words` are what `--allow` would grant."""

    def __init__(self, message: str, words: tuple[str, ...]) -> None:
        super().__init__(message)
        self.words = words


class ProblemError(EvovpoError, ValueError):
    """A problem folder that cannot be loaded, or whose scorer answered outside its contract."""


class InitialProgramError(ProblemError):
    """An evaluator that gives no score for its own initial program; `metrics` is what it returned."""

    def __init__(self, message: str, metrics: Mapping[str, object]) -> None:
        super().__init__(message)
        self.metrics = metrics


class StoreError(EvovpoError, RuntimeError):
    """A database that cannot be opened, read or written."""


class FileHeldError(EvovpoError, RuntimeError):
    """A file that another holder has locked; the message is its process id."""


class RunHeldError(StoreError):
    """A run that another process searches; the rest of its store can be used."""


class PolicyError(EvovpoError, ValueError):
    """A model folder that is not one, or a policy version that is not there."""


class ServerError(EvovpoError, RuntimeError):
    """A model server that cannot be reached, refuses, or answers outside its contract."""


class BudgetError(EvovpoError, RuntimeError):
    """The tokens or the money of a run are used up; the run ends, and is no failure."""


class PublishError(EvovpoError, RuntimeError):
    """A policy version that cannot be written, or that is computed differently where it is served."""


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


class DivergedError(EvovpoError, ArithmeticError):
    """A training step whose loss or gradient is not finite; the weights are as they were before it."""


class TrainingError(EvovpoError, RuntimeError):
    """A training that cannot go on as asked: nothing to train on, data that does not fit, a full disk."""


class NothingToTrainError(TrainingError):
    """Runs of which no group is left to train on."""


class AnswerError(EvovpoError, ValueError):
    """Why an answer of a model gives no program; the reader of answers keeps it as the reason of the slot."""


class BundleError(EvovpoError, ValueError):
    """A text that is no bundle of files, or files that a bundle cannot hold."""
