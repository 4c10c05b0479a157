"""What this machine offers for isolation, found by trying it: version numbers and system files mislead."""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evovpo.errors import SandboxError
from evovpo.sandbox.bwrap import bwrap_refusal
from evovpo.sandbox.filters import filter_path


class Level(StrEnum):
    """How a candidate is held, weakest first; written into every result."""

    LANDLOCK_SECCOMP = "landlock+seccomp"
    """No writing, no network, no processes; reading only below the Python installation."""
    BWRAP_LANDLOCK_SECCOMP = "bwrap+landlock+seccomp"
    """The same in namespaces of its own: other files do not exist, nor other processes."""

    def is_at_least(self, other: Level) -> bool:
        """True if this level holds a candidate as well as `other` or better."""
        order = list(Level)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Offer:
    """What was found on this machine."""

    landlock_abi: int
    """0: none."""
    seccomp: bool
    """The kernel takes filters, and there is one for this processor."""
    bwrap_refusal: str
    """Why bubblewrap cannot be used; empty if it can."""

    @property
    def levels(self) -> Sequence[Level]:
        """The levels that this machine can run, weakest first."""
        if not (self.landlock_abi and self.seccomp):
            return []
        return [Level.LANDLOCK_SECCOMP] if self.bwrap_refusal else list(Level)

    def describe(self) -> str:
        """Return the findings as one line for an error message."""
        return (
            f"{platform.system()} {platform.release()} on {platform.machine()}; "
            f"Landlock {f'ABI {self.landlock_abi}' if self.landlock_abi else 'not available'}; "
            f"seccomp {'available' if self.seccomp else 'not available'}; "
            f"bubblewrap {self.bwrap_refusal or 'works'}"
        )


@functools.cache
def probe() -> Offer:
    """Return what this machine offers; tried once per process."""
    if sys.platform != "linux":
        return Offer(0, False, "needs Linux")
    from evovpo.sandbox.forkserver import kernel  # elsewhere it cannot even be imported

    has_filter = filter_path("server", platform.machine()).exists()
    return Offer(kernel.landlock_abi(), kernel.has_seccomp_filters() and has_filter, bwrap_refusal())


def choose_level(offer: Offer, minimum: Level, wanted: Level | None = None) -> Level:
    """Return the strongest level on offer, or `wanted`.

    Raises `SandboxError` if none is on offer, or only one below `minimum`, or not the wanted one.
    """
    level = wanted or (offer.levels[-1] if offer.levels else None)
    if level is None or level not in offer.levels or not level.is_at_least(minimum):
        raise SandboxError(
            f"untrusted programs need isolation level {wanted or minimum!s} or better here, "
            f"but this machine offers {offer.levels[-1] if offer.levels else 'none'} ({offer.describe()}); "
            f"{_remedy(offer)}"
        )
    return level


def _remedy(offer: Offer) -> str:
    if offer.levels:
        return "install bubblewrap and allow user namespaces, or lower the minimum level"
    return (
        "use Linux 5.13 or newer on x86_64 or aarch64 with Landlock enabled ('landlock' in the lsm= boot "
        "option), WSL2, or a container whose seccomp profile allows the landlock_* calls"
    )
