"""Every command line of the pages on training, serving and reproducing runs as it is printed.

What stands behind a line here makes it small; models and data are stand-ins under the printed names.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from openevolve_problems import answered
from printed import ROOT, VLLM_OPTIONS, printed, run_printed
from shell import Shell
from tiny_models import write_answering_model

pytest.importorskip("trl")
pytest.importorskip("openai")

from fake_server import FakeServer, serve

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.cli import app
from tests.support.benchmark_rows import write_jsonl
from tests.unit.test_text_files import FORMATS
from trainer.cli import app as trainer_app
from trainer.cli.train import settings_of
from trainer.domains import open_domain
from trainer.domains.training import checked_settings

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_trl")]

NOT_RUN = {"pip install -e '.[train]'": "installs what these tests run in"}
TINY = "--steps 2 --test 2 --k 1,3"
STUDY = (
    "--set seeds=1 --set steps=2 --set prompts=2 --set rollouts=4 --set ks=[1,3] --set test=2 "
    "--set settings.max_completion_length=1 --set settings.check_first_batch=false "
    "--set accelerate= --set settings.use_vllm=false"
)
PROBE = "--set probe.problems=2 --set probe.answers=2 --set probe.evaluations=0"
MADE_SMALL = {
    "evovpo train --domain maze-conflict --dry-run": "--rollouts 2 --set k=1",
    "evovpo train --domain maze-conflict --steps": TINY,
    "evovpo measure --domain maze-conflict": "--prompts 2 --k 1,2",
    "evovpo train --domain own_domain.py": TINY,
    "evovpo evolve strings/name-short-form": "--evaluations 24",
    "evovpo retrain latest": PROBE,
    "evovpo study paper/musique --dry-run": "",
    "evovpo study paper/musique --out": STUDY + " --arms grpo,vpo",
    "evovpo study paper/musique --arms": STUDY,
    "accelerate launch": TINY + " --prompts 2 --rollouts 4 --set max_completion_length=1 "
    "--set use_vllm=false --set check_first_batch=false",
}
"""What is put behind a line that begins so; any other line has nothing behind it."""


def small(line: str) -> str:
    return next((more for start, more in MADE_SMALL.items() if line.startswith(start)), "")


def write_model(folder: Path, name: str, rows: Path, words: list[str]) -> None:
    """Write a model that says one of the words, or a chain of three, to any prompt of a domain."""
    chains = [
        "".join(f"<response_{i}>{words[(n - i) % len(words)]}</response_{i}>" for i in (1, 2, 3))
        for n in range(len(words))
    ]
    prompts: list[Any] = []
    for answers in (1, 3):
        with open_domain(name, rows, answers) as domain:
            prompts += domain.prompts
    write_answering_model(folder, prompts, [*words, *chains], enable_thinking=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that commands run in, with the files of a clone that they name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer").symlink_to(ROOT / "trainer")
    return tmp_path


def run_all(page: str, capsys: pytest.CaptureFixture[str], **places: str) -> list[str]:
    said = []
    for line in printed(page):
        if line in NOT_RUN:
            continue
        done = run_printed(line, Shell(capsys), small(line), places)
        assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
        said.append(done.out)
    return said


def test_the_commands_on_training_run_as_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(ROOT / "docs/examples/own_domain.py", here)
    topics = [{"prompt": f"Two slogans about tea, please ({n}).", "topic": "tea"} for n in range(10)]
    rows = write_jsonl(here / "rows.jsonl", topics)
    write_model(here / "Qwen/Qwen3-0.6B", "own_domain.py", rows, ["Drink tea", "A tea anew", "No"])
    said = run_all("training.md", capsys)
    assert len(said) == 4
    assert (here / "trained/model.safetensors").is_file()


def test_the_commands_on_serving_run_as_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(BUILT_IN_MODEL, here / "FOLDER")
    with serve(FakeServer(here / "FOLDER", "strings", max_model_len=768)) as url:
        said = run_all("serving.md", capsys, **{"http://127.0.0.1:8000/v1": url})
    assert "Policy version 0 is served" in said[-1]


def test_the_commands_on_reproducing_run_as_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, answer, _ = FORMATS["musique"]
    for part in ("train", "dev"):
        rows = write_jsonl(here / f"musique_ans_v1.0_{part}.jsonl", [row(number) for number in range(10)])
    write_model(here / "Qwen/Qwen3-1.7B", "musique", rows, [answer(number) for number in range(10)])
    make, _, _ = FORMATS["livecodebench"]
    days = ("2024-10-01T00:00:00", "2023-01-01T00:00:00")
    (here / "livecodebench").mkdir()
    for part in (5, 6):
        tasks = [make(2 * part + number) | {"contest_date": days[number]} for number in range(2)]
        rows = write_jsonl(here / f"livecodebench/test{part}.jsonl", tasks)
    for name in ("grpo-0", "vpo-0"):
        write_model(here / "livecodebench" / name, "livecodebench", rows, ["wrong"])
    with answered(right_programs) as url:
        run_all("reproduce.md", capsys, **{f"http://127.0.0.1:{port}/v1": url for port in (8000, 8001)})
    assert "minus grpo" in (here / "two/report.md").read_text()


def right_programs(body: dict[str, Any]) -> list[str]:
    program = "```python\ndef solve(text):\n    return str(sum(map(int, text.split())))\n```"
    return [program] * (body.get("n") or 1)


@pytest.mark.parametrize("page", ["training.md", "serving.md", "reproduce.md"])
def test_every_option_and_setting_in_the_text_exists(page: str) -> None:
    codes = re.findall(r"`([^`\n]+)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    commands: Any = (typer.main.get_command(one) for one in (app, trainer_app))
    known = {
        option[2:]
        for group in commands
        for command in group.commands.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | VLLM_OPTIONS | {"max-num-batched-tokens", "profile"}  # fmt: skip
    for code in codes:
        assert set(re.findall(r"(?<!\S)--([a-z0-9-]+)", code)) <= known, code
        for setting in re.findall(r"--set ('[^']+'|\S+)", code):
            key, _, value = setting.strip("'").partition("=")
            if key.endswith("KEY") or ("." in key and not key.startswith("settings.")):
                continue
            if page == "training.md" or "." in key:
                checked_settings(settings_of([f"{key.removeprefix('settings.')}={value or 1}"]))
