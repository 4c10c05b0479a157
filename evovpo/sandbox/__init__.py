"""Runs untrusted programs under limits, on this machine, without root, containers or extra programs.

`Sandbox`: a fork-server per core (see `forkserver`) forks one child per candidate; resource limits,
Landlock and seccomp bind it before the first line of the candidate runs, and where bubblewrap works the
fork-server lives inside it. The child gets inputs and returns JSON; answers and scorer stay here.
`WholeSandbox` runs an evaluator, imported once, together with the candidate that it imports, in a fork each;
`ProxySandbox` runs such an evaluator with the candidate in another process. docs/sandbox.md has the levels,
the modes, and what is not covered. `python -m evovpo.sandbox --selftest` runs a table of attacks.
"""

from evovpo.sandbox.evaluators import ProxySandbox, WholeJob, WholeSandbox
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Result, WholeResult

__all__ = ["Level", "ProxySandbox", "Result", "Sandbox", "WholeJob", "WholeResult", "WholeSandbox"]
