"""Two processes never search one run."""

import os
from pathlib import Path

import pytest
from scripted_proposer import ScriptedProposer
from toy_runs import HARD, toy_script

from evovpo.config import Config, SearchConfig
from evovpo.errors import StoreError
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import only_searcher, resume, start
from evovpo.store import Store


def test_the_lock_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with only_searcher("store", "run"):
        assert len(list((tmp_path / f"evovpo-{os.getuid()}").iterdir())) == 1
    assert list((tmp_path / f"evovpo-{os.getuid()}").iterdir()) == []


def test_a_run_cannot_be_resumed_while_it_is_searched(tmp_path: Path) -> None:
    said: list[str] = []
    path = str(tmp_path / "runs.db")

    def resume_too(progress: Progress) -> None:
        if not said:
            with Store.open(path) as other, pytest.raises(StoreError) as error:
                resume("r", other, ScriptedProposer(toy_script()))
            said.append(str(error.value))

    settings = Config(search=SearchConfig(evaluations=40, in_flight=1, stop_when_solved=False))
    with Store.open(path) as store:
        start(
            RunRequest(HARD, settings, run_id="r"), store, ScriptedProposer(toy_script()), on_tell=resume_too
        )
        assert f"run r is being searched by process {os.getpid()}" in said[0]
        assert resume("r", store).evaluations == 40
