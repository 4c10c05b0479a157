"""The recording of README: `python tests/bench/terminal_recording.py [--out docs/terminal.svg]`.

Runs a search, kills it (SIGKILL), resumes it, verifies it, opens its page, and writes what was printed as an
animated SVG: the lines in their order, with pauses cut to a second, and at the end the page itself.
"""

import argparse
import base64
import contextlib
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

PROBLEM = "strings/name-short-form"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "page" / "overview-wide-dark.webp"
COLUMNS, ROWS, LINE, CHARACTER = 100, 26, 18, 8.0
PAUSE_SECONDS, LAST_SECONDS = 1.0, 6.0


class Line(NamedTuple):
    seconds: float
    text: str


class Terminal:
    """What was printed so far, with the clock of the recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = 0.5
        self.lines: list[Line] = []

    def add(self, text: str, pause: float) -> None:
        self.clock += min(pause, PAUSE_SECONDS)
        self.lines += [
            Line(self.clock, text[at : at + COLUMNS]) for at in range(0, max(1, len(text)), COLUMNS)
        ]

    def stored(self) -> int:
        with contextlib.closing(sqlite3.connect(self.folder / "evovpo.db")) as store:
            return int(store.execute("SELECT COUNT(*) FROM tells").fetchone()[0])

    def run(self, command: str, kill_after: int = 0, shown: slice = slice(None)) -> None:
        """Run a command of evovpo and print some of its lines; kill it once so many answers are stored."""
        self.add(f"$ {command}", PAUSE_SECONDS)
        whole = [sys.executable, "-m", *shlex.split(command)]
        environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
        found: list[tuple[float, str]] = []
        with subprocess.Popen(
            whole, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            before = time.monotonic()
            for line in process.stdout:
                found.append((time.monotonic() - before, line.rstrip()))
                before = time.monotonic()
                if kill_after and re.search(r"\d of \d+ evaluations", line):
                    while process.poll() is None and self.stored() < kill_after:
                        time.sleep(0.02)
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode != (-signal.SIGKILL if kill_after else 0):
            raise SystemExit(
                f"{command} ended with {process.returncode}: " + "\n".join(text for _, text in found)
            )
        for pause, text in [one for one in found if one[1]][shown]:
            self.add(text, pause if kill_after else 0.15)
        if kill_after:
            self.add("Killed                                        (kill -9)", PAUSE_SECONDS)


def animated(lines: list[Line], picture: bytes) -> str:
    """Return an SVG in which lines appear at their seconds, scroll, and make room for a picture."""
    total = lines[-1].seconds + PAUSE_SECONDS + LAST_SECONDS
    width, height = COLUMNS * CHARACTER + 24, ROWS * LINE + 24

    def appears(seconds: float) -> str:
        times = f'keyTimes="0;{seconds / total:.4f};1" dur="{total:.1f}s" repeatCount="indefinite"'
        return f'<animate attributeName="opacity" calcMode="discrete" values="0;1;1" {times}/>'

    rows = [
        f'<text y="{(row + 1) * LINE}" class="{"asked" if line.text.startswith("$") else ""}">'
        f"{escape(line.text)}{appears(line.seconds)}</text>"
        for row, line in enumerate(lines)
    ]
    places = [(line.seconds, -max(0, row + 1 - ROWS) * LINE) for row, line in enumerate(lines)]
    values = ";".join(["0,0", *(f"0,{place}" for _, place in places)])
    times = ";".join(["0", *(f"{seconds / total:.4f}" for seconds, _ in places)])
    scroll = (
        f'<animateTransform attributeName="transform" type="translate" calcMode="discrete" values="{values}" '
        f'keyTimes="{times}" dur="{total:.1f}s" repeatCount="indefinite"/>'
    )
    shown = base64.b64encode(picture).decode()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        'aria-label="A search is killed, resumed, verified and looked at">\n'
        "<style>text{font:13px ui-monospace,monospace;fill:#d6d7d9;white-space:pre}"
        ".asked{fill:#7cc4f2}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#16181c"/>\n'
        f'<svg x="12" y="6" height="{ROWS * LINE + 8}">'
        f"<g>{scroll}\n" + "\n".join(rows) + "\n</g></svg>\n"
        f'<image href="data:image/webp;base64,{shown}" width="{width:.0f}" height="{height}" '
        f'preserveAspectRatio="xMidYMin slice">{appears(total - LAST_SECONDS)}</image>\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/terminal.svg"))
    parser.add_argument("--evaluations", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder))
        whole = "--set search.stop_when_solved=false"
        budget = options.evaluations
        terminal.run(f"evovpo evolve {PROBLEM} -n {budget} {whole}", kill_after=budget // 10)
        terminal.run("evovpo resume latest", shown=slice(-9, None))
        terminal.run("evovpo replay latest --verify", shown=slice(1))
        terminal.add("$ evovpo serve", PAUSE_SECONDS)
        terminal.add("http://127.0.0.1:8237/", PAUSE_SECONDS)
    options.out.write_text(animated(terminal.lines, PICTURE.read_bytes()), encoding="utf-8")


if __name__ == "__main__":
    main()
