"""OpenEvolve's YAML as settings here: every key once, values as its own loader means them, no secrets."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.problem.openevolve import config_file as module
from evovpo.problem.openevolve import config_keys
from evovpo.problem.openevolve.config_file import Effect, OpenEvolveSettings, read_settings
from evovpo.types import Feature


def read(tmp_path: Path, text: str) -> OpenEvolveSettings:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return read_settings(path)


def effects(settings: OpenEvolveSettings) -> dict[str, Effect]:
    return {key.name: key.effect for key in settings.keys}


def test_values_become_ours(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
max_iterations: 50
random_seed: 7
diff_based_evolution: false
early_stopping_patience: 20
parallel_evaluations: 3
llm:
  api_base: http://localhost:1/v1
  primary_model: small
  temperature: 0.5
  max_tokens: 2000
  timeout: 30
  retries: 2
prompt:
  system_message: Sort fast.
  num_top_programs: 2
  include_artifacts: false
  max_artifact_bytes: 100000
database:
  num_islands: 4
  archive_size: 30
  migration_interval: 5
  migration_rate: 0.25
  exploration_ratio: 0.25
  exploitation_ratio: 0.25
  feature_dimensions: [complexity, diversity, speed]
  feature_bins: 6
evaluator:
  timeout: 12
  memory_limit_mb: 500
  cascade_evaluation: false
  cascade_thresholds: [0.1, 1]
""",
    )
    assert found.values == {
        "search.evaluations": 50,
        "run.seed": 7,
        "prompt.style": "rewrite",
        "search.patience": 20,
        "sandbox.workers": 3,
        "proposer.base_url": "http://localhost:1/v1",
        "proposer.name": "openai",
        "proposer.model": "small",
        "sampling.temperature": 0.5,
        "sampling.max_tokens": 2000,
        "proposer.timeout_seconds": 30,
        "proposer.attempts": 3,
        "evaluator.artifacts": False,
        "search.islands": 4,
        "search.elites": 8,
        "search.migration_interval": 5,
        "search.migration_rate": 0.25,
        "search.ways": {"climb": 0.25, "explore": 0.25, "combine": 0.25, "repair": 0.15, "fresh": 0.1},
        "evaluator.timeout_seconds": 12,
        "evaluator.memory_mb": 500,
        "evaluator.thresholds": [],
    }
    assert found.models == ()
    assert found.statement == "Sort fast."
    assert {name for name, effect in effects(found).items() if effect is not Effect.MAPPED} == {
        "prompt.num_top_programs",
        "prompt.max_artifact_bytes",
    }
    assert found.features(("speed", "size")) == (Feature("length", bins=6), Feature("reward:speed", bins=6))
    assert found.features(("combined_score",))[1] == Feature("metric:speed", bins=6)
    scored = read(tmp_path, "database: {feature_dimensions: [score, complexity]}\n")
    assert [feature.name for feature in scored.features(("combined_score",))] == ["score", "length"]
    config = Config.load(None, {"search.islands": 9}, found.base())
    assert (config.search.evaluations, config.search.islands) == (50, 9)


@pytest.mark.parametrize(
    ("ratios", "ways"),
    [
        (
            "exploration_ratio: 0.5",  # its default exploits 0.7: more than all together, so nothing is left
            {"climb": 0.7, "explore": 0.5, "combine": 0.0, "repair": 0.0, "fresh": 0.0},
        ),
        (
            "exploration_ratio: 0.2, exploitation_ratio: 0.7",
            {"climb": 0.7, "explore": 0.2, "combine": 0.05, "repair": 0.03, "fresh": 0.02},
        ),
        (
            "exploration_ratio: -1, exploitation_ratio: 0",
            {"climb": 0.0, "explore": 0.0, "combine": 1.0, "repair": 0.6, "fresh": 0.4},
        ),
    ],
)
def test_ratios_become_the_shares_of_ways_at_first(
    tmp_path: Path, ratios: str, ways: dict[str, float]
) -> None:
    found = read(tmp_path, f"database: {{{ratios}}}\n")
    assert found.values["search.ways"] == pytest.approx(ways)
    assert Config.load(None, None, found.base()).search.ways == pytest.approx(ways)


