"""Runs untrusted programs under limits, on this machine, without root or containers (docs/sandbox.md).

`Sandbox`: a fork-server per core forks one child per candidate, which gets inputs and returns JSON; expected
answers and scorer stay outside. `WholeSandbox` runs an evaluator and the candidate it imports in one process,
`ProxySandbox` in two processes. `python -m evovpo.sandbox --selftest` runs a table of attacks.
"""

from evovpo.sandbox.evaluators import ProxySandbox, WholeJob, WholeSandbox
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Result, WholeResult

__all__ = ["Level", "ProxySandbox", "Result", "Sandbox", "WholeJob", "WholeResult", "WholeSandbox"]
