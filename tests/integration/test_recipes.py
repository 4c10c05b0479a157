"""The recipes of the paper, each from rows in the public format to its table, with small stand-ins."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shell import Shell
from tiny_models import write_answering_model

pytest.importorskip("trl")

from evovpo.config_tree import read_toml
from evovpo.errors import ConfigError
from tests.support.benchmark_rows import write_jsonl
from tests.unit.test_text_files import FORMATS
from trainer.domains import open_domain
from trainer.domains.catalogue import longest
from trainer.experiments.recipe import PAPER, cost_of, read_recipe

RECIPES = ("maze", "musique", "eureqa", "toolrl", "livecodebench")
quiet = pytest.mark.usefixtures("quiet_trl")


def stand_ins(name: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Return a model that knows right answers, alone and in chains of three, and the files of a recipe."""
    recipe = read_recipe(PAPER / f"{name}.toml")
    files, prompts, words = {}, [], ["<route>UP</route>"]
    if recipe.data is not None:
        row, answer, _ = FORMATS[recipe.domain]
        day = {"contest_date": "2024-10-01T00:00:00"} if recipe.domain == "livecodebench" else {}
        train = write_jsonl(folder / "train.jsonl", [row(number) | day for number in range(10)])
        files["data"] = str(train)
        if recipe.test_data:
            files["test_data"] = str(train)
        words = [answer(number) for number in range(10)]
    for answers in (1, 3):
        with open_domain(recipe.domain, files.get("data"), answers, tasks=10) as domain:
            prompts += domain.prompts
    if recipe.domain == "livecodebench":
        chains = ["\n---\n".join([words[n], words[n - 1], words[n - 2]]) for n in range(10)]
    else:
        chains = [
            "".join(f"<response_{i}>{words[(n - i) % len(words)]}</response_{i}>" for i in (1, 2, 3))
            for n in range(len(words))
        ]
    model = write_answering_model(folder / "model", prompts, [*words, *chains], enable_thinking=False)
    return str(model), files


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_from_public_rows_to_its_table(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, files = stand_ins(name, tmp_path)
    small: dict[str, Any] = {
        "steps": 2, "prompts": 2, "rollouts": 4, "ks": [1, 3], "seeds": 1, "accelerate": "",
        "settings.use_vllm": False, "settings.max_completion_length": 1,
        "settings.check_first_batch": False, **files,
    }  # fmt: skip
    changes = [part for key, value in small.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    command = ("study", f"paper/{name}", "--model", model, "--test-tasks=3", *changes, "--out", "out")
    done = Shell(capsys)(*command, "--json")
    assert done.code == 0, done.err
    rows = done.json["rows"]
    arms = [arm["name"] for arm in read_toml(PAPER / f"{name}.toml")["arms"]]
    assert list(dict.fromkeys(row["arm"] for row in rows)) == arms
    for row in rows:
        assert row["minus_start"]["low"] <= row["minus_start"]["mean"] <= row["minus_start"]["high"]
        assert (row["minus_reference"] is None) == (row["arm"] == "grpo")
    if name != "maze":
        assert max(row["mean"] for row in rows) > 0
    shown = Shell(capsys)(*command, "--report-only")
    assert shown.code == 0
    assert "The paper reports" in (tmp_path / "out" / "report.md").read_text()
    # One of its trainings, by itself: the same, and so made before.
    again = ("train", "--config", "out/recipe.json", "--arm", "vpo-at-k", "--output", "out/vpo-at-k-0")
    one = Shell(capsys)(*again)
    assert one.code == 0, one.err
    assert "was made before" in one.err


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


@quiet
@pytest.mark.slow
def test_a_training_of_a_recipe_takes_options_in_the_place_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where: Callable[..., Any] = Shell(capsys)
    assert "name one of grpo, max-at-k" in where("train", "--config", PAPER / "maze.toml").err
    assert "--domain, or a recipe" in where("train").err
    from trainer.experiments.recipe import asked_of

    recipe = read_recipe(PAPER / "maze.toml")
    asked = asked_of(recipe, "vpo", 3, "out", {"steps": 7, "settings": {"beta": 0.0}})
    assert (asked.steps, asked.seed, asked.objective, asked.answers_per_chain) == (7, 3, "vpo", 3)
    assert (asked.settings["beta"], asked.settings["learning_rate"]) == (0.0, 1e-6)
    assert dict(asked.sampling) == {"temperature": 0.7, "top_p": 1.0}
