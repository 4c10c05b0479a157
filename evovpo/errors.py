"""The exceptions that evovpo raises; a failing candidate is none: it is an `Evaluation` with a status."""

import difflib
from collections.abc import Iterable, Mapping


class EvovpoError(Exception):
    """Base of all errors of evovpo; the command line prints the message and exits, mostly with code 2."""


class ConfigError(EvovpoError, ValueError):
    """A configuration file or option that cannot be used."""


class NotAllowedError(ConfigError):
    """A store or a project needs a permission that was not granted; `words` are the values for `--allow`."""

    def __init__(self, message: str, words: tuple[str, ...]) -> None:
        super().__init__(message)
        self.words = words


class ProblemError(EvovpoError, ValueError):
    """A problem folder that cannot be loaded, or a scorer that returned an invalid value."""


class InitialProgramError(ProblemError):
    """An evaluator that gives no score for its own initial program; `metrics` is what it returned."""

    def __init__(self, message: str, metrics: Mapping[str, object]) -> None:
        super().__init__(message)
        self.metrics = metrics


class StoreError(EvovpoError, RuntimeError):
    """A database that cannot be opened, read or written."""


class FileHeldError(EvovpoError, RuntimeError):
    """A file that another process has locked; the message is its process id."""


class RunHeldError(StoreError):
    """A run that another process is working on; other runs of the store can be used."""


class PolicyError(EvovpoError, ValueError):
    """A model folder that is not one, or a policy version that is not there."""


class ServerError(EvovpoError, RuntimeError):
    """A model server that cannot be reached, refuses a request, or gives an invalid answer."""


class BudgetError(EvovpoError, RuntimeError):
    """A run has used up its tokens or money; it ends normally."""


class PublishError(EvovpoError, RuntimeError):
    """A policy version that cannot be written, or whose server computes other log-probabilities."""


class SandboxError(EvovpoError, RuntimeError):
    """The sandbox itself (not the candidate) cannot be started or keeps failing."""


class SearchError(EvovpoError, ValueError):
    """An invalid ask or tell: an unknown ticket, a vector of the wrong length."""


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
    """A training that cannot continue: nothing to train on, unsuitable data, a full disk."""


class NothingToTrainError(TrainingError):
    """No group of the runs can be trained on."""


class AnswerError(EvovpoError, ValueError):
    """An answer of a model that contains no valid program; the message is stored as the reason."""


class BundleError(EvovpoError, ValueError):
    """Text that is not a bundle of files, or files that a bundle cannot hold."""
