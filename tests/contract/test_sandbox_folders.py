"""What an evaluation leaves on the disk is measured and removed however deep it lies; answers are hidden."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from evovpo.sandbox import paths
from evovpo.sandbox.forkserver.folders import empty, folder_bytes
from evovpo.sandbox.paths import reading_rules
from evovpo.sandbox.watched import WORK_PREFIX, _held, _sweep

ROOT = Path(__file__).parents[2]
DEEP = 1500


def nest(folder: Path, depth: int, name: str) -> None:
    """Make folders in folders with a file in the innermost, from within, as a candidate can."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        for _ in range(depth):
            Path(name).mkdir()
            os.chdir(name)
        Path("large").write_bytes(bytes(3 << 20))
    finally:
        os.fchdir(before)
        os.close(before)


@pytest.mark.parametrize(("depth", "name"), [(DEEP, "d"), (30, "n" * 250), (DEEP, "nn" * 9)])
def test_folders_in_folders_are_counted_and_removed(depth: int, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    nest(folder, depth, name)
    (folder / "link").symlink_to(tmp_path)
    assert folder_bytes(str(folder), 1 << 20) > 1 << 20
    assert empty(str(folder))
    assert list(folder.iterdir()) == []
    assert tmp_path.is_dir()


def test_closed_folders_are_removed_and_count_as_too_much_where_they_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)
    if os.geteuid():
        assert folder_bytes(str(folder), 1 << 20) > 1 << 20
    assert empty(str(folder))


def test_what_killed_supervisors_left_is_swept_and_what_is_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, used, other = (tmp_path / name for name in (f"{WORK_PREFIX}left", f"{WORK_PREFIX}used", "other"))
    for folder in (left, used, other):
        (folder / "in").mkdir(parents=True)
    (tmp_path / f"{WORK_PREFIX}link").symlink_to(other)
    with _held(used):
        _sweep()
    assert not left.exists()
    assert (used / "in").exists()
    assert (other / "in").exists()


def test_tasks_of_the_trainer_are_hidden_as_problems_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(ROOT))  # as if both packages were installed there
    rules = reading_rules(paths.python_paths(), paths.OWN)
    readable = [path for path, names_only in rules if not names_only]
    for package in ("evovpo", "trainer"):
        folder = ROOT / package
        assert folder.is_dir()
        assert not any(folder == Path(path) or Path(path) in folder.parents for path in readable)
        assert not any(Path(path).is_relative_to(folder) for path in readable)
    assert str(ROOT / "docs") in readable


def test_no_hidden_file_is_copied_or_linked_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("evaluator.py", "runs.db"):
        (folder / name).write_text(name)
    (folder / "alias").symlink_to(folder / "runs.db")
    (tmp_path / "link").symlink_to(folder)
    for most in (paths.COPIED_FILES, 0):  # copied file by file, or linked because it is large
        monkeypatch.setattr(paths, "COPIED_FILES", most)
        entries, _ = paths.project_copy(tmp_path / "link", [str(tmp_path / "link" / "runs.db")])
        assert [name for name, _, _ in entries] == ["evaluator.py"]
