"""Evaluations on a local Ray cluster of two workers: the same rows as without, whoever is killed."""

import contextlib
import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_batch import plain_run, small
from toy_runs import told

ray = pytest.importorskip("ray")

from evovpo.config import EvaluatorConfig, ProposerConfig, RunConfig, SearchConfig  # noqa: E402
from evovpo.errors import SandboxError  # noqa: E402
from evovpo.experiments.batch_plan import plan  # noqa: E402
from evovpo.experiments.cell_runs import Work, sized  # noqa: E402
from evovpo.judging.executors import open_executor  # noqa: E402
from evovpo.judging.ray import RayJob, RayJudge, _held, held_judge  # noqa: E402
from evovpo.runs.driver import Progress  # noqa: E402
from evovpo.runs.request import RunRequest  # noqa: E402
from evovpo.runs.start_resume import start  # noqa: E402
from evovpo.sandbox.forkserver.processes import descendants  # noqa: E402
from evovpo.store import Store  # noqa: E402
from evovpo.types import Status  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        log_to_driver=False,
        address="local",
    )
    yield
    ray.shutdown()


def on_ray(folder: Path, evaluations: int) -> list[Work]:
    _, works = plan(str(small(folder, evaluations)), f"sqlite:///{folder / 'runs.db'}")
    return [
        dataclasses.replace(work, config=work.config.changed(sandbox={"workers": 2}))
        for work in sized(works, 1, "ray")
    ]


def locally(work: Work) -> Work:
    return sized([work], 1, "local")[0]


def test_a_run_on_ray_stores_what_a_local_one_does_though_a_worker_is_killed(
    cluster: None, tmp_path: Path
) -> None:
    work = on_ray(tmp_path, 32)[0]
    killed: list[int] = []

    def kill_one(progress: Progress) -> None:
        if progress.search.standing.proposed >= 8 and not killed:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    name = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if name.startswith((b"ray::_evaluate", b"ray::IDLE")):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    with Store.open(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        outcome = start(
            RunRequest(work.problem, work.config, run_id=work.cell.run_id), store, on_tell=kill_one
        )
        stored = told(store, work.cell.run_id)
    assert killed
    assert outcome.evaluations == 32
    assert stored == plain_run([locally(work)], tmp_path)[work.cell.run_id]


def test_a_process_of_ray_keeps_the_evaluators_of_the_last_jobs(tmp_path: Path) -> None:
    work = on_ray(tmp_path, 8)[0]
    jobs = [
        RayJob(work.problem, work.config.changed(evaluator=EvaluatorConfig(memory_mb=size)))
        for size in range(1000, 1005)
    ]
    seed = work.problem.seeds[0]
    first = held_judge(jobs[0])
    others = [held_judge(job) for job in jobs[1:4]]
    assert held_judge(jobs[0]) is first  # and so the next one to go is the second
    assert held_judge(jobs[4]) not in (first, *others)
    assert first.evaluate(seed).status is Status.OK
    with pytest.raises(SandboxError, match="closed"):
        others[0].evaluate(seed)
    assert [held_judge(job) for job in (jobs[0], *jobs[2:4])] == [first, *others[1:]]
    while _held:
        _held.pop()[2].close()
    with pytest.raises(SandboxError, match="closed"):
        first.evaluate(seed)


def test_runs_of_a_problem_share_an_evaluator_whatever_proposes(cluster: None, tmp_path: Path) -> None:
    work = on_ray(tmp_path, 8)[0]
    other = work.config.changed(
        proposer=ProposerConfig(), search=SearchConfig(islands=2), run=RunConfig(seed=7)
    )
    jobs = [ray.get(RayJudge(work.problem, config)._job) for config in (work.config, other)]
    assert jobs[0] == jobs[1]


def test_a_judgement_on_ray_is_that_of_the_sandbox(cluster: None, tmp_path: Path) -> None:
    work = on_ray(tmp_path, 8)[0]
    seed = work.problem.seeds[0]
    broken = dataclasses.replace(seed, source=seed.source + "\nimport socket\nsocket.socket()\n", id="broken")
    for program in (seed, broken):
        with open_executor(work.problem, work.config) as executor:
            assert isinstance(executor, RayJudge)
            found, right = executor.evaluate(program), executor.evaluate_heldout(program)
        with open_executor(work.problem, locally(work).config) as executor:
            expected = executor.evaluate(program)
            assert right == executor.evaluate_heldout(program)
        assert dataclasses.replace(found, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
        assert found.status is not Status.SANDBOX_ERROR
