"""The files for a batch under KubeRay and under SLURM: what they say agrees, and the script does its part.

Kubernetes, SLURM and Ray are not here: the script runs with programs of ours in their places.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from evovpo.cli import app
from evovpo.store.database import parse_url

ROOT = Path(__file__).resolve().parents[2]
CLUSTER, JOB = yaml.safe_load_all((ROOT / "docs/cluster/kuberay.yaml").read_text())
PLACES = {
    "scontrol": "print('one', 'two', 'three', sep='\\n')",
    "srun": "import time; time.sleep(600)",
    "ray": "",
    "evovpo": "",
}
"""What is run in place of programs, in Python; each also writes down how it was called."""


def pods() -> list[dict[str, Any]]:
    groups = [CLUSTER["spec"]["headGroupSpec"], *CLUSTER["spec"]["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups] + [JOB["spec"]["template"]["spec"]]


def test_all_pods_have_the_image_of_the_compose_file_and_see_the_same_problems_and_password() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    images = {container["image"] for pod in pods() for container in pod["containers"]}
    assert images == {compose["services"]["search"]["image"]}
    extras = (ROOT / "Dockerfile").read_text().split("AS search", 1)[1].split("USER", 1)[0]
    assert "ray" in extras.split("[")[1].split("]")[0].split(",")
    _, worker, job = (pod["containers"][0] for pod in pods())
    assert worker["volumeMounts"] == job["volumeMounts"]
    assert worker["env"] == job["env"]
    assert [env["name"] for env in job["env"]] == ["PGPASSWORD"]


def test_the_job_begins_a_batch_on_the_clusters_client_port() -> None:
    command, *arguments = JOB["spec"]["template"]["spec"]["containers"][0]["args"]
    group: Any = typer.main.get_command(app)
    found = group.get_command(group.make_context("evovpo", [command]), command)
    parsed = found.make_context(command, arguments).params
    head = CLUSTER["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    (port,) = [one["containerPort"] for one in head["ports"] if one["name"] == "client"]
    assert parsed["executor"] == f"ray://{CLUSTER['metadata']['name']}-head-svc:{port}"
    assert parse_url(parsed["store_url"]).get_backend_name() == "postgresql"


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for name, does in PLACES.items():
        lines = (
            f"#!{sys.executable} -S",
            "import os, sys",
            f"log = open({str(tmp_path / name)!r} + '.log', 'a')",
            "print(os.environ.get('RAY_ADDRESS'), *sys.argv[1:], file=log, flush=True)",
            does,
        )
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def started(places: Path, nodes: int = 3) -> subprocess.Popen[bytes]:
    job = {"SLURM_JOB_NODELIST": "a[1-3]", "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_CPUS_PER_TASK": "16"}
    asked = {"PLAN": "plan.toml", "STORE": "postgresql+psycopg://host/name"}
    paths = {"PATH": f"{places}:{os.environ['PATH']}"}
    script = ROOT / "docs/cluster/slurm.sh"
    return subprocess.Popen(
        ["bash", str(script)], env={**os.environ, **paths, **job, **asked}, stdout=subprocess.PIPE
    )


def calls(places: Path, name: str) -> list[str]:
    log = places / f"{name}.log"
    return log.read_text().splitlines() if log.exists() else []


def test_the_script_starts_a_head_and_the_other_nodes_and_ends_them_with_the_batch(places: Path) -> None:
    begun = str(places / "srun.log")
    with (places / "evovpo").open("a") as file:  # ends once all nodes were started, with a code of its own
        file.write(
            "import time\n"
            f"while not os.path.exists({begun!r}) or len(open({begun!r}).readlines()) < 2: time.sleep(0.02)\n"
            "sys.exit(7)\n"
        )
    job = started(places)
    job.communicate(timeout=60)  # which also waits for whoever was left behind with its output
    assert job.returncode == 7
    assert calls(places, "evovpo") == [
        "one:6379 batch plan.toml --executor ray --store postgresql+psycopg://host/name"
    ]
    assert sorted(calls(places, "srun")) == [
        "one:6379 --nodes=1 --ntasks=1 --nodelist=one ray start --head --port=6379 --num-cpus=16 --block",
        "one:6379 --nodes=2 --ntasks=2 --exclude=one ray start --address=one:6379 --num-cpus=16 --block",
    ]


def test_an_interrupt_from_slurm_reaches_the_batch_and_is_waited_for(places: Path) -> None:
    with (places / "evovpo").open("a") as file:
        file.write(
            "import time\n"
            "try:\n    open(sys.argv[0] + '.ready', 'w').close()\n    time.sleep(600)\n"
            "except KeyboardInterrupt:\n    time.sleep(0.2)\n    sys.exit(3)\n"
        )
    job = started(places, nodes=1)
    while not (places / "evovpo.ready").exists():
        assert job.poll() is None
        time.sleep(0.02)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=60)
    assert job.returncode == 3


def test_the_script_says_what_it_is_to_be_given(places: Path) -> None:
    script, path = str(ROOT / "docs/cluster/slurm.sh"), f"{places}:{os.environ['PATH']}"
    done = subprocess.run(["bash", script], env={"PATH": path}, capture_output=True, text=True)
    assert done.returncode != 0
    assert "PLAN: the file of the batch" in done.stderr
    assert calls(places, "evovpo") == []
