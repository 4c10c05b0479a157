"""Tests which isolation this machine supports, because the kernel's version does not show it reliably."""

import functools
import itertools
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from evovpo.errors import SandboxError
from evovpo.sandbox.filters import filter_path
from evovpo.sandbox.start import bwrap_refusal


class Level(StrEnum):
    """Isolation levels, from weakest to strongest. The level is stored with every result."""

    NONE = "none"
    """A separate process with resource limits only: it can do whatever its user can."""
    SECCOMP = "seccomp"
    """No writing, no network, no processes, and no opening of files, so only preloaded modules work."""
    LANDLOCK_SECCOMP = "landlock+seccomp"
    """No writing, network or processes; reading only from the Python installation and system libraries."""
    BWRAP_LANDLOCK_SECCOMP = "bwrap+landlock+seccomp"
    """As `LANDLOCK_SECCOMP`, and in separate namespaces, where other files and processes do not exist."""

    @property
    def has_landlock(self) -> bool:
        return self.is_at_least(Level.LANDLOCK_SECCOMP)

    def is_at_least(self, other: Self) -> bool:
        order = list(Level)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class IsolationSupport:
    landlock_abi: int
    """ABI version of Landlock; 0 if the kernel has no Landlock."""
    seccomp: bool
    """True if the kernel supports seccomp filters and evovpo has filters for this processor."""
    bwrap_refusal: str

    @property
    def levels(self) -> Sequence[Level]:
        found = (True, self.seccomp, self.landlock_abi > 0, not self.bwrap_refusal)
        return list(Level)[: len(list(itertools.takewhile(bool, found)))]

    def describe(self) -> str:
        return (
            f"{platform.system()} {platform.release()} on {platform.machine()}; "
            f"Landlock {f'ABI {self.landlock_abi}' if self.landlock_abi else 'not available'}; "
            f"seccomp {'available' if self.seccomp else 'not available'}; "
            f"bubblewrap {self.bwrap_refusal or 'works'}"
        )


@functools.cache
def probe() -> IsolationSupport:
    """Return the isolation that this machine supports. Raises `SandboxError` if this is not Linux."""
    if sys.platform != "linux":
        raise SandboxError(
            f"programs run on Linux only, this is {sys.platform}; use a Linux machine, a container or WSL2"
        )
    from evovpo.sandbox.forkserver import kernel  # cannot be imported on other systems

    has_filter = filter_path("server", platform.machine()).exists()
    return IsolationSupport(
        kernel.landlock_abi(), kernel.has_seccomp_filters() and has_filter, bwrap_refusal()
    )


def choose_level(offer: IsolationSupport, minimum: Level, wanted: Level | None = None) -> Level:
    """Return `wanted` (by default the best level). Raises `SandboxError` if it is too weak or not offered."""
    level = wanted or offer.levels[-1]
    if wanted and not wanted.is_at_least(minimum):
        raise SandboxError(
            f"isolation level {wanted} is below the minimum {minimum}; ask for a stronger level or set "
            f"sandbox.minimum_level to {wanted}"
        )
    if level not in offer.levels or not level.is_at_least(minimum):
        needed = wanted or minimum
        raise SandboxError(
            f"untrusted programs need isolation level {needed!s} or better here, "
            f"but this machine offers {offer.levels[-1]} ({offer.describe()}); {_remedy(offer, needed)}"
        )
    return level


def _remedy(offer: IsolationSupport, needed: Level) -> str:
    lower = f"or, for programs that you trust that far, set sandbox.minimum_level to {offer.levels[-1]}"
    if needed is Level.BWRAP_LANDLOCK_SECCOMP and offer.levels[-1] is Level.LANDLOCK_SECCOMP:
        return f"install bubblewrap and allow user namespaces, {lower}"
    return (
        "use Linux 5.13 or newer on x86_64 or aarch64 with Landlock enabled ('landlock' in the lsm= boot "
        f"option), WSL2, or a container whose seccomp profile allows the landlock_* calls, {lower}"
    )
