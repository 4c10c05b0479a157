"""How the seeds of a batch or a study are named."""

import pytest

from evovpo.experiments.toml_reader import parse_seeds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-4", (0, 1, 2, 3, 4)), ("7", (7,)), ("0,3,7-9", (0, 3, 7, 8, 9)), (" 2 - 3 , 1", (2, 3, 1))],
)
def test_seeds_are_read_in_their_order(text: str, expected: tuple[int, ...]) -> None:
    assert parse_seeds(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "expected seeds as 0-4") for text in ("", "a", "3-1", "-1", "1,,2", "1-2-3", "1.5")),
        ("0-3,2", "names a seed twice"),
        ("0-999999999999", "more than 10000"),
    ],
)
def test_what_names_no_seeds_one_twice_or_too_many_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_seeds(text)
