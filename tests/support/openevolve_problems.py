"""Small OpenEvolve projects, one for each shape of real ones, and stand-ins for a sandbox and a server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from http_servers import answering_all

from evovpo.config import Config
from evovpo.problem.openevolve.evaluator import OpenEvolveEvaluator
from evovpo.problem.openevolve.loading import load_openevolve
from evovpo.sandbox import WholeJob, WholeResult
from evovpo.types import Json, Limits, Problem, Status

PROGRAM = """# EVOLVE-BLOCK-START
def guess():
    return 1.0
# EVOLVE-BLOCK-END
"""
BETTER = PROGRAM.replace("1.0", "3.0")
LOAD = """
import importlib.util

def _load(path):
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
PLAIN = (
    LOAD
    + """
def evaluate(program_path):
    value = _load(program_path).guess()
    near = max(0.0, 1 - abs(4 - value) / 4)
    return {"near": near, "large": value, "combined_score": near}
"""
)


def loading(evaluator: str, imports: str = "") -> dict[str, str]:
    """Return the files of a project whose evaluator begins with `LOAD`."""
    return {"initial_program.py": PROGRAM, "evaluator.py": imports + LOAD + evaluator}


SHAPES: dict[str, dict[str, str]] = {
    "plain": {"initial_program.py": PROGRAM, "evaluator.py": PLAIN},
    "cascade": loading(
        """
def evaluate_stage1(program_path):
    value = _load(program_path).guess()
    return {"runs": 1.0, "combined_score": value / 4}

def evaluate_stage2(program_path):
    value = _load(program_path).guess()
    return {"eval_time": value, "combined_score": 4 - abs(value - 3.25)}

def evaluate(program_path):
    return {"never": "called"}
"""
    )
    | {"config.yaml": "evaluator:\n  cascade_thresholds: [0.5]\n"},
    "async": loading(
        """
async def evaluate(program_path):
    value = _load(program_path).guess()
    return {"near": max(0.0, 1 - abs(4 - value) / 4), "large": value}
"""
    ),
    "result": loading(
        """
def evaluate(program_path):
    value = _load(program_path).guess()
    return EvaluationResult(
        metrics={"near": max(0.0, 1 - abs(4 - value) / 4), "combined_score": value},
        artifacts={"advice": f"{value} is too small", "raw": b"bytes"},
    )
""",
        imports="from openevolve.evaluation_result import EvaluationResult\n",
    ),
    "sibling": {
        "initial_program.py": PROGRAM,
        "wanted.py": "WANTED = 4\n",
        "data/wanted.txt": "4\n",
        "evaluator.py": "import pathlib\nfrom wanted import WANTED\n"
        + LOAD
        + """
DATA = pathlib.Path(__file__).parent / "data" / "wanted.txt"

def evaluate(program_path):
    value = _load(program_path).guess()
    assert int(DATA.read_text()) == WANTED
    return {"near": max(0.0, 1 - abs(WANTED - value) / 4), "large": value}
""",
    },
    "text": {
        "initial_prompt.txt": "Answer in few words.\n",
        "evaluator.py": """
def evaluate(program_path, verbose=False, config=None):
    with open(program_path) as file:
        text = file.read()
    return {"short": 1 / len(text), "polite": float("please" in text)}
""",
    },
    "folder": {
        "initial_program/main.py": "from parts.value import VALUE\n\ndef guess():\n    return VALUE\n",
        "initial_program/parts/value.py": "VALUE = 1.0\n",
        "evaluator.py": """
import sys

def evaluate(program_path):
    sys.path.insert(0, program_path)
    import main
    return {"near": max(0.0, 1 - abs(4 - main.guess()) / 4), "large": main.guess()}
""",
    },
}
"""Files of a project by its shape."""


def write_project(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


class Answering:
    """A sandbox that runs nothing: it keeps the jobs and answers what a function says."""

    remarks: tuple[str, ...] = ()

    def __init__(self, answer: Callable[[WholeJob], WholeResult]) -> None:
        self.jobs: list[WholeJob] = []
        self._answer = answer

    def run(self, job: WholeJob, limits: Limits) -> WholeResult:
        self.jobs.append(job)
        return self._answer(job)

    @contextmanager
    def open(self, problem: Problem, config: Config) -> Iterator[OpenEvolveEvaluator]:
        """Stand in for `open_openevolve`."""
        yield OpenEvolveEvaluator(problem, self)


def answering(**metrics: Json) -> Answering:
    """Return a sandbox in which every program scores these metrics."""
    return Answering(lambda job: WholeResult(Status.OK, metrics=tuple(metrics.items())))


def problem_of(
    folder: Path, config: Config | None = None, frozen: Sequence[Problem] = (), **scores: Json
) -> Problem:
    """Return the problem of a project whose initial program has these scores."""
    return load_openevolve(folder, config, frozen=frozen, open_evaluator=answering(**scores).open).problem


@contextmanager
def served(texts: list[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a chat endpoint that gives the texts as choices, one token a character; yield URL and bodies."""
    bodies: list[dict[str, Any]] = []

    def choose(body: dict[str, Any]) -> list[str]:
        bodies.append(body)
        return texts[: body.get("n", 1)]

    with answered(choose) as url:
        yield url, bodies


@contextmanager
def numbered(write: Callable[[int], str]) -> Iterator[str]:
    """Serve a chat endpoint whose n-th choice, over all requests, is `write(n)`; yield its URL."""
    given = itertools.count(1)
    with answered(lambda body: [write(next(given)) for _ in range(body.get("n") or 1)]) as url:
        yield url


@contextmanager
def answered(choose: Callable[[dict[str, Any]], list[str]]) -> Iterator[str]:
    """Serve a chat endpoint that answers the body of a request with these texts; yield its URL."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.command == "GET":
            request.send_error(501)
            return
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        choices = [
            {
                "index": index,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
                "token_ids": [ord(character) for character in text],
                "logprobs": {
                    "content": [
                        {"token": character, "logprob": -0.5, "bytes": None, "top_logprobs": []}
                        for character in text
                    ]
                },
            }
            for index, text in enumerate(choose(body))
        ]
        found = {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"]}
        usage = {"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 11}
        found |= {"choices": choices, "prompt_token_ids": [1, 2], "usage": usage}
        data = json.dumps(found).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    with answering_all(answer) as address:
        yield f"{address}/v1"
