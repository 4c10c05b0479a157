"""Evolutionary program search with a language model that learns from the search.

`evolve` runs a search, and `resume` continues a stopped search. With `Search`, your own code
samples and evaluates the programs. `list_runs` and `read_run` read stored searches.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evovpo.api.ask_tell import Search
    from evovpo.api.best import Best
    from evovpo.api.evolve import EvolveResult, evolve, resume
    from evovpo.api.problems import Failed
    from evovpo.api.stored_runs import ProgramRecord, StoredRun, list_runs, read_run
    from evovpo.errors import ConfigError, EvovpoError, ProblemError, StoreError

__all__ = [
    "Best",
    "ConfigError",
    "EvolveResult",
    "EvovpoError",
    "Failed",
    "ProblemError",
    "ProgramRecord",
    "Search",
    "StoreError",
    "StoredRun",
    "evolve",
    "list_runs",
    "read_run",
    "resume",
]
_HOMES = {
    "evovpo.api.ask_tell": ("Search",),
    "evovpo.api.best": ("Best",),
    "evovpo.api.evolve": ("EvolveResult", "evolve", "resume"),
    "evovpo.api.problems": ("Failed",),
    "evovpo.api.stored_runs": ("ProgramRecord", "StoredRun", "list_runs", "read_run"),
    "evovpo.errors": ("ConfigError", "EvovpoError", "ProblemError", "StoreError"),
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'evovpo' has no attribute {name!r}")
