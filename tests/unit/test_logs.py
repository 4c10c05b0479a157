"""Standard error as lines of JSON: of a command, of what it says by any way, and of its processes."""

import json
import os
import subprocess
import sys
from typing import Any

SAYS = """
import logging, sys, warnings
from evovpo import logs
logs.as_parent()
logs.as_parent()
print("half a ", end="", file=sys.stderr)
print("line\\rand another", file=sys.stderr)
logging.getLogger("evovpo.runs").warning("told %d", 3)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("other").exception("a fault")
print("an answer")
"""


def ended(*arguments: str, code: int = 0, **environment: str) -> tuple[str, list[dict[str, Any]]]:
    """Run Python; return its standard output, and the objects on its standard error."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == code, done.stderr
    return done.stdout, [json.loads(line) for line in done.stderr.splitlines()]


def test_whatever_is_said_is_an_object_a_line() -> None:
    out, said = ended("-c", SAYS, EVOVPO_LOG_JSON="1")
    assert out == "an answer\n"
    assert [(one["level"], one["logger"], one["message"]) for one in said] == [
        ("info", "evovpo", "half a line"),
        ("info", "evovpo", "and another"),
        ("warning", "evovpo.runs", "told 3"),
        ("error", "other", "a fault"),
    ]
    assert "ZeroDivisionError" in said[3]["exception"]
    assert len({one["process"] for one in said}) == 1
    assert all(one["time"].endswith("+00:00") for one in said)


def test_an_error_of_a_command_is_one(tmp_path: object) -> None:
    command = ("-m", "evovpo", "show", "latest", "--store", f"{tmp_path}/none.db")
    for arguments, environment in (
        ((*command[:2], "--log-json", *command[2:]), {}),
        (command, {"EVOVPO_LOG_JSON": "1"}),
    ):
        out, said = ended(*arguments, code=2, **environment)
        assert (out, said[-1]["level"]) == ("", "error")
        assert "no such store" in said[-1]["message"]


def test_without_it_nothing_changes() -> None:
    done = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("half a line\nand another\ntold 3\na fault\nTraceback")
