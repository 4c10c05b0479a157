"""The pictures of docs/page.md: `python tests/bench/page_pictures.py [--store STORE] [--out FOLDER]`.

Serves a store (by default a new one with one run of the built-in model), opens its newest run in Chromium
without a window, and writes three pictures. Needs the extra `dev` and a Chromium (`EVOVPO_CHROMIUM` or on
the path).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from playwright.sync_api import sync_playwright

from evovpo.reports.pictures import few_colours
from evovpo.store import Store

PICTURES = {
    "overview.png": ("", "light", 1100, 900),
    "lineage.png": ("/lineage", "light", 1100, 700),
    "population.png": ("/population", "dark", 420, 900),
}
"""File -> view of a run, light or dark, width and height in pixels."""
PROBLEM = "strings/name-short-form"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", help="a store with a run (default: one is made)")
    parser.add_argument("--out", type=Path, default=Path("docs/page"))
    arguments = parser.parse_args()
    chromium = os.environ.get("EVOVPO_CHROMIUM") or shutil.which("chromium")
    arguments.out.mkdir(parents=True, exist_ok=True)
    evovpo = [sys.executable, "-m", "evovpo"]
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or str(Path(folder, "runs.db"))
        if arguments.store is None:
            whole = ["--set", "search.stop_when_solved=false"]
            subprocess.run([*evovpo, "evolve", PROBLEM, "-n", "300", "--store", store, *whole], check=True)
        with Store.open(store, create=False) as opened:
            newest = opened.run_heads(0, 1)[0].run.id
        serve = [*evovpo, "serve", "--store", store, "--port", "0", "--no-browser"]
        with (
            subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server,
            sync_playwright() as player,
        ):
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for name, (view, scheme, width, height) in PICTURES.items():
                    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})
                    page.goto(f"{address}#/run/{newest}{view}")
                    page.wait_for_selector("main svg.chart, main svg.graph", timeout=120_000)
                    # A function: an expression would need `eval`, which the page forbids.
                    read = "() => !document.body.innerText.includes('reading:')"
                    page.wait_for_function(read, timeout=120_000)
                    few_colours(BytesIO(page.screenshot())).save(arguments.out / name, optimize=True)
                    page.close()
                browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
