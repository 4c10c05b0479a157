"""One program at a time, each in a fresh process: for systems without the fork-server's means.

On macOS the process is inside sandbox-exec. Slower than a fork-server by far, and the same from outside.
"""

from __future__ import annotations

import json
import marshal
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict

from evovpo.sandbox.paths import PACKAGE, library_paths, python_paths
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Report, Result, judge
from evovpo.sandbox.seatbelt import SANDBOX_EXEC, seatbelt_profile
from evovpo.sandbox.start import SERVER_FOLDER, start_python
from evovpo.sandbox.worker import Settings
from evovpo.types import Json, Limits

PYTHON_MB = 256
"""Address space for Python and its libraries, besides the limit of the program."""


class FreshProcess:
    """As `ForkServer`, with a new process for each program. Not thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cpu_seconds = 0.0
        self.evaluations = 0
        """Programs run so far."""

    @property
    def pid(self) -> None:
        """None: nothing runs between two programs."""

    def run(
        self, code: str, entry: str, cases: Sequence[Sequence[Json]], limits: Limits, per_case: bool
    ) -> Result:
        """Return how the program ended.

        Raises `SandboxError` if no process can be started.
        """
        self.evaluations += 1
        with (
            tempfile.TemporaryFile() as payload,
            tempfile.TemporaryFile() as result,
            tempfile.TemporaryFile() as log,
        ):
            payload.write(marshal.dumps((code, entry, json.loads(json.dumps(cases)), per_case)))
            payload.flush()
            descriptors = [payload.fileno(), result.fileno()]
            before = _children_usage()
            started = time.monotonic()
            process = start_python(
                "fresh",
                descriptors,
                log.fileno(),
                arguments=[_request(limits)],
                around=self._around(),
                stdout=log.fileno(),
            )
            is_killed = False
            try:
                process.wait(limits.wall_seconds)
            except subprocess.TimeoutExpired:
                is_killed = True
                process.kill()
                process.wait()
            cpu_seconds = _children_usage() - before
            self._cpu_seconds += cpu_seconds
            code_or_signal = process.returncode
            report = Report(
                status=-code_or_signal if code_or_signal < 0 else code_or_signal << 8,
                is_ready=True,
                is_killed=is_killed,
                wall_ms=(time.monotonic() - started) * 1e3,
                cpu_ms=cpu_seconds * 1e3,
                maxrss_kb=0,
            )
            written = os.pread(result.fileno(), limits.result_bytes + 1, 0)
            logged = os.pread(log.fileno(), limits.log_bytes, 0)
        return judge(report, written, logged, len(cases), limits, per_case, self._settings.level)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all programs so far."""
        return self._cpu_seconds

    def stop(self) -> None:
        """Begin to count anew: there is no process to end."""
        self.evaluations = 0

    def _around(self) -> list[str]:
        """Return the command line of what isolates the process."""
        if self._settings.level is not Level.SANDBOX_EXEC:
            return []
        readable = [*python_paths(), *library_paths(self._settings.preload)]
        hidden = [*self._settings.hidden, str(PACKAGE)]
        return [SANDBOX_EXEC, "-p", seatbelt_profile(readable, hidden, [str(SERVER_FOLDER)])]


def _request(limits: Limits) -> str:
    return json.dumps({**asdict(limits), "python_mb": PYTHON_MB})


def _children_usage() -> float:
    """Return the CPU seconds of all ended children of this process; other threads' children count too."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
