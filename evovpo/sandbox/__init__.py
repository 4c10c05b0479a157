"""Runs untrusted programs under limits, on this machine, without root or containers (docs/sandbox.md).

`Sandbox` forks a child process for each candidate program. The child gets inputs, but no expected answers and
no scorer, and sends back JSON. `WholeSandbox` runs an evaluator and its candidate in one process,
`ProxySandbox` in two processes. `python -m evovpo.sandbox --selftest` runs a table of attacks.
"""

from evovpo.sandbox.evaluators import ProxySandbox, WholeJob, WholeSandbox
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Result, WholeResult

__all__ = ["Level", "ProxySandbox", "Result", "Sandbox", "WholeJob", "WholeResult", "WholeSandbox"]
