"""Pictures of all views of the page: `python tests/bench/page_pictures.py [--out FOLDER]`.

Serves a store with five runs of the built-in model, opens the newest in Chromium
without a window, and writes every view 1400 and 390 pixels wide, light and dark. Needs the extra `dev` and a
Chromium (`EVOVPO_CHROMIUM` or on the path).
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

VIEWS = {
    "runs": "#/runs",
    "overview": "#/run/{run}",
    "lineage": "#/run/{run}/lineage",
    "programs": "#/run/{run}/programs",
    "answers": "#/run/{run}/answers",
    "population": "#/run/{run}/population",
    "settings": "#/run/{run}/settings",
    "program": "#/program/{program}?run={run}",
    "training": "#/policies",
    "compare": "#/compare?runs={runs}",
}
"""Name of a picture -> address of a view."""
SIZES = {"wide": (1400, 900), "narrow": (390, 844)}
PROBLEM = "strings/name-short-form"
RUNS = (
    *(["--seed", str(seed), "-n", "150"] for seed in range(1, 5)),
    ["-n", "300", "--set", "search.stop_when_solved=false"],
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/page"))
    parser.add_argument("--only", default=",".join(VIEWS), help="names of views, with commas between")
    arguments = parser.parse_args()
    chromium = os.environ.get("EVOVPO_CHROMIUM") or shutil.which("chromium")
    arguments.out.mkdir(parents=True, exist_ok=True)
    evovpo = [sys.executable, "-m", "evovpo"]
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "runs.db"))
        for options in RUNS:
            whole = [*evovpo, "evolve", PROBLEM, *options, "--store", store]
            subprocess.run(whole, cwd=folder)  # one that memorised its rows ends with code 5
        with Store.open(store, create=False) as opened:
            runs = [head.run.id for head in opened.run_heads(0, 5)]
            program = opened.run_summary(runs[0]).best_program_id
        names = {"run": runs[0], "runs": ",".join(runs), "program": program}
        serve = [*evovpo, "serve", "--store", store, "--port", "0", "--no-browser"]
        with (
            subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server,
            sync_playwright() as player,
        ):
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for scheme in ("light", "dark"):
                    for size, (width, height) in SIZES.items():
                        viewport = {"width": width, "height": height}
                        page = browser.new_page(color_scheme=scheme, viewport=viewport)
                        for name in arguments.only.split(","):
                            page.goto("about:blank")
                            page.goto(address + VIEWS[name].format(**names))
                            page.wait_for_selector("main h1", timeout=120_000)
                            # A function: an expression would need `eval`, which the page forbids.
                            read = "() => !document.body.innerText.includes('reading')"
                            page.wait_for_function(read, timeout=120_000)
                            few = few_colours(BytesIO(page.screenshot())).convert("RGB")
                            few.save(arguments.out / f"{name}-{size}-{scheme}.webp", lossless=True)
                        page.close()
                browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
