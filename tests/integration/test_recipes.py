"""The recipes of the paper, each from rows in the public format to its table, with small stand-ins."""

import hashlib
import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from mazes import route_words, routes_with_items
from openevolve_problems import numbered
from printed import in_table
from safetensors.torch import load_file
from shell import Shell
from tiny_models import write_answering_model

pytest.importorskip("trl")

from evovpo.config_tree import read_toml
from evovpo.errors import ConfigError, ProblemError
from evovpo.files import write_json
from tests.support.benchmark_rows import write_jsonl
from tests.unit.test_text_files import FORMATS
from trainer.domains import open_domain
from trainer.domains.catalogue import longest
from trainer.domains.maze.generator import generate_maze
from trainer.experiments.recipe import PAPER, asked_of, cost_of, read_recipe

RECIPES = ("maze", "musique", "eureqa", "toolrl", "livecodebench")
quiet = pytest.mark.usefixtures("quiet_trl")


def right_answers(name: str) -> list[str]:
    """Return ten answers that earn something from some prompt of a recipe."""
    if name != "maze":
        return [FORMATS[name][1](number) for number in range(10)]
    mazes = [generate_maze(f"test-0-{number}") for number in range(3)]
    return [f"<route>{route_words(moves)}</route>" for maze in mazes for moves in routes_with_items(maze)]


