"""The compose file, the Dockerfile and `.env.example`: what they say agrees, and with our commands.

`docker compose config` is run where EVOVPO_COMPOSE names a docker-compose binary of version 2, or one is
found; nothing here starts a container.
"""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from printed import VLLM_OPTIONS
from shell import Shell

from evovpo.cli import app
from evovpo.config import Config
from trainer.cli import app as trainer_app
from trainer.config import TrainConfig

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = dict(
    line.split("=", 1)
    for line in (ROOT / ".env.example").read_text().splitlines()
    if line and not line.startswith("#")
)
VARIABLE = re.compile(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}")


def filled(text: str) -> str:
    return VARIABLE.sub(lambda match: EXAMPLE[match[1]], text)


def overrides(command: list[str]) -> list[str]:
    return [part.removeprefix("--set=") for part in command if part.startswith("--set=")]


def test_the_example_has_every_variable_with_the_default_of_the_compose_file() -> None:
    used = {match[1]: match for match in VARIABLE.finditer(TEXT)}
    assert set(used) == set(EXAMPLE)
    for name, match in used.items():
        if match[2] == ":-":
            assert EXAMPLE[name] == match[3], name
        else:
            assert (name, match[2]) == ("POSTGRES_PASSWORD", ":?")


def test_all_are_on_one_network_without_a_way_out_publish_nothing_and_say_no_secret() -> None:
    assert COMPOSE["networks"] == {"internal": {"internal": True}}
    for service in SERVICES.values():
        assert service["networks"] == ["internal"]
        assert "ports" not in service
        assert "network_mode" not in service
        assert "privileged" not in service
        assert not re.search("PASSWORD|KEY", " ".join(service.get("command", ())))


def test_servers_have_health_checks_and_who_needs_them_waits() -> None:
    for name in ("postgres", "vllm"):
        check = SERVICES[name]["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= set(check)
    for name in ("search", "trainer"):
        waits = SERVICES[name]["depends_on"]
        assert waits["postgres"] == {"condition": "service_healthy"}
        # Without the profile gpu there is no vllm, and a model elsewhere is used.
        assert waits["vllm"] == {"condition": "service_healthy", "required": False}
    compile(SERVICES["vllm"]["healthcheck"]["test"][-1], "healthcheck", "exec")


def test_adapters_lie_at_one_path_for_trainer_and_server_and_only_the_trainer_writes() -> None:
    mounts = {name: SERVICES[name]["volumes"] for name in ("vllm", "search", "trainer")}
    assert "policies:/policies" in mounts["trainer"]
    assert "policies:/policies:ro" in mounts["vllm"]
    assert "policies:/policies:ro" in mounts["search"]
    assert "--policies=/policies" in SERVICES["trainer"]["command"]
    named = {entry.split(":")[0] for entries in mounts.values() for entry in entries if entry[0] not in "$."}
    assert named <= set(COMPOSE["volumes"])


def test_adapters_are_loaded_at_run_time_by_a_server_that_takes_their_rank() -> None:
    assert SERVICES["vllm"]["environment"]["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"
    command = [filled(part) for part in SERVICES["vllm"]["command"]]
    given = {part[2:].split("=")[0] for part in command if part.startswith("--")}
    assert given <= VLLM_OPTIONS
    rank = EXAMPLE["EVOVPO_LORA_RANK"]
    assert {"--enable-lora", f"--max-lora-rank={rank}", "--logprobs-mode=processed_logprobs"} <= set(command)
    assert f"update.lora_rank={rank}" in map(filled, overrides(SERVICES["trainer"]["command"]))
    assert command[0] == "/models/base"
    assert "run.model=/models/base" in overrides(SERVICES["trainer"]["command"])


@pytest.mark.parametrize("name", ["search", "trainer"])
def test_the_default_commands_are_ones_that_evovpo_takes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *arguments = [filled(part) for part in SERVICES[name]["command"]]
    group: Any = typer.main.get_command(app if name == "search" else trainer_app)
    found = group.get_command(group.make_context("evovpo", [command]), command)
    parsed = found.make_context(command, list(arguments)).params
    assert parsed["store_url"] == "postgresql+psycopg://evovpo@postgres/evovpo"
    assert Shell(capsys)(command, "--help").code == 0
    tree = Config if name == "search" else TrainConfig
    assert tree.load(None, tree.read_changes(overrides(arguments))) != tree()


def test_the_dockerfile_copies_what_is_there_and_installs_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = [
        path for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE) for path in line.split()
    ]
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()  # it holds the password
    assert ".env" in let_through
    for path in copied:
        assert (ROOT / path).exists()
        assert f"!{path}" in let_through
    groups = [*re.findall(r'"\.\[(\w.*?)\]"', DOCKERFILE), *re.findall(r'"(\w+,[\w,]+)"', DOCKERFILE)]
    extras = [extra for group in groups for extra in group.split(",")]
    assert "vllm" in extras
    assert set(extras) <= set(project["optional-dependencies"])
    (version,) = re.findall(r"torch==(\S+)", DOCKERFILE)
    (pin,) = [found for found in project["optional-dependencies"]["local"] if found.startswith("torch")]
    assert version.startswith(pin.removeprefix("torch==").removesuffix("*"))


def compose_command() -> list[str] | None:
    named = os.environ.get("EVOVPO_COMPOSE") or shutil.which("docker-compose")
    for command in ([named], ["docker", "compose"]):
        try:
            version = subprocess.run(
                [*map(str, command), "version", "--short"], capture_output=True, text=True
            )
        except OSError:
            continue
        if version.returncode == 0 and not version.stdout.startswith("1."):
            return [*map(str, command)]
    return None


def test_docker_compose_accepts_it_with_the_example_and_refuses_it_without_a_password(tmp_path: Path) -> None:
    compose = compose_command()
    if compose is None:
        pytest.skip("no docker compose of version 2 here; EVOVPO_COMPOSE=PATH names one")
    empty = tmp_path / "empty.env"
    empty.write_text("")
    environment = {name: value for name, value in os.environ.items() if name not in EXAMPLE}

    def config(env_file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*compose, "--env-file", str(env_file), "--profile", "*", "config", "--quiet"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )

    accepted = config(ROOT / ".env.example")
    assert (accepted.returncode, accepted.stderr) == (0, "")
    refused = config(empty)
    assert refused.returncode != 0
    assert "POSTGRES_PASSWORD" in refused.stderr
