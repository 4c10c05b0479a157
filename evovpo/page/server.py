"""The web server of the page: the read API, the page's own files, and who may see them.

Only the files named here are served, none by a path of the request. A browser is told to run the page's own
script and nothing else, whatever a store holds.
"""

import json
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evovpo.errors import ConfigError, RunHeldError, StoreError
from evovpo.page import records
from evovpo.page.records import MOST_ROWS, SORTS, NotStoredError, Page, Record
from evovpo.page.source import Source
from evovpo.types import RunStatus

ASSETS = Path(__file__).parent / "assets"
_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/views.js": ("views.js", "text/javascript"),
    "/page.js": ("page.js", "text/javascript"),
}
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
_MOST_OFFSET = 10**9

Answer = Callable[[Source, Request], Record]


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server that listens at `host`."""
    return host in _LOCAL


def application(
    source: Source, token: str | None = None, *, allow_actions: bool = False, lifespan: Any = None
) -> Starlette:
    """Return the web application over a store.

    With a token every request must bring it: as `?token=` once, which a cookie then keeps, or as a bearer.
    Without one, only requests that were sent to this machine by name are answered, so that a page from
    elsewhere cannot read the store by a name of its own for this address. Actions need a token too.
    """
    if allow_actions and not token:
        raise ConfigError("actions on the page need a token; expected one beside --allow-actions")
    routes = [
        *(Route(path, _file(*file)) for path, file in _FILES.items()),
        Route("/api/runs", _answer(source, _runs, "offset", "limit", "problem", "status")),
        Route("/api/runs/{run}", _answer(source, _run, actions=allow_actions)),
        Route("/api/runs/{run}/programs", _answer(source, _programs, "offset", "limit", "sort")),
        Route("/api/runs/{run}/lineage", _answer(source, _lineage, "program")),
        Route("/api/programs/{program}", _answer(source, _program, "run")),
        Route(
            "/api/policies",
            _answer(source, lambda *_: records.policies_record(source), actions=allow_actions),
        ),
    ]
    if allow_actions:
        routes += [
            Route("/api/runs/{run}/stop", _answer(source, _stop), methods=["POST"]),
            Route("/api/runs/{run}/resume", _answer(source, _resume), methods=["POST"]),
            Route("/api/policies/{number:int}/serve", _answer(source, _serve), methods=["POST"]),
        ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused}, lifespan=lifespan)
    app.add_middleware(Guard, token=token)
    return app


class Guard:
    """Middleware: who may ask, and what browsers are told about every answer."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is allowed, refuse any other."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer for who may not ask, or that keeps a token that came in the address."""
        site, origin = (request.headers.get(name) for name in ("sec-fetch-site", "origin"))
        # Browsers tell the site to trustworthy addresses only, and the origin to all.
        own_origin = not origin or origin.rpartition("//")[2] == request.headers.get("host")
        if request.method != "GET" and not (site == "same-origin" if site else own_origin):
            return _error(403, "an action must come from this page itself")
        if self._token is None:
            host = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]")
            return (
                None if is_local(host) else _error(403, f"asked as {host!r}; expected localhost or 127.0.0.1")
            )
        given = request.query_params.get("token")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        known = given or request.cookies.get(_COOKIE) or bearer
        if not secrets.compare_digest(known.encode(), self._token.encode()):
            return _error(
                401, "this page needs the token that `evovpo serve` printed in its address: ?token=..."
            )
        if given and request.url.path == "/":
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(_COOKIE, given, httponly=True, samesite="strict")
            return answer
        return None


def serve(
    source: Source,
    host: str,
    port: int,
    token: str | None,
    on_ready: Callable[[str], None],
    *,
    allow_actions: bool = False,
) -> None:
    """Serve until Ctrl-C; `on_ready` is told the address once requests are answered.

    Port 0 takes a free one. Raises ConfigError if the port cannot be had.
    """
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be listened at ({error.strerror}); give another --port"
        ) from error
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")

    @asynccontextmanager
    async def tell_ready(_: Starlette) -> AsyncIterator[None]:
        on_ready(address)  # the socket listens already: whoever asks from now on is answered
        yield

    app = application(source, token, allow_actions=allow_actions, lifespan=tell_ready)
    with listener:
        uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none")).run(sockets=[listener])


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response((ASSETS / name).read_bytes(), media_type=kind)

    return answer


def _answer(source: Source, read: Answer, *parameters: str, **extra: Any) -> Callable[[Request], Response]:
    """Return an endpoint that answers with a record, and with one clear error where there is none."""

    def answer(request: Request) -> Response:
        try:
            unknown = set(request.query_params) - {*parameters, "token"}
            if unknown:
                expected = ", ".join(parameters) or "none"
                raise BadRequestError(f"unknown parameter {min(unknown)!r}; expected {expected}")
            return json_response({**read(source, request), **extra})
        except BadRequestError as error:
            return _error(400, str(error))
        except NotStoredError as error:
            return _error(404, str(error))
        except RunHeldError as error:
            return _error(409, str(error))
        except StoreError as error:
            source.close()  # what its connections know of a file that was damaged stays wrong
            return _error(503, str(error))

    return answer


class BadRequestError(ValueError):
    """A parameter that is not what its documentation says."""


def json_response(record: Record, status: int = 200) -> Response:
    """Return a record as JSON in ASCII: half of a surrogate pair in a stored text is no fault."""
    return Response(json.dumps(record, separators=(",", ":")), status, media_type="application/json")


def _runs(source: Source, request: Request) -> Record:
    status = request.query_params.get("status", "")
    if status and status not in list(RunStatus):
        raise BadRequestError(f"status is {status!r}; expected one of {', '.join(RunStatus)}")
    return records.runs_record(source, _page(request, 100), request.query_params.get("problem", ""), status)


def _run(source: Source, request: Request) -> Record:
    return records.run_record(source, request.path_params["run"])


def _programs(source: Source, request: Request) -> Record:
    sort = request.query_params.get("sort", "order")
    if sort.removeprefix("-") not in SORTS:
        raise BadRequestError(
            f"sort is {sort!r}; expected one of {', '.join(SORTS)}, or one of them after a -"
        )
    return records.programs_record(source, request.path_params["run"], _page(request, 100), sort)


def _lineage(source: Source, request: Request) -> Record:
    return records.lineage_record(source, request.path_params["run"], request.query_params.get("program"))


def _program(source: Source, request: Request) -> Record:
    return records.program_record(source, request.path_params["program"], request.query_params.get("run"))


def _stop(source: Source, request: Request) -> Record:
    run = records.head_of(source, request.path_params["run"]).run
    if not source.store().interrupt(run.id):
        raise RunHeldError(f"run {run.id} is {run.status}; only one that is running can be stopped")
    return {"run": run.id, "status": RunStatus.INTERRUPTED}


def _resume(source: Source, request: Request) -> Record:
    """Take a run up in a process of its own, which outlives this one and says on its standard error."""
    run = records.head_of(source, request.path_params["run"]).run
    if run.status.is_finished or run.status is RunStatus.RUNNING:
        raise RunHeldError(f"run {run.id} is {run.status}; only one that is interrupted or failed can go on")
    command = [sys.executable, "-m", "evovpo", "resume", run.id, "--store", source.given]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
    threading.Thread(target=subprocess.run, args=(command,), kwargs=options, daemon=True).start()
    return {"run": run.id, "status": RunStatus.RUNNING}


def _serve(source: Source, request: Request) -> Record:
    number = request.path_params["number"]
    if number not in [version.number for version in source.store().policy_versions()]:
        raise NotStoredError(f"no policy version {number} is stored; /api/policies lists those that are")
    return {"served": number, "changed": source.store().serve(number, "chosen on the page")}


def _page(request: Request, limit: int) -> Page:
    bounds = {"offset": (0, 0, _MOST_OFFSET), "limit": (limit, 1, MOST_ROWS)}
    return Page(**{name: _number(request, name, *bound) for name, bound in bounds.items()})


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    given = request.query_params.get(name, str(default))
    is_number = given.isascii() and given.isdigit() and len(given) <= 10
    if not is_number or not least <= int(given) <= most:
        raise BadRequestError(f"{name} is {given[:40]!r}; expected a whole number from {least} to {most}")
    return int(given)


def _error(status: int, message: str) -> Response:
    return json_response({"error": message}, status)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse({"error": f"{request.method} {request.url.path}: {error}"}, status)
