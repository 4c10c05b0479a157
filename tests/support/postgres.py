"""A PostgreSQL server of a test run's own, where this machine has the programs of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

NO_LOGIN = "nobody"
"""Who runs the server where the tests run as root, which PostgreSQL refuses."""


def _program(name: str) -> str | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda bin_: int(bin_.parent.name))
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *map(str, reversed(versions))]))


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Start an empty server and give the address of its databases, `{}` in place of a name.

    It listens at a socket in its own folder. Skips the test that asks for it where there is none.
    """
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("no PostgreSQL server here: its initdb and pg_ctl are not on the path")
    if find_spec("psycopg") is None:
        pytest.skip("no driver for PostgreSQL here: pip install 'evovpo[postgres]'")
    folder = Path(tempfile.mkdtemp(prefix="evovpo-postgres-"))
    data, log = folder / "data", folder / "log"
    user = None
    if os.getuid() == 0:
        user = NO_LOGIN
        shutil.chown(folder, user)

    def run(*command: str) -> None:
        with log.open("ab") as output:  # the server goes on writing there
            done = subprocess.run(command, stdout=output, stderr=output, cwd=folder, user=user, check=False)
        assert done.returncode == 0, log.read_text()

    try:
        run(initdb, "-D", str(data), "--no-sync", "-A", "trust", "-U", "evovpo", "--locale=C", "-E", "UTF8")
        run(control, "-D", str(data), "-w", "-o", f"-k {folder} -h '' -F", "start")
        try:
            yield f"postgresql+psycopg://evovpo@/{{}}?host={folder}"
        finally:
            run(control, "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
