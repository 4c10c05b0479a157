"""The configuration tree: defaults, files, overrides, and the refusal of what it does not know."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from evovpo.config import Config, ModelConfig, PromptConfig, SandboxLevel, SearchConfig
from evovpo.errors import ConfigError
from evovpo.sandbox import Level


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "evovpo.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_override_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    path = written(tmp_path, "[search]\nislands = 2\nrollouts = 5\n")
    config = Config.load(path, Config.read_changes(["search.islands=7", "search.islands=9"]))
    assert (config.search.islands, config.search.rollouts, config.search.answers) == (9, 5, 1)


def test_differences_are_named_with_both_values() -> None:
    model = {"name": "a"}
    other = Config().changed(models=(model,), search={"islands": 2}, run={"seed": 5})
    found = Config().differences(other)
    assert found.keys() == {"search.islands", "run.seed", "models"}
    assert found["run.seed"] == (0, 5)
    assert other.differences(Config())["search.islands"] == (2, Config().search.islands)
    assert other.differences(other) == {}


def test_printed_toml_loads_as_the_same_configuration(tmp_path: Path) -> None:
    overrides = ['proposer.model=C:\\models\\"é"\x7f😀', "sampling.temperature=1e-3", "run.seed=5"]
    config = Config.load(
        None, Config.read_changes([*overrides, "search.ways={climb=0.8, fresh=0.2}", "search.rollouts=3"])
    )
    assert Config.load(written(tmp_path, config.to_toml())) == config
    assert Config.load(written(tmp_path, Config().to_toml())) == Config()


def test_a_table_is_read_from_files_overrides_and_stored_json(tmp_path: Path) -> None:
    ways = {"climb": 0.8, "fresh": 0.2}
    in_file = Config.load(written(tmp_path, "[search]\nways = {climb = 0.8, fresh = 0.2}\n"))
    override = Config.load(None, Config.read_changes(["search.ways={climb=0.8, fresh=0.2}"]))
    assert (
        in_file == override == Config.from_json(override.to_json()) == Config().changed(search={"ways": ways})
    )
    assert override.search.ways == ways


def test_a_table_of_a_section_is_changed_as_a_whole() -> None:
    first = SearchConfig().changed(ways={"climb": 1.0})
    assert first.changed(ways={"fresh": 1.0}).ways == {"fresh": 1.0}
    assert first.changed(ways={}) == SearchConfig()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ways": {"climb": 0.0}}, "gives every way a share of 0"),
        ({"ways": {"climb": 1.0}, "strategy": "iid"}, r"search\.ways is given with search\.strategy iid"),
        ({"answers": 5}, "answers"),
    ],
)
def test_values_given_in_code_are_checked_too(values: dict[str, Any], message: str) -> None:
    for make in (SearchConfig, SearchConfig().changed):
        with pytest.raises(ConfigError, match=message):
            make(**values)


@pytest.mark.parametrize("key", SearchConfig.gone)
def test_a_setting_that_is_gone_is_refused_with_what_replaces_it(tmp_path: Path, key: str) -> None:
    assert key not in SearchConfig.model_fields
    with pytest.raises(ConfigError, match=rf"search\.{key} is gone: ") as caught:
        Config.load(written(tmp_path, f"[search]\n{key} = 1\n"))
    assert SearchConfig.gone[key] in str(caught.value)
    with pytest.raises(ConfigError, match=rf"search\.{key} is gone: "):
        Config.load(None, Config.read_changes([f"search.{key}=1"]))


def test_settings_that_are_gone_are_left_out_of_stored_configurations() -> None:
    stored = '{"search": {"root_share": 0.3, "migrants": 4, "goals": true, "islands": 2}, "run": {"seed": 4}}'
    assert Config.from_json(stored) == Config().changed(search={"islands": 2}, run={"seed": 4})
    with pytest.raises(ConfigError, match="root_share"):
        Config.from_json('{"run": {"root_share": 0.3}}')  # of another section: unknown


def test_printed_toml_explains_every_field() -> None:
    lines = Config().to_toml().splitlines()
    for section, values in tomllib.loads(Config().to_toml()).items():
        for key in values:
            position = next(i for i, line in enumerate(lines) if line.startswith(f"{key} = "))
            assert lines[position - 1].startswith("# "), f"{section}.{key}"


def test_json_without_a_field_gets_its_default() -> None:
    assert Config.from_json('{"search": {"islands": 2}}').search == SearchConfig(islands=2)
    assert Config.from_json('{"prompt": {"style": "formula"}}').prompt == PromptConfig()


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("[search]\nisland = 2\n", ["evovpo.toml", "search.island", "'islands'"]),
        ("[serch]\nislands = 2\n", ["evovpo.toml", "[serch]", "'search'"]),
        ("search = 2\n", ["evovpo.toml", "[search]", "found 2"]),
        ("[search]\nislands = 2.0\n", ["search.islands", "whole number", "2.0"]),
        ("[search]\njoins = 1\n", ["search.joins", "true or false", "found 1"]),
        ("[search]\nislands = 0\n", ["search.islands", "from 1", "found 0"]),
        ("[search]\nanswers = 5\n", ["search.answers", "from 1 to 4", "found 5"]),
        ("[search]\nmigration_rate = nan\n", ["search.migration_rate", "from 0 to 1", "nan"]),
        ("[search]\nstrategy = 'islnds'\n", ["search.strategy", "'islands'"]),
        ("[search]\nways = 'climb'\n", ["search.ways", "a table of numbers", "'climb'"]),
        ("[search]\nways = {clim = 1.0}\n", ["search.ways", "climb"]),
        ("[search]\nways = {climb = -1.0}\n", ["search.ways", "0 or more"]),
        ("[search]\nrollouts = -1\n", ["search.rollouts", "whole number", "found -1"]),
        ("[sampling]\ntemperature = 0\n", ["sampling.temperature", "above 0", "found 0"]),
        ("[store]\nurl = 3\n", ["store.url", "a text", "found 3"]),
        ("[search\n", ["evovpo.toml", "line 1"]),
    ],
)
def test_a_bad_file_is_refused_naming_the_key_and_what_was_expected(
    tmp_path: Path, text: str, fragments: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load(written(tmp_path, text))
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("override", "fragments"),
    [
        ("search.evaluation=5", ["'evaluations'"]),
        ("search.evaluations=many", ["whole number", "'many'"]),
        ("search.evaluations=-1", ["found -1"]),
        ("search.ways={climb=", ["search.ways", "a table of numbers"]),
        ("search.rollouts=many", ["search.rollouts", "whole number", "'many'"]),
        ("evaluator.thresholds=high", ["a list of numbers", "'high'"]),
        ("search.joins=perhaps", ["true or false", "'perhaps'"]),
        ("sampling.temperature=warm", ["a number", "'warm'"]),
        ("search.evaluations", ["section.key=value"]),
    ],
)
def test_a_bad_override_is_refused_naming_itself(override: str, fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load(None, Config.read_changes([override]))
    for fragment in [override.partition("=")[0].rpartition(".")[2], *fragments]:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("evaluator.thresholds=0.5, 1", (0.5, 1.0)),
        ("evaluator.thresholds=[0.5, 1]", (0.5, 1)),
        ("evaluator.thresholds=", ()),
        ("evaluator.allow=env=HOME, network", ("env=HOME", "network")),
        ("sandbox.resources=num_cpus=2,memory=4e9", {"num_cpus": 2, "memory": 4e9}),
        ('evaluator.judges={"models": [], "weight": 0.1}', {"models": [], "weight": 0.1}),
        ("search.target=", None),
        ("search.target=0", 0.0),
        ("proposer.model=7", "7"),
        ("proposer.model=None", None),
        ("budget.tokens=0", None),
        ("search.rollouts=3", 3),
        ("search.rollouts=None", None),
    ],
)
def test_the_text_of_a_setting_is_read_as_its_type(text: str, value: object) -> None:
    name = text.partition("=")[0]
    config = Config.load(None, Config.read_changes([text]))
    section, _, key = name.partition(".")
    found = getattr(getattr(config, section), key)
    assert found == value
    assert type(found) is type(value)
    assert Config.from_json(config.to_json()) == config


def test_settings_in_the_form_of_earlier_versions_are_read(tmp_path: Path) -> None:
    stored = {
        "evaluator": {"allow": "env=HOME, network", "thresholds": "0.5, 1", "judges": "", "metrics": ""},
        "sandbox": {"resources": "num_cpus=2", "workers": 0},
        "search": {"target": "0.9", "patience": 0, "beam": 4},
        "run": {"programs": "a,b", "origin": "one", "archipelago": ""},
        "models": [
            {
                "name": "a",
                "extra": '{"reasoning_effort": "low"}',
                "temperature": 0.0,
                "top_p": 0.9,
                "price_in": 2.0,
            }
        ],
        "prompt": {"openevolve": ""},
    }
    config = Config.from_json(json.dumps(stored))
    model = {
        "name": "a",
        "extra": {"reasoning_effort": "low", "top_p": 0.9},
        "temperature": None,
        "price": (2, 0),
    }
    assert config == Config().changed(
        evaluator={"allow": ("env=HOME", "network"), "thresholds": (0.5, 1.0)},
        sandbox={"resources": {"num_cpus": 2.0}},
        search={"target": 0.9},
        run={"origin": ("one", "a", "b")},
        proposer={"name": "openai"},
        models=(ModelConfig(**model),),
    )
    del stored["search"]["beam"]
    stored["run"] = {"origin": "one, a, b"}
    stored["models"] = [model]
    assert Config.load(None, None, stored) == config
    assert Config.from_json('{"evaluator": {"cascade": false}}').evaluator.thresholds == ()


def test_a_server_in_the_settings_is_the_proposer_unless_another_is_named() -> None:
    server = {"proposer.base_url": "http://localhost:8000/v1"}
    assert Config.load(None, server).proposer.name == "openai"
    assert Config.load(None, {**server, "proposer.name": "random"}).proposer.name == "random"
    assert Config.load(None, None, {"models": [{"name": "a"}]}).proposer.name == "openai"
    assert Config.load(None, {"proposer.model": "folder"}).proposer.name == "local"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        Config.load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"search": []}', '{"search": {"islnds": 2}}', '{"search": {"islands": "2"}}']
)
def test_stored_json_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="stored configuration"):
        Config.from_json(text)


def test_the_isolation_levels_are_those_of_the_sandbox() -> None:
    assert tuple(Level) == get_args(SandboxLevel)