def stand_ins(name: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Return a model that knows right answers, alone and in chains of three, and the files of a recipe."""
    recipe = read_recipe(PAPER / f"{name}.toml")
    files, prompts, words = {}, [], right_answers(name)
    if recipe.data is not None:
        row = FORMATS[recipe.domain][0]
        day = {"contest_date": "2024-10-01T00:00:00"} if recipe.domain == "livecodebench" else {}
        train = write_jsonl(folder / "train.jsonl", [row(number) | day for number in range(10)])
        files["data"] = str(train)
        if recipe.test_data:
            files["test_data"] = str(train)
    for answers in (1, 3):
        with open_domain(recipe.domain, files.get("data"), answers, tasks=10) as domain:
            prompts += domain.prompts
    if recipe.domain == "livecodebench":
        chains = ["\n---\n".join([words[n], words[n - 1], words[n - 2]]) for n in range(10)]
    else:
        form = "<route_{0}>{1}</route_{0}>" if name == "maze" else "<response_{0}>{1}</response_{0}>"
        plain = [re.sub("</?route>", "", word) for word in words]
        chains = [
            "".join(form.format(i, plain[(n - i) % len(plain)]) for i in (1, 2, 3)) for n in range(len(plain))
        ]
    model = write_answering_model(folder / "model", prompts, [*words, *chains], enable_thinking=False)
    return str(model), files


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_from_public_rows_to_its_table(name: str, tmp_path: Path, evovpo: Shell) -> None:
    model, files = stand_ins(name, tmp_path)
    small: dict[str, Any] = {
        "steps": 2, "prompts": 2, "rollouts": 4, "ks": [1, 3], "seeds": 1, "accelerate": "",
        "settings.use_vllm": False, "settings.max_completion_length": 1,
        "settings.check_first_batch": False, **files,
    }  # fmt: skip
    changes = [part for key, value in small.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    assert f"evovpo study paper/{name}" in in_table("reproduce.md").values()
    command = ("study", f"paper/{name}", "--model", model, "--set=test=3", *changes, "--out", "out")
    done = evovpo(*command, "--json")
    assert done.code == 0, done.err
    # Stopped after its first step, a training goes on to the same weights.
    arm = tmp_path / "out" / "vpo-0"
    trained, asked = load_file(arm / "model.safetensors"), json.loads((arm / "training.json").read_text())
    shutil.rmtree(arm / "checkpoint-2")
    (arm / "model.safetensors").unlink()
    write_json(arm / "training.json", {key: asked[key] for key in ("asked", "before")})
    again = evovpo(*command, "--json")
    assert "Going on from" in again.err
    assert again.json == done.json
    weights = load_file(arm / "model.safetensors")
    assert all(torch.equal(weights[key], trained[key]) for key in trained)
    rows = done.json["rows"]
    arms = [arm["name"] for arm in read_toml(PAPER / f"{name}.toml")["arms"]]
    assert list(dict.fromkeys(row["arm"] for row in rows)) == arms
    for row in rows:
        assert row["minus_start"]["low"] <= row["minus_start"]["mean"] <= row["minus_start"]["high"]
        assert (row["minus_reference"] is None) == (row["arm"] == "grpo")
    assert max(row["mean"] for row in rows) > 0
    shown = evovpo(*command, "--report-only")
    assert shown.code == 0
    assert "The paper reports" in (tmp_path / "out" / "report.md").read_text()
    # One of its trainings, by itself: the same, and so made before.
    one = evovpo("train", "--config", "out/recipe.json", "--arm", "vpo-at-k", "--output", "out/vpo-at-k-0")
    assert one.code == 0, one.err
    assert "was made before" in one.err
    # Behind a server its answers earn what they are worth.
    recipe = read_recipe(PAPER / f"{name}.toml")
    data = ("--data", files["data"]) if files else ()
    words = right_answers(name)
    with numbered(lambda number: words[number % len(words)]) as url:
        served = evovpo(
            "measure", "--domain", recipe.domain, *data, "--model=vpo", "--base-url", url, "--k=1,10",
            "--prompts=2", "--json",
        )  # fmt: skip
    assert served.code == 0, served.err
    assert served.json["best_at_k"]["10"]["mean"] > 0.5


def test_every_recipe_is_read_and_its_cost_is_stated() -> None:
    for name in RECIPES:
        recipe = read_recipe(PAPER / f"{name}.toml")
        costs = {one["arm"]: one for one in cost_of(recipe)}
        steps = recipe.steps * recipe.prompts * recipe.rollouts * recipe.seeds
        measured = 2 * recipe.test * max(recipe.ks) * recipe.seeds
        assert costs["grpo"]["tokens"] == (steps + measured) * longest(recipe.domain, 1)
        assert costs["vpo"]["tokens"] == (steps + measured // 3) * longest(recipe.domain, 3)
        assert costs["grpo"]["gpu_hours"] > 1
        # Weights, gradients, two moments and the reference of the KL term, in float32, over the GPUs.
        assert costs["grpo"]["memory_bytes"] == 20 * recipe.machine.parameters / recipe.machine.gpus


def test_what_is_wrong_with_a_recipe_is_said_at_once(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"domain": "musiqe"}, "did you mean 'musique'"),
        ({"reference": "gprs"}, "reference: 'gprs' is no arm"),
        ({"step": 3}, "unknown key 'step'"),
        ({"steps": 0}, "steps: expected"),
        ({"accelerate": "none.yaml"}, "expected a configuration of accelerate, found none"),
    ]
    for changes, said in wrong:
        with pytest.raises(ConfigError, match=said):
            read_recipe(PAPER / "musique.toml", changes)


def test_data_other_than_the_recipe_names_are_refused(tmp_path: Path) -> None:
    row = FORMATS["musique"][0]
    parts = [str(write_jsonl(tmp_path / f"{name}.jsonl", [row(name)])) for name in range(2)]
    meant = hashlib.sha256(b"".join(Path(part).read_bytes() for part in parts)).hexdigest()
    changes: dict[str, Any] = {"data": ",".join(parts), "data_sha256": meant}
    asked = asked_of(read_recipe(PAPER / "musique.toml", changes), "vpo", 0, "out", {})
    with asked.open(for_test=False) as domain:
        assert len(domain.prompts) == 2
    write_jsonl(tmp_path / "1.jsonl", [row(2)])
    with pytest.raises(ProblemError, match=f"with the SHA-256 {meant}, found .*another version"):
        asked.open(for_test=False)


@quiet
@pytest.mark.slow
def test_what_the_machine_lacks_is_said_before_anything_is_spent(evovpo: Shell) -> None:
    if torch.accelerator.is_available() or find_spec("vllm"):
        pytest.skip("this machine has a GPU or vLLM")
    here, alone = ("--set", "settings.use_vllm=false"), ("--set", "accelerate=")
    for options, said in (
        ((), "use_vllm: expected vLLM, found none installed"),
        (here, "expected 8 GPUs, found 0; name another file with --set accelerate=FILE"),
        (
            (*here, *alone, "--model=no/such/model/here"),
            "model 'no/such/model/here': expected a model folder",
        ),
        ((*here, *alone, "--arms=grpo,vop"), "unknown arm 'vop'; did you mean 'vpo'"),
        ((*here, *alone, "--processes=7"), "--processes: the file says this itself"),
    ):
        done = evovpo("study", "paper/maze", *options)
        assert done.code == 2
        assert said in done.err


@quiet
@pytest.mark.slow
def test_a_training_of_a_recipe_takes_options_in_the_place_of_its_own(evovpo: Shell) -> None:
    assert "name one of grpo, max-at-k" in evovpo("train", "--config", PAPER / "maze.toml").err
    assert "--domain, or a recipe" in evovpo("train").err
    recipe = read_recipe(PAPER / "maze.toml")
    asked = asked_of(recipe, "vpo", 3, "out", {"steps": 7, "settings": {"beta": 0.0}})
    assert (asked.steps, asked.seed, asked.objective, asked.answers_per_chain) == (7, 3, "vpo", 3)
    assert (asked.settings["beta"], asked.settings["learning_rate"]) == (0.0, 1e-6)
    assert dict(asked.sampling) == {"temperature": 0.7, "top_p": 1.0}