def test_several_models_and_settings_of_one_model_become_tables(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
llm:
  api_key: ${SOME_KEY}
  top_p: 0.9
  models:
    - {name: a, weight: 0.8, temperature: 0.1, api_base: "http://localhost:2/v1", api_key: "${OTHER_KEY}"}
    - {name: b, weight: 0.2, reasoning_effort: low}
    - {name: c, weight: 0.5}
    - {name: c, weight: 0.25}
    - {name: unused, weight: 0}
""",
    )
    shared = {"extra": {"top_p": 0.9}, "key_variable": "SOME_KEY"}
    own = {"base_url": "http://localhost:2/v1", "temperature": 0.1, "key_variable": "OTHER_KEY"}
    assert found.models == (
        shared | {"name": "a", "weight": 0.8} | own,
        shared | {"name": "b", "weight": 0.2, "extra": {"top_p": 0.9, "reasoning_effort": "low"}},
        shared | {"name": "c", "weight": 0.75},
    )
    config = Config.load(None, None, found.base())
    assert [model.name for model in config.models] == ["a", "b", "c"]
    assert config.proposer.name == "openai"


def test_a_secret_is_neither_kept_nor_shown(tmp_path: Path) -> None:
    found = read(tmp_path, "llm:\n  api_key: sk-secret\n  models:\n  - {name: a, api_key: sk-secret-too}\n")
    assert "sk-secret" not in repr(found)
    assert effects(found)["llm.api_key"] is effects(found)["llm.models[].api_key"] is Effect.NONE


def test_a_key_named_by_a_variable_needs_no_such_variable_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    found = read(tmp_path, "llm: {api_key: '${NO_SUCH_KEY}', primary_model: a}\n")
    assert found.models == ({"name": "a", "weight": 1.0, "key_variable": "NO_SUCH_KEY"},)


def test_keys_without_effect_and_unknown_ones_are_told_apart(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
max_iterations: 5
checkpoint_interval: 10
allow_full_rewrites: true
early_stopping_patience: -1
llm: {models_folder: a, evaluator_models: [{name: j, weight: 1}]}
database: {population_size: 50, random_seed: null, feature_bins: {complexity: 4}}
algotune: {size: 3, deep: {er: 1}}
prompt: {template_variations: {greeting: [hi]}}
""",
    )
    assert effects(found) == {
        "max_iterations": Effect.MAPPED,
        "checkpoint_interval": Effect.NONE,
        "allow_full_rewrites": Effect.UNKNOWN,
        "early_stopping_patience": Effect.NONE,
        "llm.models_folder": Effect.UNKNOWN,
        "llm.evaluator_models[].name": Effect.NONE,
        "llm.evaluator_models[].weight": Effect.NONE,
        "database.population_size": Effect.NONE,
        "database.random_seed": Effect.NONE,
        "database.feature_bins.complexity": Effect.MAPPED,
        "algotune.size": Effect.UNKNOWN,
        "algotune.deep.er": Effect.UNKNOWN,
        "prompt.template_variations": Effect.MAPPED,
    }
    assert all(key.remark for key in found.keys)


def test_models_without_a_name_are_left_to_the_command_line(tmp_path: Path) -> None:
    found = read(tmp_path, "llm: {primary_model: null, primary_model_weight: 0.8, temperature: 0.5}\n")
    assert (found.models, found.values) == ((), {"sampling.temperature": 0.5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset_name: x\nsplit: test\n", "found none of its keys .only dataset_name, split."),
        ("- 1\n", "expected a configuration of OpenEvolve's"),
        ("a: [\n", "expected YAML"),
        ("max_iterations: many\n", "OpenEvolve refuses this file"),
        ("llm: {model: gpt}\n", "OpenEvolve refuses this file: .*llm.primary_model"),
        ("llm: gpt\n", "llm: expected a section with keys, found 'gpt'"),
        (
            "prompt: {programs_as_changes_description: true}\ndiff_based_evolution: false\n",
            "OpenEvolve refuses",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "config.yaml") in str(caught.value)


def test_a_value_that_is_none_of_ours_names_file_and_setting(tmp_path: Path) -> None:
    found = read(tmp_path, "max_iterations: 0\n")
    with pytest.raises(ConfigError, match=r"some.yaml: search.evaluations: expected a whole number"):
        Config.load(None, None, found.base(), "some.yaml")


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing\n") == OpenEvolveSettings({}, (), "", (), ())


def test_every_setting_of_openevolve_is_known_here_and_every_setting_named_here_exists() -> None:
    from openevolve.config import Config as Theirs
    from openevolve.config import LLMModelConfig

    whole: Any = Theirs()
    names: set[str] = set()
    for field in dataclasses.fields(Theirs):
        value = getattr(whole, field.name)
        inner = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        names |= {f"{field.name}.{one.name}" for one in inner} or {field.name}
    handled = {
        "llm.api_key",
        "llm.models",
        "llm.system_message",
        "prompt.system_message",
        "database.feature_dimensions",
        "database.feature_bins",
        *(f"llm.{name}" for name in config_keys.OF_ONE_MODEL),
    }
    known = config_keys.MAPPED.keys() | config_keys.WITHOUT_EFFECT.keys() | handled
    assert {name for name in names if not name.rpartition(".")[2].startswith("_")} == known
    assert not config_keys.MAPPED.keys() & config_keys.WITHOUT_EFFECT.keys()
    ours = Config()
    for setting, _ in config_keys.MAPPED.values():
        section, _, key = setting.partition(".")
        assert hasattr(getattr(ours, section), key), setting
    for field in dataclasses.fields(LLMModelConfig):
        if not field.name.startswith("_") and field.name != "api_key":
            assert module._model_key(f"llm.models[].{field.name}", field.name).effect is not Effect.UNKNOWN
