"""The rows of docs/compare.md that run both tools: `python tests/bench/beside_openevolve.py [--json]`.

evovpo and OpenEvolve (of the same environment, or `--openevolve COMMAND`) search one directory with an
evaluator that imports the program, at their defaults, with the same server. It answers after a second, or
at once, with a program that depends on the prompt and on how often it was asked that.

- `requests_a_second`: of a server that takes a second for each; `_of_8` with `parallel_evaluations: 8`.
- `kept_after_kill`: of as many answers as `--calls` when the search was killed (SIGKILL), those stored.
- `asked_with_exits`: every fifth answer is a program that calls `os._exit(1)`; how many calls were made.
- `key_seen`: whether a program could read the key of the model's server.
- `same_twice`: whether one seed gave the same programs twice, one request at a time.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROGRAM = "# EVOLVE-BLOCK-START\nVALUE = 0.1\n# EVOLVE-BLOCK-END\n\n\ndef run():\n    return VALUE\n"
EVALUATOR = """
import importlib.util

def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return {"combined_score": float(program.run())}
"""
KEY = "key-of-the-server"
DEADLY = "import os\n\n\ndef run():\n    os._exit(1)\n"
NOSY = f"import os\n\n\ndef run():\n    return float({KEY!r} in os.environ.values())\n"


class Server:
    """An OpenAI-compatible server that takes `seconds`; every fifth answer is the program `odd`, if any."""

    def __init__(self, seconds: float = 0.0, odd: str = "") -> None:
        self.seconds, self.odd = seconds, odd
        self.times: list[float] = []
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reply(self, prompt: str) -> str:
        with self._lock:
            number = len(self.times)
            self.times.append(time.monotonic() + self.seconds)
            self.asked[prompt] += 1
            key = f"{self.asked[prompt]} {prompt}"
        time.sleep(self.seconds)
        value = random.Random(hashlib.sha256(key.encode()).digest()).random()
        program = self.odd if self.odd and number % 5 == 4 else PROGRAM.replace("0.1", f"{value:.6f}")
        return f"Another value.\n```python\n{program}```\n"

    @contextmanager
    def listening(self) -> Iterator[str]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = server.reply(json.dumps(asked["messages"]))
                choice = {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "stub",
                                   "choices": [choice], "usage": usage}).encode()  # fmt: skip
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(BrokenPipeError):  # whoever asked was killed
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/v1"
        finally:
            http.shutdown()


def command(tool: str, folder: Path, url: str, calls: int, openevolve: str, parallel: int) -> list[str]:
    """Return the command of a search of the project in a folder; `parallel` 0 is each tool's default."""
    files = [str(folder / "initial_program.py"), str(folder / "evaluator.py")]
    (folder / "config.yaml").write_text(
        f"llm: {{api_base: '{url}', primary_model: stub, retries: 0}}\n"
        "diff_based_evolution: false\nrandom_seed: 1\n"
        "evaluator: {timeout: 10, max_retries: 0"
        + (f", parallel_evaluations: {parallel}}}\n" if parallel else "}\n")
    )
    files += ["--config", f"{folder}/config.yaml"]
    if tool == "openevolve":
        return [openevolve, *files, "-i", str(calls), "-o", f"{folder}/out"]
    own = ["--base-url", url, "--model", "stub", "-n", str(calls), "--store", f"{folder}/runs.db"]
    one = ["--set", "search.in_flight=1"] if parallel == 1 else []
    return [sys.executable, "-m", "evovpo", "evolve", *files, *own, *one]


def search(
    tool: str, server: Server, calls: int, openevolve: str, kill_at: int = 0, parallel: int = 0
) -> tuple[list[str], float]:
    """Run a search, killed after `kill_at` answers; return the programs stored and the best score."""
    with tempfile.TemporaryDirectory(prefix=f"{tool}-") as parent:
        folder = Path(parent, "project")  # a project's name is its folder's, and the draws follow from it
        folder.mkdir()
        return _search(tool, folder, server, calls, openevolve, kill_at, parallel)


def _search(
    tool: str, folder: Path, server: Server, calls: int, openevolve: str, kill_at: int, parallel: int
) -> tuple[list[str], float]:
    (folder / "initial_program.py").write_text(PROGRAM)
    (folder / "evaluator.py").write_text(EVALUATOR)
    with server.listening() as url, (folder / "said").open("w") as said:
        started = subprocess.Popen(
            command(tool, folder, url, calls, openevolve, parallel), stdout=said, stderr=said, cwd=folder,
            env={**os.environ, "OPENAI_API_KEY": KEY}, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 300
        while started.poll() is None and time.monotonic() < deadline:
            if kill_at and len([at for at in server.times if at <= time.monotonic() - 2]) >= kill_at:
                break
            time.sleep(0.05)
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    best = [*folder.glob("out/best/best_program_info.json"), *folder.glob("evovpo-out/*/best/*.json")]
    scores = [json.loads(path.read_text())["metrics"]["combined_score"] for path in best]
    return stored(tool, folder), max(scores, default=0.0)


def stored(tool: str, folder: Path) -> list[str]:
    """Return the sources of the programs that a search left on disk, without the first, in order."""
    if tool == "openevolve":
        checkpoints = sorted(folder.glob("out/checkpoints/*"), key=lambda path: int(path.name.split("_")[1]))
        found = (
            [json.loads(path.read_text()) for path in checkpoints[-1].glob("programs/*")]
            if checkpoints
            else []
        )
        found = [one for one in found if one["iteration_found"]]
        return [one["code"] for one in sorted(found, key=lambda one: one["iteration_found"])]
    with sqlite3.connect(folder / "runs.db") as store:
        rows = store.execute("SELECT text FROM rollouts").fetchall()
    return [row[0] for row in rows]


def rate(times: Sequence[float]) -> float:
    return round((len(times) - 1) / (times[-1] - times[0]), 1)


def rows(calls: int, openevolve: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for tool in ("evovpo", "openevolve"):
        slow = {parallel: Server(seconds=1.0) for parallel in (0, 8)}
        for parallel, server in slow.items():
            search(tool, server, calls, openevolve, parallel=parallel)
        killed = Server(seconds=0.2)
        kept, _ = search(tool, killed, 10 * calls, openevolve, kill_at=calls)
        exits, nosy = Server(odd=DEADLY), Server(odd=NOSY)
        search(tool, exits, calls, openevolve)
        _, score = search(tool, nosy, calls, openevolve)
        twice = [search(tool, Server(), calls, openevolve, parallel=1)[0] for _ in range(2)]
        found[tool] = {
            "requests_a_second": rate(slow[0].times),
            "requests_a_second_of_8": rate(slow[8].times),
            "kept_after_kill": f"{min(calls, len(kept))} of {calls}",
            "asked_with_exits": f"{len(exits.times)} of {calls}",
            "key_seen": score == 1.0,
            "same_twice": bool(twice[0]) and sorted(twice[0]) == sorted(twice[1]),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--openevolve", default=str(Path(sys.executable).with_name("openevolve-run")))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = rows(arguments.calls, arguments.openevolve)
    if arguments.json:
        print(json.dumps(found))
        return
    for name in next(iter(found.values())):
        print(f"{name:20}", *(f"{tool}: {figures[name]}" for tool, figures in found.items()), sep="  ")


if __name__ == "__main__":
    main()
