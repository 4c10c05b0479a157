"""The configuration tree: defaults, files, overrides, and the refusal of what it does not know."""

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from evovpo.config import Config, PromptConfig, SamplingConfig, SandboxLevel, SearchConfig
from evovpo.errors import ConfigError
from evovpo.sandbox import Level


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "evovpo.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_file_and_overrides_the_defaults_come_back() -> None:
    assert Config.load(None) == Config()


def test_an_override_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    path = written(tmp_path, "[search]\nislands = 2\nrollouts = 5\n")
    config = Config.load(path, ["search.islands=7", "search.islands=9"])
    assert (config.search.islands, config.search.rollouts, config.search.answers) == (9, 5, 1)


def test_json_gives_the_same_configuration_back() -> None:
    config = Config.load(
        None, ["search.joins=false", "sampling.temperature=0.7", "store.url=sqlite:///a=b.db"]
    )
    assert Config.from_json(config.to_json()) == config
    assert config != Config()


def test_differences_are_named_with_both_values() -> None:
    model = {"name": "a"}
    other = Config().changed(models=(model,), search={"islands": 2}, run={"seed": 5})
    found = Config().differences(other)
    assert found.keys() == {"search.islands", "run.seed", "models"}
    assert found["run.seed"] == (0, 5)
    assert other.differences(Config())["search.islands"] == (2, Config().search.islands)
    assert other.differences(other) == {}


def test_printed_toml_loads_as_the_same_configuration(tmp_path: Path) -> None:
    config = Config.load(
        None, ['proposer.model=C:\\models\\"é"\x7f😀', "sampling.temperature=1e-3", "run.seed=5"]
    )
    assert Config.load(written(tmp_path, config.to_toml())) == config


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
        ("[search]\nislands = true\n", ["search.islands", "whole number", "True"]),
        ("[search]\njoins = 1\n", ["search.joins", "true or false", "found 1"]),
        ("[search]\nislands = 0\n", ["search.islands", "from 1", "found 0"]),
        ("[search]\nanswers = 5\n", ["search.answers", "from 1 to 4", "found 5"]),
        ("[search]\nroot_share = nan\n", ["search.root_share", "from 0 to 1", "nan"]),
        ("[search]\nselection = 'lexicas'\n", ["search.selection", "'lexicase'"]),
        ("[sampling]\ntemperature = 0\n", ["sampling.temperature", "above 0", "found 0"]),
        ("[sampling]\ntemperature = inf\n", ["sampling.temperature", "inf"]),
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
        ("serch.evaluations=5", ["'search'"]),
        ("search.evaluations=many", ["whole number", "'many'"]),
        ("search.evaluations=1e3", ["whole number", "'1e3'"]),
        ("search.evaluations=-1", ["found -1"]),
        ("search.joins=perhaps", ["true or false", "'perhaps'"]),
        ("sampling.temperature=warm", ["a number", "'warm'"]),
        ("evaluations=5", ["section.key=value"]),
        ("search.evaluations", ["section.key=value"]),
    ],
)
def test_a_bad_override_is_refused_naming_itself(override: str, fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load(None, [override])
    for fragment in [repr(override), *fragments]:
        assert fragment in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        Config.load(tmp_path / "none.toml")


def test_a_whole_number_is_taken_where_a_float_is_meant(tmp_path: Path) -> None:
    temperature = Config.load(written(tmp_path, "[sampling]\ntemperature = 2\n")).sampling.temperature
    assert type(temperature) is float
    assert temperature == 2.0


def test_values_given_in_code_are_checked_too() -> None:
    with pytest.raises(ConfigError, match="answers"):
        SearchConfig(answers=5)
    with pytest.raises(ConfigError, match="temperature"):
        SamplingConfig().changed(temperature=-1.0)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"search": []}', '{"search": {"islnds": 2}}', '{"search": {"islands": "2"}}']
)
def test_stored_json_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="stored configuration"):
        Config.from_json(text)


def test_the_isolation_levels_are_those_of_the_sandbox() -> None:
    assert tuple(Level) == get_args(SandboxLevel)
