"""A PostgreSQL server of a test run's own: that of the wheel `pgserver`, or the one of this machine."""

import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

NO_LOGIN = "nobody"
"""Who runs the server where the tests run as root, which PostgreSQL refuses."""


@dataclass(frozen=True)
class Server:
    """A server that runs; it listens at a socket in its own folder and is not safe from power cuts."""

    programs: Path
    folder: Path
    user: str | None

    def address(self, database: str = "postgres") -> str:
        """Return the URL of one of its databases."""
        return f"postgresql+psycopg://evovpo@/{database}?host={self.folder}"

    def run(self, program: str, *arguments: str, file_bytes: int = resource.RLIM_INFINITY) -> None:
        """Run one of the server's programs on its data; fails with all that it and the server ever said.

        None of its files may become larger than `file_bytes`, as if the disk were full.
        """
        log = self.folder / "log"
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        with log.open("ab") as output:  # the server goes on writing there
            done = subprocess.run(
                command,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                user=self.user,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)),
                check=False,
            )
        assert done.returncode == 0, log.read_text()

    def start(self, file_bytes: int = resource.RLIM_INFINITY) -> None:
        """Start it; `file_bytes` as in `run`."""
        self.run("pg_ctl", "-w", "-o", f"-k {self.folder} -h '' -F", "start", file_bytes=file_bytes)

    def stop(self) -> None:
        """End it as a crash would: whoever is connected is cut off, and nothing is tidied up."""
        self.run("pg_ctl", "-m", "immediate", "stop")


def _programs() -> Path | None:
    """Return the folder with the server's programs, if there is one."""
    wheel = find_spec("pgserver")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda bin_: int(bin_.parent.name))
    path = os.pathsep.join([os.environ["PATH"], *map(str, reversed(versions))])
    found = shutil.which("pg_ctl", path=path)
    return None if found is None else Path(found).resolve().parent


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Start an empty server. Skips the test that asks for it where there is none."""
    programs, user = _programs(), None
    if programs is None:
        pytest.skip("no PostgreSQL server here: pip install pgserver")
    if find_spec("psycopg") is None:
        pytest.skip("no driver for PostgreSQL here: pip install 'evovpo[postgres]'")
    folder = Path(tempfile.mkdtemp(prefix="evovpo-postgres-"))
    try:
        if os.getuid() == 0:
            user = NO_LOGIN
            if programs.parent.name == "pginstall":  # its folder may be closed to everybody but root
                copied = folder / "pgserver" / "pginstall"
                shutil.copytree(programs.parent, copied, ignore=shutil.ignore_patterns("include"))
                shutil.copytree(programs.parents[2] / "pgserver.libs", folder / "pgserver.libs")
                programs = copied / "bin"
            shutil.chown(folder, user)
        server = Server(programs, folder, user)
        options = ("--no-sync", "-A", "trust", "-U", "evovpo", "--locale=C", "-E", "UTF8", "--wal-segsize=1")
        server.run("initdb", *options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Start an empty server and give the address of its databases, `{}` in place of a name."""
    with running_server() as server:
        yield server.address("{}")
