"""A held file is refused to others until its holder ends; a written one is whole or not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evovpo.errors import FileHeldError
from evovpo.files import hold, write_json, written_whole

HOLD = """
import sys
from pathlib import Path
from evovpo.files import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_held_file_is_refused_until_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(FileHeldError, match=str(other.pid)):
            hold(path)
        other.kill()
        other.wait()
        with hold(path):
            assert path.read_text() == str(os.getpid())


def test_a_file_is_held_against_its_own_process_too(tmp_path: Path) -> None:
    with hold(tmp_path / "lock"), pytest.raises(FileHeldError):
        hold(tmp_path / "lock")
    with hold(tmp_path / "lock"):
        pass


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_whole_in_place_of_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / "model.partial").mkdir()
    (tmp_path / "model.partial" / "torn").touch()
    with written_whole(tmp_path / "model") as partial:
        partial.mkdir()
        (partial / "weights").write_text("w")
        assert not (tmp_path / "model").exists()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["weights"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
