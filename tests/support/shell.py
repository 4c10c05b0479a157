"""The command line and scripts, called in this process: each process more would load torch anew."""

import json
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from evovpo.cli import main


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of standard output, read as JSON."""
        return json.loads(self.out.splitlines()[-1])


class Shell:
    """Runs commands in this process, in the current directory."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Answer:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Answer(int(ended.value.code or 0), *self._capsys.readouterr())


def run_script(path: Path, capsys: pytest.CaptureFixture[str]) -> Answer:
    """Run a script in this process, as Python runs it; its warnings are printed and no errors."""
    code = 0
    with (
        mock.patch.object(sys, "argv", [str(path)]),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return Answer(code, *capsys.readouterr())
