"""Snapshots of a search: one read back goes on as the search that it was made of; reading calls nothing."""

import gzip
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from toy_runs import CONFIG, Loop, evaluation, hashed_rewards, random_writer

from evovpo.config import SearchConfig
from evovpo.prompts.request import ShownProgram
from evovpo.search.judged_programs import JudgedPrograms
from evovpo.search.snapshot import dump, load, same_state
from evovpo.types import Program, Status, Trust

EVERYTHING = {
    **{"ways": {"climb": 0.3, "explore": 0.3, "combine": 0.2, "repair": 0.2}},
    **{"notes_interval": 6, "novelty": 0.05},
}
STRATEGIES = {
    "islands": CONFIG,
    "with everything": CONFIG.changed(**EVERYTHING),
    **{name: CONFIG.changed(strategy=name) for name in ("iid", "best-of-n")},
}


def failing(text: str) -> Any:
    """Judge by a hash of the source; one program in five fails."""
    found = evaluation(text, hashed_rewards(text, 8), "hard-names-1")
    is_fault = int(found.program_id[0], 16) < 3
    return replace(found, status=Status.ERROR, rewards=(0.0,) * 8, feedback="no") if is_fault else found


def begun(config: SearchConfig) -> Loop:
    return Loop(config, judge=failing)


@pytest.mark.parametrize("config", STRATEGIES.values(), ids=STRATEGIES)
def test_a_search_read_back_goes_on_as_the_one_it_was_made_of(config: SearchConfig) -> None:
    whole, write = begun(config), random_writer(3, pool=60)
    for _ in range(15):
        whole.step(write)
    open_ticket = whole.ask() if whole.search.is_ready else None
    later = begun(config)
    later.search = load(dump(whole.search), later.search)
    assert same_state(whole.search, later.search)
    for loop in (whole, later):
        if open_ticket is not None:
            loop.tell(loop.reply(open_ticket, 0, write(open_ticket, 0)))
        loop.asked.clear()
        for _ in range(12):
            loop.step(write)
    assert len(later.asked) > 8
    assert later.asked == whole.asked
    assert later.search.stop_reason == whole.search.stop_reason
    assert list(later.search.programs.items()) == list(whole.search.programs.items())
    assert same_state(whole.search, later.search)


def test_searches_that_know_or_keep_other_things_are_told_apart() -> None:
    write = random_writer(3)
    one = begun(CONFIG)
    for _ in range(6):
        one.step(write)
    other = load(dump(one.search), one.search)
    assert same_state(one.search, other)
    other.population.visits[0,] += 1
    assert not same_state(one.search, other)
    other = load(dump(one.search), one.search)
    other.gains[3] = 0.125
    assert not same_state(one.search, other)


class Calls:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (b"no snapshot", "Not a gzipped file"),
        (gzip.compress(b""), "EOFError"),
        (gzip.compress(pickle.dumps(3)), "int in place of a search"),
        (gzip.compress(pickle.dumps(Calls())), "builtins.exec has no place"),
        (gzip.compress(pickle.dumps(load)), "evovpo.search.snapshot.load has no place"),
        (gzip.compress(b"\x80\x04\x8c\x18evovpo.search.population\x8c\x07np.load\x93."), "has no place"),
    ],
    ids=["no gzip", "nothing", "a number", "a call", "a function", "a name within a module"],
)
def test_reading_refuses_all_that_is_no_snapshot(state: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load(state, begun(CONFIG).search)


def test_a_judged_program_comes_back_as_it_was_put_in() -> None:
    programs = JudgedPrograms()
    odd = Program("def f():\n    return '\udc00\x00ä'\n")
    full = replace(
        evaluation(odd.source, (0.1, 1.0, 1 / 3)),
        **{"program_id": odd.id, "outputs": ("a", None, [1, {"b": 2.5}]), "trust": Trust.LOW},
        **{"metrics": (("score", 0.25), ("nan", "nan")), "feedback": "\ue000"},
    )
    plain = evaluation("pass", (0.0,))
    for program, found in ((odd, full), (Program("pass"), plain)):
        programs.add(ShownProgram(program, found))
    assert (programs[odd.id].program, programs[odd.id].evaluation) == (odd, full)
    assert list(programs) == [odd.id, plain.program_id]
    assert len(programs) == 2
    assert "other" not in programs
    assert programs.get("other") is None
