"""The exceptions of evovpo. A failing candidate program raises none: its `Evaluation` records the failure."""

import difflib
from collections.abc import Iterable, Mapping

_FAULTS_SHOWN = 20


class EvovpoError(Exception):
    """Base class of all errors; the command line prints the message and exits, usually with code 2."""


class ConfigError(EvovpoError, ValueError):
    """An invalid configuration file or option."""


class ProposerError(ConfigError):
    """The user's proposer function raised an exception, which is the cause of this error."""


class NotAllowedError(ConfigError):
    """A store or project needs permissions that were not granted. `words` lists these permissions."""

    def __init__(self, message: str, words: tuple[str, ...]) -> None:
        super().__init__(message)
        self.words = words


class ProblemError(EvovpoError, ValueError):
    """A problem folder that cannot be loaded, or a scorer that returned an invalid value."""


class InitialProgramError(ProblemError):
    """The initial program got no score from its evaluator; `metrics` are the metrics that were returned."""

    def __init__(self, message: str, metrics: Mapping[str, object]) -> None:
        super().__init__(message)
        self.metrics = metrics


class StoreError(EvovpoError, RuntimeError):
    """A database that cannot be opened, read or written."""


class FileHeldError(EvovpoError, RuntimeError):
    """A file that another process has locked; the message is the id of that process."""


class RunHeldError(StoreError):
    """A run that another process is using; other runs of the store can be used."""


class PolicyError(EvovpoError, ValueError):
    """An invalid model folder, or a policy version that does not exist."""


class ServerError(EvovpoError, RuntimeError):
    """A model server that is unreachable, refuses a request, or returns an invalid answer."""


class UnreachableError(ServerError):
    """A model server that does not answer at the start of a run."""


class BudgetError(EvovpoError, RuntimeError):
    """A run has used up its token or money budget; the run ends normally."""


class PublishError(EvovpoError, RuntimeError):
    """A policy version cannot be written, or its server computes other log-probabilities than the trainer."""


class SandboxError(EvovpoError, RuntimeError):
    """The sandbox itself (not the candidate) cannot be started or keeps failing."""


class SearchError(EvovpoError, ValueError):
    """An invalid call of `ask` or `tell`, such as a reply to an unknown prompt."""


class ReplayError(EvovpoError, RuntimeError):
    """A stored run that cannot be rebuilt from its rows."""


def raise_faults(faults: Iterable[str], kind: type[EvovpoError] = ConfigError) -> None:
    """If `faults` is not empty, raise one error of class `kind` that lists all different messages."""
    listed = list(dict.fromkeys(faults))
    if len(listed) == 1:
        raise kind(listed[0])
    if listed:
        hidden = len(listed) - _FAULTS_SHOWN
        more = [f"... and {hidden} more"] if hidden > 0 else []
        lines = [f"{len(listed)} things are wrong:", *listed[:_FAULTS_SHOWN], *more]
        raise kind("\n- ".join(lines))


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint about an unknown name: the similar known names, or the first 20 if none is similar."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "known: " + ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


class DivergedError(EvovpoError, ArithmeticError):
    """A training step with a non-finite loss or gradient; the weights are unchanged."""


class TrainingError(EvovpoError, RuntimeError):
    """A training that cannot continue, for example because of unsuitable data or a full disk."""


class NothingToTrainError(TrainingError):
    """The runs contain no group (rollouts of one prompt) that can be trained on."""


class AnswerError(EvovpoError, ValueError):
    """A model answer without a valid program; the message is stored as the reason."""


class BundleError(EvovpoError, ValueError):
    """Text that is not a valid bundle of files, or files that cannot be stored in a bundle."""
