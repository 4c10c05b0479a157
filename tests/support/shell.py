"""The command line, called in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

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
