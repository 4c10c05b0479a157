"""How the seeds of a batch or a study are named."""

import pytest

from evovpo.errors import ConfigError
from evovpo.experiments.toml_reader import parse_seeds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-4", (0, 1, 2, 3, 4)), ("7", (7,)), ("0,3,7-9", (0, 3, 7, 8, 9)), (" 2 - 3 , 1", (2, 3, 1))],
)
def test_seeds_are_read_in_their_order(text: str, expected: tuple[int, ...]) -> None:
    assert parse_seeds(text) == expected


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "1-2-3", "1.5"])
def test_what_names_no_seeds_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected seeds as 0-4"):
        parse_seeds(text)


def test_a_seed_named_twice_and_too_many_are_refused() -> None:
    with pytest.raises(ConfigError, match="names a seed twice"):
        parse_seeds("0-3,2")
    with pytest.raises(ConfigError, match="more than 10000"):
        parse_seeds("0-999999999999")
