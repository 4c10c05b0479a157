"""The web server of the page: routes, static files and access control."""

import json
import os
import pwd
import re
import secrets
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from evovpo.errors import ConfigError, StoreError
from evovpo.page import read_api
from evovpo.page.export import ASSETS, SCRIPTS
from evovpo.page.page_store import Source
from evovpo.page.read_api import MOST_ROWS, SORTS, NotStoredError, Record
from evovpo.page.reports import LiveReport
from evovpo.types import MEMORISED, ParseStatus, RunStatus, Status

_FILES = {"/": "index.html", **{f"/{name}": name for name in ("page.css", *SCRIPTS)}}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_COOKIE = "evovpo_token"
_LOCAL = ("localhost", "127.0.0.1", "::1")

Allowed = range | Sequence[str] | None
"""Valid numbers or words of a query parameter; None if any text is valid."""
_Queries = dict[str, tuple[Callable[..., Record | Response], dict[str, Allowed]]]


def needs_token(host: str) -> bool:
    """True if other users, on this machine or elsewhere, can reach a server at `host`."""
    return host not in _LOCAL or any(
        1000 <= one.pw_uid < 60_000 and one.pw_uid != os.getuid()
        for one in pwd.getpwall()
        if not one.pw_shell.endswith(("nologin", "false"))
    )


def application(source: Source, token: str | None = None, report: LiveReport | None = None) -> Starlette:
    """Return the web application for a store and, if given, for the report of a batch.

    If `token` is given, every request must contain the token, as bearer token, as `?token=` or in a cookie.
    Otherwise, only requests addressed to localhost are answered, which prevents DNS rebinding.
    """
    queries: _Queries = {
        **_READ_API,
        "/api/page": (lambda _: {"report": report is not None}, {}),
        "/api/report": (lambda _: {"report": report.record() if report else None}, {}),
        "/healthz": (lambda _: {"schema": source.store().schema_version()}, {}),
    }
    routes = [
        *(Route(path, partial(_file, ASSETS / name)) for path, name in _FILES.items()),
        *(Route(path, _endpoint(source, *query)) for path, query in queries.items()),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.add_middleware(BaseHTTPMiddleware, dispatch=partial(_guard, token))
    return app


async def _guard(token: str | None, request: Request, call_next: RequestResponseEndpoint) -> Response:
    answer = _refusal(token, request) or await call_next(request)
    answer.headers.update(_HEADERS)
    return answer


def _refusal(token: str | None, request: Request) -> Response | None:
    if token is None:
        host = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]")
        return None if host in _LOCAL else _error(403, f"asked as {host!r}; expected localhost or 127.0.0.1")
    given = request.query_params.get("token")
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    known = given or request.cookies.get(_COOKIE) or bearer
    if not secrets.compare_digest(known.encode(), token.encode()):
        return _error(401, "this page needs the token that `evovpo serve` printed in its address: ?token=...")
    if given and request.url.path == "/":
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(_COOKIE, given, httponly=True, samesite="strict")
        return answer
    return None


def serve(app: Starlette, host: str, port: int, token: str | None, on_ready: Callable[[str], None]) -> None:
    """Serve `app` until Ctrl-C. First call `on_ready` with the page's address. Port 0 means any free port."""
    family, shown = (socket.AF_INET6, f"[{host}]") if ":" in host else (socket.AF_INET, host)
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        advice = f"cannot listen on {host}:{port} ({error.strerror}); give another --port"
        raise ConfigError(advice) from error
    address = f"http://{shown}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
    on_ready(address)  # the socket listens already, so no request is lost
    with listener:
        uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).run(sockets=[listener])


def _file(path: Path, request: Request) -> Response:
    return FileResponse(path)


def _endpoint(
    source: Source, read: Callable[..., Record | Response], allowed: dict[str, Allowed]
) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        given = {name: value for name, value in request.query_params.items() if name != "token"}
        try:
            if unknown := given.keys() - allowed:
                expected = ", ".join(allowed) or "none"
                raise BadRequestError(f"unknown parameter {min(unknown)!r}; expected {expected}")
            parsed = {name: _parsed(name, value, allowed[name]) for name, value in given.items()}
            found = read(source, **request.path_params, **parsed)
            return found if isinstance(found, Response) else json_response(found)
        except (BadRequestError, StoreError) as error:
            status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 503)
            if status == 503:
                source.close()  # open connections would keep the state of a damaged file
            return _error(status, str(error))

    return answer


class BadRequestError(ValueError):
    """Error for an invalid query parameter."""


_STATUSES = {BadRequestError: 400, NotStoredError: 404}


def json_response(record: Record, status: int = 200) -> Response:
    return Response(json.dumps(record, separators=(",", ":")), status, media_type="application/json")


def _parsed(name: str, given: str, allowed: Allowed) -> str | int:
    if isinstance(allowed, range):
        if re.fullmatch("[0-9]{1,10}", given) and int(given) in allowed:
            return int(given)
        expected = f"a whole number from {allowed.start} to {allowed.stop - 1}"
    else:
        if allowed is None or given in allowed:
            return given
        expected = f"one of {', '.join(allowed)}"
    raise BadRequestError(f"{name} is {given[:40]!r}; expected {expected}")


_COUNT = range(10**9 + 1)
_PAGED: dict[str, Allowed] = {"offset": _COUNT, "limit": range(1, MOST_ROWS + 1)}
_SORTED: dict[str, Allowed] = {"sort": [*SORTS, *(f"-{name}" for name in SORTS)]}
_OF_PROGRAMS: dict[str, Allowed] = {"status": list(Status), "island": _COUNT, "policy_version": _COUNT}
_READ_API: _Queries = {
    "/api/runs": (read_api.runs_record, {**_PAGED, "problem": None, "status": [*RunStatus, MEMORISED]}),
    "/api/runs/{run_id}": (read_api.run_record, {}),
    "/api/runs/{run_id}/programs": (read_api.programs_record, {**_PAGED, **_SORTED, **_OF_PROGRAMS}),
    "/api/runs/{run_id}/answers": (read_api.answers_record, {**_PAGED, "parse_status": list(ParseStatus)}),
    "/api/runs/{run_id}/lineage": (read_api.lineage_record, {"program": None}),
    "/api/programs/{program_id}": (read_api.program_record, {"run": None}),
    "/api/policies": (read_api.policies_record, {}),
}


def _error(status: int, message: str) -> Response:
    return json_response({"error": message}, status)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _error(status, f"{request.method} {request.url.path}: {error}")
