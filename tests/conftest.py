"""Tests marked `isolation(level)` run where the machine offers that level; skipped there, they fail.

Hypothesis draws the same examples every time, and takes as long for one as the machine needs.
Files that take long begin first: workers run files whole, and one that begins last goes on alone.
"""

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from shell import Shell

from evovpo.sandbox.probe import Level, probe

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def only_own_logging() -> Iterator[None]:
    """OpenEvolve logs everything to the standard error of the test in which it was imported."""
    yield
    root = logging.getLogger()
    for handler in [one for one in root.handlers if type(one) is logging.StreamHandler]:
        root.removeHandler(handler)


LONGEST = (
    "test_readme.py",
    "test_loop.py",
    "test_study_file.py",
    "test_benchmarks.py",
    "test_page_browser.py",
    "test_examples.py",
    "test_retrain.py",
    "test_train.py",
    "test_publish.py",
    "test_batch.py",
    "test_store.py",
    "test_grpo.py",
    "test_cli.py",
    "test_resume.py",
    "test_pretrain.py",
    "test_imitate.py",
)
"""Files that take long, longest first."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="evovpo-state-")  # where runs are marked as ours
    config.option.loadscopereorder = False  # pytest-xdist would begin with the files of most tests


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for level in levels_of(item):
        if level not in probe().levels:
            pytest.skip(f"this machine does not offer {level}: {probe().describe()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    offered = [level for level in levels_of(item) if level in probe().levels]
    if report.skipped and offered:
        report.outcome = "failed"
        report.longrepr = f"skipped, although this machine offers {', '.join(offered)}: {report.longrepr}"
    return report


def levels_of(item: pytest.Item) -> list[Level]:
    """Return the isolation levels that a test is about."""
    return [mark.args[0] for mark in item.iter_markers("isolation")]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(level, marks=pytest.mark.isolation(level))
        for level in (Level.LANDLOCK_SECCOMP, Level.BWRAP_LANDLOCK_SECCOMP)
    ],
)
def level(request: pytest.FixtureRequest) -> Level:
    """Return each level at which evaluators may run with their candidates, as far as the machine has it."""
    wanted: Level = request.param
    return wanted


@pytest.fixture
def evovpo(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The command line, in an empty folder and 100 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Shell(capsys)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return what gives commands, with a key for servers."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    return Shell(capsys)


@pytest.fixture(scope="module")
def quiet_trl() -> Iterator[None]:
    """TRL reports its use to Hugging Face outside CI, and warns of hooks that it calls experimental.

    Every training ends with a garbage collection, which takes longer than these trainings do while it
    looks at all that the imports left.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CI", "1")
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        gc.freeze()
        yield
        gc.unfreeze()
