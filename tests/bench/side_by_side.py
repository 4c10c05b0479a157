"""evovpo beside OpenEvolve on one problem with an instant model: `python tests/bench/side_by_side.py --json`.

Both search the same small problem: find a number in a program of 2.5 KB, by SEARCH/REPLACE edits that an
instant model in the same process makes of the parent in the prompt. Every row is a run of its own process:

- `evovpo`: the problem in evovpo's own form, every candidate in the warm sandbox, the scorer outside of it.
- `evovpo_whole`: the same OpenEvolve project that OpenEvolve gets, imported once in the sandbox, a fork of
  that for each evaluation.
- `evovpo_whole_numpy`: the same with an evaluator in the shape of OpenEvolve's circle packing: it imports
  numpy, loads the candidate, which imports numpy too, calls it and checks the circles that it returns.
- `evovpo_loop`: evaluation replaced by a stub; search, prompts, parsing and the store remain.
- `openevolve`: OpenEvolve as it comes, without a sandbox, its evolution trace on (evovpo always logs more);
  `openevolve_numpy` with the evaluator that uses numpy.
- `openevolve_loop`: the same with its evaluation replaced by a stub.

Each row runs for a fifth of `--iterations` and for all of them. `it_per_s` is over the longer run; `ms_200`
and `ms_1000` are milliseconds an iteration over the last tenth of each, an iteration being one candidate;
`sample_ms_*` is what it takes to choose a parent and make what the model gets, at that many programs
(OpenEvolve: sample and snapshot for a worker); `mb` is what the longer run leaves on disk. Populations hold
1,000 programs on 5 islands. OpenEvolve runs with two workers, evovpo with its defaults (8 completions a
prompt) and with one (`_g1`).
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROWS = (
    "evovpo",
    "evovpo_g1",
    "evovpo_whole",
    "evovpo_whole_numpy",
    "evovpo_loop",
    "evovpo_loop_g1",
    "openevolve",
    "openevolve_numpy",
    "openevolve_loop",
)
_FILLER = 40
"""Helper functions that make the program as long as usual ones."""

PROGRAM = (
    "# EVOLVE-BLOCK-START\nVALUE = 0.1\nNOTE = 'x'\n"
    + "".join(
        f"def helper_{number}(x):\n    return (x * {number} + {number * 7 % 13}) % {number + 11}  # filler\n"
        for number in range(_FILLER)
    )
    + "# EVOLVE-BLOCK-END\n\n\ndef run():\n    return VALUE\n"
)
EVALUATOR = """
import re

def evaluate(program_path):
    with open(program_path) as file:
        found = re.search(r"^VALUE = ([0-9.]+)$", file.read(), re.M)
    value = float(found.group(1)) if found else 0.0
    return {"combined_score": 1.0 - abs(value - 0.777), "value": value}
"""
NUMPY_PROGRAM = PROGRAM.replace(
    "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-START\nimport numpy as np\n\n"
).replace(
    "def run():\n    return VALUE\n",
    """def run():
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    centers = 0.5 + 0.3 * np.column_stack([np.cos(angles), np.sin(angles)])
    distances = np.linalg.norm(centers[:, None] - centers[None], axis=2) + np.eye(len(centers))
    return centers, np.minimum(0.2, distances.min(axis=1) / 2) * VALUE
""",
)
NUMPY_EVALUATOR = """
import importlib.util
import time

import numpy as np


def validate(centers, radii):
    distances = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    apart = distances + np.diag(np.full(len(radii), np.inf)) >= radii[:, None] + radii[None] - 1e-6
    inside = (centers >= radii[:, None] - 1e-6) & (centers <= 1 - radii[:, None] + 1e-6)
    return bool(apart.all() and inside.all() and np.isfinite(radii).all())


def evaluate(program_path):
    started = time.time()
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    centers, radii = program.run()
    total = float(np.sum(radii)) if validate(centers, radii) else 0.0
    return {"sum_radii": total, "eval_time": time.time() - started, "combined_score": total / 2.635}
