"""Runs one candidate in this process, under resource limits: for systems without the fork-server.

Started with descriptors of payload and result, and the limits as JSON. Portable; what else holds the
candidate is put around this process from outside.
"""

from __future__ import annotations

import json
import os
import resource
import sys

from . import program
from .limits import clamped


def main(arguments: list[str]) -> None:
    """Run the candidate of the payload file; exits with 0 if it ended by itself."""
    high = [os.dup(int(argument)) for argument in arguments[:2]]
    for place, number in zip((program.PAYLOAD, program.RESULT), high, strict=True):
        os.dup2(number, place)
    os.closerange(program.RESULT + 1, 256)
    limits = json.loads(arguments[2])
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, max(limits["result_bytes"], limits["log_bytes"]) + 1),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        # macOS takes this limit and does not hold it.
        (resource.RLIMIT_AS, limits["memory_mb"] + limits["python_mb"] << 20),
    ):
        resource.setrlimit(name, clamped(name, value, value))
    seconds = limits["cpu_seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, clamped(resource.RLIMIT_CPU, seconds, seconds + 1))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        program.run_payload()
    except OSError as error:  # past the limit on results
        sys.exit(f"[sandbox child] {type(error).__name__}: {error}")
