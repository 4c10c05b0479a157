"""Runs untrusted programs under limits, on this machine, without root, containers or extra programs.

A fork-server per core (see `forkserver`) forks one child per candidate; resource limits, Landlock and
seccomp bind it before the first line of the candidate runs, and where bubblewrap works the
fork-server lives inside it. The child gets inputs and returns JSON; answers and scorer stay here.

Known limits: the kernel is shared; below `bwrap+landlock+seccomp` a candidate can see whether a file
exists and its size and time (not its content); CPU side channels stay.
`python -m evovpo.sandbox --selftest` runs a table of attacks.
"""

from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Result

__all__ = ["Level", "Result", "Sandbox"]
