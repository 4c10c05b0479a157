"""The format of routes: prompts and completions as tokens."""

import pytest
from mazes import chain_ids

pytest.importorskip("torch")

from transformers import AutoTokenizer

from evovpo.builtin.chain import BEGIN, BEGIN_ID, END, END_ID, PAD, PAD_ID, SEPARATOR, SEPARATOR_ID
from evovpo.errors import ConfigError
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import Maze, generate_maze
from trainer.domains.maze.maze_family import (
    FIRST_CELL_ID,
    prompt_ids,
    read_route,
    route_ids,
    split_chain,
    vocabulary,
    walk,
)

TOKENIZER = AutoTokenizer.from_pretrained(MAZE_MODEL)
GENERATED = [generate_maze(f"format-{number}") for number in range(30)]

BY_HAND = Maze("S.LG.....#..G...........................B...................L..........D........E", budget=25)
ALONG_THE_EDGE = [*range(1, 9), *range(17, 81, 9)]


def test_the_first_ids_are_those_of_the_chain_format() -> None:
    tokens = vocabulary()
    assert [tokens[i] for i in (PAD_ID, BEGIN_ID, END_ID, SEPARATOR_ID)] == [PAD, BEGIN, END, SEPARATOR]
    assert len(set(tokens)) == len(tokens)


def test_a_prompt_lists_everything_but_floor_row_by_row() -> None:
    text = TOKENIZER.decode(list(prompt_ids(BY_HAND, 3)))
    assert text == "⟦m3⟧⟦b25⟧⟦S00⟧⟦L02⟧⟦G03⟧⟦#10⟧⟦G13⟧⟦B44⟧⟦L66⟧⟦D78⟧⟦E88⟧⟦go⟧"


def test_different_mazes_have_different_prompts_and_the_wish_changes_one_token() -> None:
    assert len({prompt_ids(maze, 1) for maze in GENERATED}) == len(GENERATED)
    one, three = prompt_ids(BY_HAND, 1), prompt_ids(BY_HAND, 3)
    assert [a == b for a, b in zip(one, three, strict=True)] == [False] + [True] * (len(one) - 1)


def test_a_route_reads_back_as_its_moves() -> None:
    assert read_route(BY_HAND, route_ids(ALONG_THE_EDGE)) == 8 * "R" + 8 * "D"
    assert read_route(BY_HAND, route_ids([1, 10, 1, 0])) == "RDUL"


def test_a_wall_beside_the_walker_is_a_blocked_step() -> None:
    assert read_route(BY_HAND, route_ids([9, 1, 2])) == "DRR"
    assert walk(BY_HAND, "DRR").visited == (0, 0, 1, 2)


@pytest.mark.parametrize(
    "ids",
    [
        [],
        route_ids([2]),
        route_ids([0]),
        route_ids([1, 2, 4]),
        route_ids([9, 18]),  # the wall was not entered, so that 18 is not beside the walker
        [*route_ids(range(1, 9)), FIRST_CELL_ID + 9],  # the next cell number, but one row down
        [*route_ids([1]), PAD_ID],
        [*prompt_ids(BY_HAND, 1)[:1], *route_ids([1])],
    ],
)
def test_what_is_not_a_route_is_unreadable(ids: list[int]) -> None:
    assert read_route(BY_HAND, ids) is None


def test_a_chain_splits_into_its_routes_and_their_spans() -> None:
    ids = chain_ids([[1, 2], [1], [1, 10]])
    assert ids.count(SEPARATOR_ID) == 2
    assert ids[-1] == END_ID
    slots = list(split_chain(BY_HAND, ids))
    assert [slot.moves for slot in slots] == ["RR", "R", "RD"]
    assert [slot.span for slot in slots] == [(0, 2), (3, 4), (5, 7)]
    for slot, route in zip(slots, [[1, 2], [1], [1, 10]], strict=True):
        assert ids[slice(*slot.span)] == route_ids(route)


def test_a_chain_without_end_keeps_its_last_route_and_nothing_counts_after_the_end() -> None:
    assert [slot.moves for slot in split_chain(BY_HAND, chain_ids([[1], [1, 2]])[:-1])] == ["R", "RR"]
    after = [*chain_ids([[1]]), SEPARATOR_ID, *route_ids([1, 2])]
    assert [slot.moves for slot in split_chain(BY_HAND, after)] == ["R"]
    assert [slot.moves for slot in split_chain(BY_HAND, [])] == [None]


@pytest.mark.parametrize("answers", [0, 4])
def test_a_prompt_that_the_model_cannot_read_is_refused(answers: int) -> None:
    with pytest.raises(ConfigError, match=f"1 to 3 routes; got {answers}"):
        prompt_ids(BY_HAND, answers)


def test_text_survives_a_round_trip_and_other_text_becomes_unknown() -> None:
    assert TOKENIZER.get_vocab() == {token: index for index, token in enumerate(vocabulary())}
    for ids in (prompt_ids(GENERATED[0], 2), chain_ids([ALONG_THE_EDGE, [1]])):
        text = TOKENIZER.decode(list(ids))
        assert TOKENIZER(text)["input_ids"] == list(ids)
        assert text == "".join(vocabulary()[token] for token in ids)
    assert TOKENIZER("⟦01⟧ up ⟦02⟧")["input_ids"] == [
        FIRST_CELL_ID + 1,
        TOKENIZER.unk_token_id,
        FIRST_CELL_ID + 2,
    ]
