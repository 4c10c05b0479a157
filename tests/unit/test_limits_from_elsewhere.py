"""Bodies, files and names from elsewhere have limits, and say nothing that they should not."""

from http.server import BaseHTTPRequestHandler
from io import StringIO
from pathlib import Path

import pytest
from http_servers import answering_all
from rich.console import Console

from evovpo.errors import ConfigError, PolicyError, StoreError
from evovpo.problem.openevolve.config_file import read_settings
from evovpo.proposers import fetch
from evovpo.proposers.policy_server import VLLMServer
from evovpo.reports.text import plain_table
from evovpo.store.database import parse_url


def test_a_key_does_not_follow_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret")
    heard: list[str | None] = []

    def listen(request: BaseHTTPRequestHandler) -> None:
        heard.append(request.headers["Authorization"])
        request.send_error(404)

    with answering_all(listen) as other:

        def redirect(request: BaseHTTPRequestHandler) -> None:
            request.send_response(302)
            request.send_header("Location", f"{other}/models")
            request.send_header("Content-Length", "0")
            request.end_headers()

        with answering_all(redirect) as url:
            assert fetch.fetch(f"{url}/models", None, "OPENAI_API_KEY", 5.0)[0] == 302
            with pytest.raises(ConfigError, match="no OpenAI-compatible server"):
                fetch.check_model(url, "m", "OPENAI_API_KEY", 5.0)
    assert heard == []


def test_an_endless_answer_ends_at_a_limit_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_MOST_BYTES", 1 << 20)

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(b"x" * (1 << 16))
        except OSError:
            pass

    with answering_all(endless) as url, pytest.raises(OSError, match="more than 1 MiB"):
        fetch.fetch(f"{url}/models", None, "OPENAI_API_KEY", 5.0)


def test_an_answer_that_nests_too_deep_is_no_answer() -> None:
    assert fetch.json_object("[" * 100_000) is None
    assert fetch.reason("[" * 100_000).startswith("[[")


@pytest.mark.parametrize("url", ["http://h/v1?api-key=secret", "http://u:secret@h/v1"])
def test_an_address_that_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as refused:
        VLLMServer(url, "m")
    assert "secret" not in str(refused.value)


def test_a_store_url_with_an_unescaped_password_is_one_error_without_it() -> None:
    with pytest.raises(StoreError, match="%2F") as refused:
        parse_url("postgresql+psycopg://u:12:cr@h:x/n")
    assert "cr" not in str(refused.value).replace("PASSWORD", "").partition(";")[0]
    assert refused.value.__cause__ is None


def test_aliases_that_blow_up_are_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "config.yaml").write_text("\n".join([*lines, "max_iterations: 3"]))
    with pytest.raises(ConfigError, match="aliases repeat them"):
        read_settings(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("a: &a [*a]\nmax_iterations: 3")
    with pytest.raises(ConfigError):
        read_settings(tmp_path / "config.yaml")


def test_no_text_of_a_table_steers_a_terminal() -> None:
    table = plain_table("path")
    table.add_row("\x1b]52;c;aGk=\x07\x1b[2J")
    out = Console(file=StringIO(), force_terminal=True, color_system=None)
    out.print(table)
    assert "]52" in out.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b]" not in out.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[2J" not in out.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_model_with_code_of_its_own_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    from evovpo.proposers.local import load_model
    from evovpo.types import PolicyVersion

    for file in ("config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / file).write_text("{}")
    (tmp_path / name).write_text('{"auto_map": {"AutoConfig": "own.Config"}, "model_type": "own"}')
    with pytest.raises(PolicyError, match="which never runs here"):
        load_model(PolicyVersion(0, None, str(tmp_path)))


@pytest.mark.parametrize(
    ("key", "masked"),
    [
        ("a", "Incorrect API key provided: ***, not a; a key '***' in a line"),
        ("sk-0123456789", "Incorrect API key provided: a, not a; a key 'a' in a line"),
        ("", "Incorrect API key provided: a, not a; a key 'a' in a line"),
    ],
)
def test_a_key_of_one_letter_is_masked_only_where_it_is_called_a_key(key: str, masked: str) -> None:
    assert fetch.without_key("Incorrect API key provided: a, not a; a key 'a' in a line", key) == masked
    assert fetch.without_key(f"x{key}y Bearer sk-0123456789.", "sk-0123456789").endswith("Bearer ***.")