"""
"""As OpenEvolve's circle packing: the sum of the radii of circles that must lie apart in the unit square."""
PROBLEM_TOML = """
[problem]
statement = "Change VALUE so that it comes as close as possible to a number that you do not know."
entry = "run"
inputs = []

[[objectives]]
name = "closeness"

[[objectives]]
name = "value"
"""
SCORER = """
def cases():
    return [[]]


def score(outputs):
    value = outputs[0] if isinstance(outputs[0], (int, float)) else 0.0
    value = min(max(value, 0.0), 1.0)
    return {"closeness": 1.0 - abs(value - 0.777), "value": value}
"""


def edit_of(prompt: str, rng: random.Random) -> str:
    """Return a valid SEARCH/REPLACE edit of the program that the prompt shows."""
    parent = prompt[max(0, prompt.rfind("# Current Program")) :]  # where OpenEvolve's prompt shows it
    shown = re.findall(r"^VALUE = .*\nNOTE = .*$", parent, re.M)
    old = shown[0] if shown else "VALUE = 0.1\nNOTE = 'x'"
    new = f"VALUE = {rng.random():.6f}\nNOTE = '{'n' * rng.randint(1, 400)}'"
    return f"A small change.\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


# ---------------------------------------------------------------- evovpo, in its own process


def run_evovpo(
    folder: Path, iterations: int, rollouts: int, is_stubbed: bool, problem_folder: str
) -> dict[str, float]:
    """Return seconds, milliseconds over the last tenth, milliseconds an ask at the end, and MB on disk."""
    import asyncio

    from evovpo.proposers import text_rollout
    from evovpo.runs.driver import Driver
    from evovpo.runs.replay import build_search
    from evovpo.runs.request import RunRequest, open_request
    from evovpo.runs.start_resume import start
    from evovpo.search.search import SearchState
    from evovpo.store import Store
    from evovpo.types import Evaluation, Problem, Program, Prompt, Rollout, Run, RunStatus, Sampling, Status

    class InstantModel:
        policy_version = 0

        async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
            shown = prompt.messages[-1].content
            return [
                text_rollout(prompt, index, edit_of(shown, random.Random(prompt.seed + index)), sampling)
                for index in indices
            ]

        async def aclose(self) -> None:
            pass

    class Stub:
        def __init__(self, problem: Problem) -> None:
            self.problem = problem

        def evaluate(self, program: Program) -> Evaluation:
            rng = random.Random(program.id)
            rewards = tuple(rng.random() * 0.99 for _ in self.problem.objectives)
            return Evaluation(program.id, self.problem.version, Status.OK, rewards, "", 0.0, "none")

    asks: list[float] = []
    first_ask = SearchState.ask

    def timed_ask(search: SearchState) -> Prompt | None:
        began = time.perf_counter()
        prompt = first_ask(search)
        asks.append(time.perf_counter() - began)
        return prompt

    SearchState.ask = timed_ask  # type: ignore[method-assign]
    url = f"sqlite:///{folder}/run.db"
    wanted = {
        "store.url": url, "search.evaluations": iterations, "search.rollouts": rollouts,
        "search.islands": 5, "search.elites": 200, "search.stop_when_solved": False, "prompt.style": "diff",
        "proposer.name": "scripted",
    }  # fmt: skip
    named = open_request(str(folder / problem_folder), None, wanted)
    problem, config = named.problem, named.config
    ends: list[float] = []
    with Store.open(url) as store:
        began = time.perf_counter()
        if is_stubbed:
            run = Run(
                "bench",
                problem.id,
                problem.version,
                0,
                iterations,
                config.to_json(),
                RunStatus.RUNNING,
                "2026-01-02T03:04:05Z",
            )
            store.add_problem(problem)
            store.add_run(run)
            driver = Driver(
                search=build_search(problem, config, run),
                config=config,
                proposer=InstantModel(),
                judge=Stub(problem),
                journal=store,
                on_tell=lambda progress: ends.append(time.perf_counter()),
                workers=2,
            )
            asyncio.run(driver.run())
        else:
            start(
                RunRequest(problem, config),
                store,
                InstantModel(),
                on_tell=lambda progress: ends.append(time.perf_counter()),
            )
        seconds = time.perf_counter() - began
    return _figures(seconds, ends, asks, iterations, folder)


