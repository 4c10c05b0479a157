"""Exports a run or a report as one HTML file. The file contains the page and the API answers for the page."""

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

from evovpo.page import read_api
from evovpo.page.page_store import Source
from evovpo.page.read_api import MOST_ROWS, Record

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("charts.js", "views.js", "page.js")
_MOST_BYTES = 4_500_000
_PROGRAMS_A_PART = 50


def export_html(source: Source, run_id: str) -> tuple[str, int, int]:
    """Return a run's page as HTML, the number of programs with details, and the number of all programs.

    A size limit applies to the details: the best program and its ancestors come first, then the others.
    """
    path = f"/api/runs/{run_id}"
    run = read_api.run_record(source, run_id)
    family = read_api.lineage_record(source, run_id)
    listed = read_api.programs_record(source, run_id, limit=MOST_ROWS, sort="best")
    parts = [packed({path: run, f"{path}/lineage": family, f"{path}/programs": listed})]
    named = list(dict.fromkeys(one["program_id"] for part in (family, listed) for one in part["programs"]))
    own = {one["program_id"] for one in listed["programs"]}
    size, detailed = len(parts[0]), 0
    for start in range(0, len(named), _PROGRAMS_A_PART):
        batch = named[start : start + _PROGRAMS_A_PART]
        part = packed({f"/api/programs/{one}": read_api.program_record(source, one, run_id) for one in batch})
        if size + len(part) > _MOST_BYTES:
            break
        parts.append(part)
        size, detailed = size + len(part), detailed + len(own.intersection(batch))
    return document(["run", run_id], parts), detailed, listed["total"]


def packed(answers: dict[str, Record]) -> str:
    """Return API answers, given as {path: answer}, as compressed text for `document`."""
    return base64.b64encode(gzip.compress(json.dumps(answers).encode(), mtime=0)).decode()


def document(home: list[str], parts: list[str]) -> str:
    script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = (ASSETS / "page.css").read_text(encoding="utf-8")
    stored = json.dumps({"home": home, "parts": parts}).replace("<", "\\u003c")
    hashes = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for name, text in (("script", script), ("style", style))
    }
    policy = f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; img-src data:"
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    page = re.sub(r"\n<(script src|link rel=\"stylesheet\").*", "", page)
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n</head>'
    tail = (
        f'<script type="application/json" id="stored">{stored}</script>\n<script>{script}</script>\n</body>'
    )
    return page.replace("</head>", head).replace("</body>", tail)
