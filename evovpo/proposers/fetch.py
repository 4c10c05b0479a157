"""Sends plain HTTP requests with the API key to a model server, and makes errors readable."""

import http.client
import json
import logging
import os
import re
import urllib.error
import urllib.request
from typing import IO, Any

from evovpo.errors import ConfigError, UnreachableError, nearest_hint

_log = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20
_SECRET_LENGTH = 8
_CHECK_SECONDS = 30.0
_ENDPOINT = re.compile(r"(?<=/v1)/.*|(?:/chat)?/completions$")
KEY_VARIABLE = "OPENAI_API_KEY"


def check_model(base_url: str, name: str, key_variable: str, timeout_seconds: float) -> bool:
    """Check that a server answers and accepts the key; warn if the server does not list the model.

    Return false if the server lists its models without this one. Raises `UnreachableError` if the server does
    not answer, and `ConfigError` for a wrong key or address.
    """
    base_url, timeout_seconds = base_url.rstrip("/"), min(timeout_seconds, _CHECK_SECONDS)
    try:
        status, text = fetch(base_url + "/models", None, key_variable, timeout_seconds)
        if status in (404, 405):
            stem = _ENDPOINT.sub("", base_url)
            for other in [one for one in (stem, f"{stem}/v1") if one != base_url]:
                if fetch(other + "/models", None, key_variable, timeout_seconds)[0] < 400:
                    extra = f": leave out {base_url.removeprefix(stem)}" * (stem != base_url)
                    raise ConfigError(
                        f"{base_url} has no /models, {other} has{extra}; set proposer.base_url={other}"
                    )
    except OSError as error:
        raise UnreachableError(
            f"{base_url} cannot be reached ({error}); is the server running, and is proposer.base_url right?"
        ) from error
    if status in (401, 403):
        raise ConfigError(refused_key(base_url, key_variable, reason(text)))
    if status >= 400:
        return True
    listed = (json_object(text) or {}).get("data")
    if not isinstance(listed, list):
        raise ConfigError(
            f"{base_url} is no OpenAI-compatible server: {base_url}/models answered {text[:80]!r}; check "
            "proposer.base_url, for vLLM http://HOST:PORT/v1"
        )
    names = [str(model.get("id")) for model in listed if isinstance(model, dict)]
    # Some servers list a longer name than the one they accept: models/NAME, NAME:latest.
    is_listed = any(name in (one, one.partition(":")[0], one.rpartition("/")[2]) for one in names)
    if not is_listed:
        _log.warning(
            "%s does not list the model %r and is asked for it all the same; %s; if that fails, name one of "
            "them: --model, models.name, or llm.models of a config.yaml",
            *(base_url, name, nearest_hint(name, names)),
        )
    return is_listed


def refused_key(address: str, variable: str, detail: str) -> str:
    if not os.environ.get(variable):
        return f"{address} wants a key ({detail}), and {variable} is not set; set that environment variable"
    return f"{address} refused the key ({detail}); set the environment variable {variable} to a valid one"


def fetch(
    url: str, body: dict[str, object] | None, key_variable: str, timeout_seconds: float
) -> tuple[int, str]:
    """Send a POST request, or GET if `body` is None. Return the status, and the text without the key.

    Raises `OSError` if there is no valid answer.
    """
    headers = {"Content-Type": "application/json"}
    key = os.environ.get(key_variable, "")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, headers)
        with _OPENER.open(request, timeout=timeout_seconds) as answer:
            status, text = answer.status, _body(answer)
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, _body(error)
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return status, without_key(text, key)


def without_key(text: str, key: str) -> str:
    """Return `text` with `key` replaced by ***.

    A key of fewer than 8 characters is replaced only if it follows the word 'key' or 'bearer'.
    """
    if len(key) >= _SECRET_LENGTH:
        return text.replace(key, "***")
    called = r"(\b(?:bearer|key)\b(?: provided| is)?[\s:='\"`]+)"
    return re.sub(rf"(?i:{called}){re.escape(key)}(?!\w)", r"\1***", text) if key else text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse redirects, because the key must not be sent to another server."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def _body(answer: IO[bytes]) -> str:
    body = answer.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise OSError(f"an answer of more than {_MOST_BYTES >> 20} MiB")
    return body.decode(errors="replace")


def json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def reason(text: str) -> str:
    """Return the message in the body of a refusal, otherwise the start of the body, as one line."""
    try:
        said = json.loads(text, object_hook=_said)
        said = "; ".join(map(str, said)) if isinstance(said, list) else str(said)
    except (ValueError, TypeError, RecursionError):
        said = text
    return " ".join(said.split())[:500] or "no reason given"


def _said(part: dict[str, Any]) -> Any:
    if "loc" in part and "msg" in part:  # FastAPI's: `loc` leads to a field of the request
        field = ".".join(str(name) for name in part["loc"] if name != "body")
        return f"{field!r}: {part['msg']}"
    return part.get("message") or part.get("detail") or part.get("error") or part
