"""Fixtures: a tiny model in a folder, and a server of it that is as good as new for each test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, serve
from tiny_models import write_tiny_folder

from evovpo.config import ProposerConfig
from evovpo.proposers.openai import OpenAIProposer


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="session")
def running_server(tiny_folder: Path) -> Iterator[tuple[FakeServer, str]]:
    server = FakeServer(tiny_folder)
    with serve(server) as url:
        yield server, url


@pytest.fixture
def server(running_server: tuple[FakeServer, str]) -> FakeServer:
    """The server as if it had just been started."""
    found, _ = running_server
    found.restart()
    return found


@pytest.fixture
def url(running_server: tuple[FakeServer, str], server: FakeServer) -> str:
    return running_server[1]


def make_openai(url: str, **options: Any) -> OpenAIProposer:
    """Return a proposer of the model at an address, which waits for nothing."""
    settings = {"base_url": url, "model": "base", "endpoint": "completions", "patience_seconds": 0}
    settings |= {name: options.pop(name) for name in ProposerConfig.model_fields if name in options}
    return OpenAIProposer(ProposerConfig(**settings), **{"wait_seconds": 0.001, **options})
