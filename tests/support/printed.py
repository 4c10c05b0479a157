"""The commands that a page of the documentation prints, run in this process with small stand-ins."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from shell import Answer, Shell

ROOT = Path(__file__).resolve().parents[2]
VLLM_OPTIONS = {
    "served-model-name", "host", "port", "enable-lora", "max-lora-rank", "max-loras", "max-cpu-loras",
    "logprobs-mode", "generation-config", "max-model-len", "gpu-memory-utilization",
}  # fmt: skip
"""Those of `vllm serve` (0.31) that the project prints; checked by vLLM itself where it is installed."""


def printed(page: str) -> list[str]:
    """Return a page's command lines and blocks of Python, in their order; continued lines are one."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = []
    for language, block in re.findall(r"^```(bash|\{\.python\})\n(.*?)^```", text, flags=re.M | re.S):
        lines = block.replace("\\\n", " ").splitlines() if language == "bash" else ()
        plain = [re.sub(r"\s+", " ", line.split(" #")[0]).strip() for line in lines]
        found += [line for line in plain if line] if lines else [block]
    return found


def in_table(page: str) -> dict[str, str]:
    """Return the commands of a page's tables by the first cell of their rows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ([^|]+) \| `(evovpo [^`]+)` \|", text, flags=re.M))


def run_printed(line: str, shell: Shell, more: str = "", places: Mapping[str, str] | None = None) -> Answer:
    """Run a printed line or block of Python, `more` behind it and `places` for addresses in it."""
    if "\n" in line:
        exec(line, {})
        return Answer(0, "", "")
    line = _placed(line, places)
    target = re.search(r" > (\S+)$", line)
    words = shlex.split(line[: target.start()] if target else line.removesuffix("&")) + shlex.split(more)
    settings = dict(word.split("=", 1) for word in words[:1] if re.match(r"[A-Z_]+=", word))
    program, *arguments = words[len(settings) :]
    if program == "accelerate":
        arguments = _as_accelerate(arguments)
    if program in ("cat", "cp"):
        subprocess.run(["bash", "-c", line], check=True)
        if program == "cp":
            copy = Path(arguments[-1], Path(arguments[0]).name)
            copy.write_text(_placed(copy.read_text(encoding="utf-8"), places), encoding="utf-8")
        return Answer(0, "", "")
    if program == "vllm":
        check_vllm(arguments)
        return Answer(0, "", "")
    assert program in ("evovpo", "accelerate"), line
    with mock.patch.dict(os.environ, settings):
        done = shell(*arguments)
    if target:
        Path(target[1]).write_text(done.out, encoding="utf-8")
    return done


def _placed(text: str, places: Mapping[str, str] | None) -> str:
    for one, place in (places or {}).items():
        text = text.replace(one, place)
    return text


def _as_accelerate(arguments: list[str]) -> list[str]:
    """Return what is left of `accelerate launch` for one process, once accelerate's own parser took it."""
    from accelerate.commands.launch import launch_command_parser

    assert arguments[0] == "launch"
    parsed = launch_command_parser().parse_args(arguments[1:])
    assert (parsed.module, parsed.training_script) == (True, "evovpo")
    assert parsed.config_file is None or Path(parsed.config_file).is_file()
    return list(parsed.training_script_args)


def check_vllm(arguments: list[str]) -> None:
    """Assert that `vllm serve` is given a model folder and options that it has."""
    command, folder, *options = arguments
    assert command == "serve"
    assert (Path(folder) / "config.json").is_file()
    names = {one[2:].split("=")[0] for one in options if one.startswith("--")}
    assert names <= VLLM_OPTIONS
    if shutil.which("vllm"):
        shown = subprocess.run(["vllm", "serve", "--help=all"], capture_output=True, text=True, check=True)
        assert [name for name in names if f"--{name}" not in shown.stdout] == []