def _figures(
    seconds: float, ends: Sequence[float], samples: Sequence[float], iterations: int, folder: Path
) -> dict[str, float]:
    tenth = max(1, iterations // 10)
    last = samples[-max(1, len(samples) // 10) :]
    return {
        "seconds": seconds,
        "ms_last": 1000 * (ends[-1] - ends[-1 - tenth]) / tenth,
        "sample_ms": 1000 * sum(last) / len(last),
        "mb": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
    }


# ---------------------------------------------------------------- OpenEvolve, in its own environment


class InstantClient:
    """OpenEvolve's own hook for a model in process; picklable by name."""

    def __init__(self, config: Any) -> None:
        self.model = "instant"
        self.last_usage = None
        self._rng = random.Random(os.getpid())

    async def generate(self, prompt: str, **settings: Any) -> str:
        return edit_of(prompt, self._rng)

    async def generate_with_context(
        self, system_message: str, messages: Sequence[Any], **settings: Any
    ) -> str:
        return edit_of(messages[-1]["content"], self._rng)


def run_openevolve(folder: Path, iterations: int, is_stubbed: bool, problem_folder: str) -> dict[str, float]:
    """Return what `run_evovpo` returns, for OpenEvolve; its evaluator runs in its worker processes."""
    import asyncio
    import logging

    import side_by_side  # so that workers find the class by name
    from openevolve import OpenEvolve
    from openevolve.config import Config, LLMModelConfig
    from openevolve.evaluator import Evaluator

    logging.disable(logging.CRITICAL)
    if is_stubbed:

        async def judged_at_once(self: Any, program_code: str, program_id: str = "") -> dict[str, float]:
            score = random.Random(program_code).random()
            return {"combined_score": score, "value": score}

        Evaluator.evaluate_program = judged_at_once
    model = LLMModelConfig(name="instant", temperature=0.7, max_tokens=1000, retries=1)
    model.init_client = side_by_side.InstantClient
    config = Config()
    config.llm.models, config.llm.evaluator_models = [model], [model]
    config.max_iterations = iterations
    config.evaluator.cascade_evaluation = False
    config.evaluator.parallel_evaluations = 2
    config.database.population_size, config.database.num_islands = 1000, 5
    config.evolution_trace.enabled = True
    project = folder / problem_folder
    search = OpenEvolve(str(project / "initial_program.py"), str(project / "evaluator.py"), config,
                        output_dir=str(folder / "out"))  # fmt: skip
    began = time.perf_counter()
    asyncio.run(search.run(iterations=iterations))
    seconds = time.perf_counter() - began
    trace = (folder / "out" / "evolution_trace.jsonl").read_text().splitlines()
    ends = sorted(json.loads(line)["timestamp"] for line in trace)
    return _figures(seconds, [ends[0]] * (iterations - len(ends) + 1) + ends, [0.0], iterations, folder)


def sample_openevolve(programs: int) -> dict[str, float]:
    """Return what choosing a parent costs at so many programs, and a worker's snapshot with it."""
    import logging

    from openevolve.config import Config, DatabaseConfig
    from openevolve.database import Program, ProgramDatabase
    from openevolve.process_parallel import ProcessParallelController

    logging.disable(logging.CRITICAL)
    rng = random.Random(3)
    config = Config()
    config.database = DatabaseConfig(population_size=10 * programs, num_islands=5)
    database = ProgramDatabase(config.database)
    number = 0
    while len(database.programs) < programs:  # programs that lose their cell are dropped
        code = PROGRAM.replace("NOTE = 'x'", f"NOTE = '{number}{'n' * rng.randint(1, 400)}'")
        metrics = {"combined_score": rng.random(), "value": rng.random()}
        database.add(
            Program(id=f"p{number:08d}", code=code, metrics=metrics, iteration_found=number),
            iteration=number,
            target_island=number % 5,
        )
        number += 1
    controller = ProcessParallelController(config, "unused", database)
    repeats = 20 if programs <= 1000 else 5
    began = time.perf_counter()
    for place in range(repeats):
        database.sample_from_island(place % 5, num_inspirations=2)
        controller._create_database_snapshot()
    return {"sample_ms": 1000 * (time.perf_counter() - began) / repeats}


# ---------------------------------------------------------------- putting them side by side


def write_problem(folder: Path) -> None:
    native = folder / "native"
    native.mkdir()
    (native / "problem.toml").write_text(PROBLEM_TOML)
    (native / "score.py").write_text(SCORER)
    (native / "seed.py").write_text(PROGRAM)
    for name, program, evaluator in (
        ("project", PROGRAM, EVALUATOR),
        ("numpy", NUMPY_PROGRAM, NUMPY_EVALUATOR),
    ):
        (folder / name).mkdir()
        (folder / name / "initial_program.py").write_text(program)
        (folder / name / "evaluator.py").write_text(evaluator)


def in_a_process(python: str, job: dict[str, Any]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as name:
        folder = Path(name)
        write_problem(folder)
        source = Path(__file__).resolve()
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "OPENAI_API_KEY": "x",
            "PYTHONPATH": os.pathsep.join(
                [str(source.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }
        done = subprocess.run(
            [python, str(source), "--job", json.dumps(job | {"folder": name})],
            capture_output=True, text=True, check=False, cwd=name, env=environment,
        )  # fmt: skip
        found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not found:
            raise SystemExit(f"{job} failed:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
        return dict(json.loads(found[-1].removeprefix("RESULT ")))


def run_job(job: dict[str, Any]) -> dict[str, float]:
    folder, row, iterations = Path(job["folder"]), job["row"], job["iterations"]
    if job["what"] == "sample":
        return sample_openevolve(iterations)
    project = "numpy" if row.endswith("_numpy") else "project"
    if row.startswith("openevolve"):
        return run_openevolve(folder, iterations, row == "openevolve_loop", project)
    rollouts = 1 if row.endswith("_g1") else 8
    return run_evovpo(folder, iterations, rollouts, "_loop" in row, project if "_whole" in row else "native")


def measure_row(
    row: str, python: str, iterations: int, most: int, tell: Callable[[str], None]
) -> dict[str, float]:
    def job(what: str, iterations: int) -> dict[str, float]:
        tell(f"{row}: {what} {iterations}")
        return in_a_process(python, {"what": what, "row": row, "iterations": iterations})

    fifth = iterations // 5
    short, long = job("run", fifth), job("run", iterations)
    found = {
        "it_per_s": iterations / long["seconds"],
        f"ms_{fifth}": short["ms_last"],
        f"ms_{iterations}": long["ms_last"],
        "mb": long["mb"],
    }
    if row == "openevolve":
        sizes = [size for size in (1000, 10_000) if size <= most]
        return found | {f"sample_ms_{size}": job("sample", size)["sample_ms"] for size in sizes}
    if row == "evovpo_loop":
        found[f"sample_ms_{iterations}"] = long["sample_ms"]
        if most >= 10_000:
            found["sample_ms_10000"] = job("run", 10_000)["sample_ms"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--openevolve-python", default=sys.executable, help="Python of an environment with openevolve 0.4"
    )
    parser.add_argument("--rows", default=",".join(ROWS), help="only these, with commas between them")
    parser.add_argument(
        "--iterations", type=int, default=1000, help="of the longer run of each row, at least 10"
    )
    parser.add_argument("--largest", type=int, default=10_000, help="largest population to sample from")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print("RESULT " + json.dumps(run_job(json.loads(options.job))), flush=True)
        return
    results: dict[str, dict[str, float]] = {}
    for row in options.rows.split(","):
        python = options.openevolve_python if row.startswith("openevolve") else sys.executable
        if row not in ROWS:
            parser.error(f"--rows: {row!r} is none of {', '.join(ROWS)}")
        found = measure_row(
            row,
            python,
            options.iterations,
            options.largest,
            lambda text: print(text, file=sys.stderr, flush=True),
        )
        results[row] = {name: round(value, 3) for name, value in found.items()}
        print(f"{row}: {results[row]}", file=sys.stderr, flush=True)
    # The row that measures asking alone speaks for all of ours: the sandbox has no part in it.
    asked = {key: value for key, value in results.get("evovpo_loop", {}).items() if key.startswith("sample")}
    for row in results:
        if row.startswith("evovpo"):
            results[row] |= asked
    if options.json:
        print(json.dumps(results))
        return
    for row, figures in results.items():
        print(f"{row:16}" + "".join(f"  {name} {value:>9.3f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
