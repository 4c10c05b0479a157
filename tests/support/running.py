"""Commands of evovpo in processes of their own, and the pages that such processes serve."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

LONG = 300
"""Seconds, far more than anything here takes: what does not come at all fails the test."""


def wait_until(is_so: Callable[[], object], message: str = "") -> None:
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end, message
        time.sleep(0.02)


def is_gone(process: int) -> bool:
    """True if a process has ended, whether or not its parent collected it."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@contextmanager
def running(
    *arguments: str | Path, program: Sequence[str | Path] = (sys.executable, "-m", "evovpo"), **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Give a command in its own process, which ends with the block."""
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        # Tests that run as a background job inherit that Ctrl-C is ignored, and would pass that on.
        "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    }
    with subprocess.Popen([*program, *arguments], text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


class Served(NamedTuple):
    """A page by its address, with the token that it has where the machine has other users."""

    address: str

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].partition("/")[0])

    def ask(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of an answer."""
        url, _, token = self.address.partition("?token=")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=LONG)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return int(answer.status), answer.headers, answer.read()


@contextmanager
def serving(store: str | Path, **options: Any) -> Iterator[tuple[subprocess.Popen[str], Served]]:
    """Give the process of a page over a store, and the page, until the block ends."""
    with running("serve", "--port", "0", "--no-browser", "--store", store, **options) as process:
        assert process.stdout is not None
        yield process, Served(process.stdout.readline().strip())
