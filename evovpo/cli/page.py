"""The commands `evovpo serve` and `evovpo export`."""

from __future__ import annotations

import contextlib
import multiprocessing
import secrets
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evovpo.cli import options
from evovpo.cli.options import flag, option
from evovpo.cli.terminal import say, writing
from evovpo.errors import ConfigError
from evovpo.experiments.pool import end_with_parent

if TYPE_CHECKING:
    from evovpo.page.read_api import Record

app = typer.Typer()
Serve = Annotated[bool, flag("--serve", "Show progress in the browser, at the printed address.")]


@app.command("serve", rich_help_panel="Runs")
def serve(
    store_url: options.StoreUrl = None,
    port: Annotated[int, option("P", "Port to listen on; 0 chooses a free one.", min=0, max=65535)] = 8090,
    host: Annotated[
        str, option("HOST", "Address to listen on; the URL has a token if other users can reach the server.")
    ] = "127.0.0.1",
    report: Annotated[str | None, option("FILE|SUITE", "Batch whose report is shown too.")] = None,
    no_browser: Annotated[bool, flag("--no-browser", "Do not open a browser.")] = False,
) -> None:
    """Show all runs of a store in the browser, during the runs and afterwards.

    Prints the address. The page is read-only. Ctrl-C stops the server.

    [dim]Examples:[/dim]

    evovpo serve

    evovpo serve --store runs.db --port 8091 --no-browser

    evovpo serve --store comparison.db --report comparison.toml
    """
    import webbrowser

    from evovpo.experiments.batch_file import read_batch
    from evovpo.page.batch_report import batch_report

    _require_ui()

    def ready(address: str, has_token: bool) -> None:
        say(address)
        if not no_browser and not has_token:  # the command line would reveal it
            webbrowser.open(address)

    if report is not None:
        read_batch(report)  # raises its errors before the server starts
    shown = None if report is None else partial(batch_report, report, store_url)
    _serve(store_url, host, port, shown, ready)


@app.command("export", rich_help_panel="Runs")
def export(
    run: options.RunName,
    store_url: options.StoreUrl = None,
    out: Annotated[
        Path | None, option("FILE", "Where to write.", *("--out", "-o"), default="evovpo-out/RUN.html")
    ] = None,
) -> None:
    """Export the page of a run as one HTML file that works offline.

    [dim]Example:[/dim]  evovpo export latest -o run.html
    """
    from evovpo.page.export import export_html
    from evovpo.page.page_store import Source
    from evovpo.runs.stored import find_run

    with contextlib.closing(Source(store_url, update_seconds=float("inf"))) as source:
        run_id = find_run(source.store(), run)
        page, detailed, programs = export_html(source, run_id)
        path = options.written_to(out, f"{run_id}.html")
        with writing(path) as file:
            file.write(page)
    left_out = "" if detailed == programs else f", {detailed} of {programs} programs with their details"
    say(f"Page of run {run_id} written to {path}{left_out}")


@contextlib.contextmanager
def page_beside(url: str | None, report: Callable[[], Record] | None = None) -> Iterator[None]:
    """Serve the page of a store from another process during a `with` block. `report` must be picklable."""
    _require_ui()
    context = multiprocessing.get_context("spawn")
    is_said = context.Event()
    process = context.Process(target=_serve_beside, args=(url, report, is_said), daemon=True)
    process.start()
    while process.is_alive() and not is_said.wait(0.1):
        pass
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _serve_beside(url: str | None, report: Callable[[], Record] | None, is_said: Event) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()

    def ready(address: str, _: bool) -> None:
        say(f"page: {address}", stderr=True)
        is_said.set()

    _serve(url, "127.0.0.1", 0, report, ready)


def _serve(
    url: str | None,
    host: str,
    port: int,
    report: Callable[[], Record] | None,
    ready: Callable[[str, bool], None],
) -> None:
    from evovpo.page.page_server import application, needs_token, serve
    from evovpo.page.page_store import Source
    from evovpo.page.reports import LiveReport

    token = secrets.token_urlsafe(18) if needs_token(host) else None
    with contextlib.closing(Source(url)) as source, contextlib.suppress(KeyboardInterrupt):
        app = application(source, token, report and LiveReport(report))
        serve(app, host, port, token, lambda address: ready(address, token is not None))


def _require_ui() -> None:
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(f"the page needs {names}, not installed here; install it: pip install 'evovpo[ui]'")
