"""Runs a batch to its end through faults: `python tests/bench/batch_faults.py FILE STORE.db --seed 0`.

Kills the whole tree of processes, kills single workers and fork-servers of the sandbox, and fills the disk
under the store, in random order, each after a random number of stored candidates; each time it gives the
same command again where the batch ended. STORE.db must lie on a small file system of its own (unless
`--disks 0` fills none), such as

    mkdir small && mount -t tmpfs -o size=400m tmpfs small

Prints one line a fault: seconds since the start, candidates stored, what was done, how the command ended.
Then `tests/bench/same_rows.py` says whether the rows are those of a batch that nobody disturbed.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

_LARGEST_DISK = 4 << 30
"""In bytes: filling more would take long, and is probably a mistake."""
_FULL = 4
"""Exit code of a batch that the machine cut off."""


def descendants(pid: int) -> dict[int, bytes]:
    """Return the processes below a process with their command lines, parents first."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    commands: dict[int, bytes] = {}
    for one in found[1:]:
        with contextlib.suppress(OSError):
            commands[one] = Path(f"/proc/{one}/cmdline").read_bytes()
    return commands


def kill(pids: list[int]) -> None:
    """End processes at once."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stored(database: Path) -> int:
    """Return the number of candidates in the store."""
    with contextlib.suppress(sqlite3.OperationalError), closing(sqlite3.connect(database)) as opened:
        return int(opened.execute("SELECT count(*) FROM candidates").fetchone()[0])
    return 0


def fill(path: Path) -> None:
    """Take all the room that is left on a file system, to the byte."""
    with path.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


class Faults:
    """A batch that is disturbed, in a process of its own."""

    def __init__(self, command: list[str], database: Path, rng: random.Random) -> None:
        self._command, self._database, self._rng = command, database, rng
        self._begin = time.monotonic()
        self._start()

    def _start(self) -> None:
        with self._database.with_suffix(".err").open("a") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=errors)

    def _say(self, what: str) -> None:
        print(
            f"{time.monotonic() - self._begin:7.0f} s {stored(self._database):7} candidates: {what}",
            flush=True,
        )

    def wait(self, least: int, most: int) -> bool:
        """Wait until the batch has stored a random number more; return whether it still runs."""
        wanted = stored(self._database) + self._rng.randint(least, most)
        while self._process.poll() is None and stored(self._database) < wanted:
            time.sleep(0.005)  # far less than a few candidates take, whatever the machine
        return self._process.poll() is None

    def whole_tree(self) -> None:
        """Kill the batch and everything below it; start it again."""
        pids = [self._process.pid, *descendants(self._process.pid)]
        kill(pids)
        self._say(f"killed the whole tree, {len(pids)} processes; exit code {self._process.wait()}")
        self._start()

    def one_worker(self) -> None:
        """Kill a process that runs cells; the batch goes on."""
        self._kill_one("worker", b"spawn_main")

    def one_sandbox(self) -> None:
        """Kill a process that holds a fork-server; the batch goes on."""
        self._kill_one("sandbox", b"bwrap")

    def _kill_one(self, name: str, sign: bytes) -> None:
        fitting = [pid for pid, command in descendants(self._process.pid).items() if sign in command]
        kill(self._rng.sample(fitting, min(1, len(fitting))))
        self._say(f"killed one {name} of {len(fitting)}" if fitting else f"no {name} to kill")

    def full_disk(self) -> None:
        """Fill the disk until the batch ends; make room, and start it again."""
        filler = self._database.with_name("filler")
        fill(filler)
        code = self._process.wait()
        self._say(
            f"filled the disk with {filler.stat().st_size >> 20} MiB; exit code {code}, expected {_FULL}"
        )
        filler.unlink()
        self._start()

    def end(self) -> int:
        """Wait for the end of the batch and return its exit code."""
        code = self._process.wait()
        self._say(f"ended with exit code {code}")
        return code


def main() -> None:
    """Command line: disturb a batch, and end with its last exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("batch", metavar="FILE")
    parser.add_argument("store", type=Path, metavar="STORE.db")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the order and moments of the faults")
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--sandboxes", type=int, default=5)
    parser.add_argument("--disks", type=int, default=3)
    parser.add_argument(
        "--between", type=int, nargs=2, default=[1000, 3000], help="candidates between faults, least and most"
    )
    options = parser.parse_args()
    if options.store.exists():
        parser.error(f"{options.store} is there already; give another path")
    if options.disks and shutil.disk_usage(options.store.parent).total > _LARGEST_DISK:
        parser.error(f"{options.store} lies on a large disk; mount a small one for it, which can be filled")
    command = [sys.executable, "-m", "evovpo", "batch", options.batch]
    command += ["--store", str(options.store), "--jobs", str(options.jobs)]
    rng = random.Random(options.seed)
    faults = Faults(command, options.store, rng)
    left = [faults.whole_tree] * options.trees + [faults.one_worker] * options.workers
    left += [faults.one_sandbox] * options.sandboxes + [faults.full_disk] * options.disks
    rng.shuffle(left)
    for number, fault in enumerate(left):
        if not faults.wait(*options.between):
            print(f"the batch was at its end before the last {len(left) - number} faults")
            break
        fault()
    sys.exit(faults.end())


if __name__ == "__main__":
    main()
