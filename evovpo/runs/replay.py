"""Replays a stored run: rebuilds its search from the stored rows, and checks the rows."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from evovpo.builtin.strings.joining import join_language
from evovpo.config import GONE_STRATEGIES, Config
from evovpo.errors import ReplayError, SearchError
from evovpo.runs.choices import choose_format
from evovpo.runs.group import GroupJudge
from evovpo.runs.request import with_originals
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    Problem,
    Prompt,
    PromptKind,
    Run,
    RunPart,
    RunStatus,
    Status,
    Tell,
    content_id,
)

_READ = attrgetter("text", "program", "token_span", "parse_status", "reason")
_CAUSE = "the run was made by another version of evovpo, or its rows were changed"


class RebuiltRun(NamedTuple):
    search: SearchState
    problem: Problem
    config: Config
    run: Run
    events: int
    is_older: bool = False
    """True if an earlier version made the latest part, so that its prompts cannot be recomputed."""


def build_search(problem: Problem, config: Config, run: Run) -> SearchState:
    settings = config.search.changed(evaluations=run.evaluations)
    made_by, language = choose_format(problem, config), join_language(problem)
    return SearchState(problem, settings, made_by, run.id, search_seed(problem, run.seed), language)


def search_seed(problem: Problem, seed: int) -> int:
    """Return a seed made from the run's seed and the problem, so that searches are independent."""
    return int(content_id(problem.id, str(seed)), 16)


def rebuild(run_id: str, store: Store, *, reads_again: bool = False) -> RebuiltRun:
    """Return a stored run with its search, rebuilt up to the last reply. For `reads_again`, see `replay`."""
    run = store.run(run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    config = Config.from_json(run.config_json)
    if config.proposer.name == "imported":
        raise ReplayError(
            f"run {run.id} was imported from another system, whose choices are not stored: it cannot be "
            f"replayed or resumed; look at it with `evovpo show {run.id}`"
        )
    begun, *parts = store.parts(run.id)
    newer = list(takewhile(lambda part: not _is_older(part), reversed((begun, *parts))))
    older_asks = newer[-1].asks_before if newer else sys.maxsize
    first = Config.from_json(begun.config_json)
    started = replace(run, evaluations=first.search.evaluations)
    search = build_search(with_originals(problem, first, store), first, started)
    history = store.history(run.id)
    events = replay(search, history, parts, reads_again=reads_again, older_asks=older_asks)
    return RebuiltRun(search, problem, config, run, events, is_older=not newer)


def verify(run_id: str, store: Store) -> tuple[SearchState, int]:
    """Replay a run to check it. Return the rebuilt search and the number of prompts and replies.

    Raises `ReplayError` at the first difference in prompts, answers or outcome. A replay does not detect
    missing rows at the end of an unfinished run, or changed tokens, log-probabilities or times.
    """
    search, _, _, run, events, _ = rebuild(run_id, store, reads_again=True)
    proposed = store.run_summary(run.id).proposed
    if search.standing.proposed != proposed:
        raise ReplayError(
            f"run {run.id} holds {proposed} candidates, and replay applied {search.standing.proposed}; its "
            "rows were changed"
        )
    half_told = [prompt for prompt, missing in search.tickets.open if len(missing) < prompt.rollouts]
    if run.status in (RunStatus.SOLVED, RunStatus.EXHAUSTED) and (
        half_told or (run.status is RunStatus.SOLVED) != search.standing.is_solved
    ):
        raise ReplayError(
            f"run {run.id} ended as {run.status}, which replay does not reach; tells are missing"
        )
    if run.status is RunStatus.STOPPED and search.standing.is_solved:
        raise ReplayError(f"run {run.id} ended as {run.status}, and replay solves it; its rows were changed")
    if run.status is RunStatus.EXHAUSTED and search.standing.proposed != run.evaluations:
        raise ReplayError(
            f"run {run.id} used its budget of {run.evaluations}, and replay applied "
            f"{search.standing.proposed} candidates; tells are missing"
        )
    return search, events


def replay(
    search: SearchState,
    history: Iterable[Prompt | Tell],
    parts: Sequence[RunPart] = (),
    *,
    reads_again: bool = False,
    older_asks: int = 0,
) -> int:
    """Apply the stored prompts and replies of a run to a new search. Return how many were applied.

    `parts` are later changes of the settings. Each recomputed prompt must equal the stored prompt. The first
    `older_asks` prompts are from an earlier version of evovpo and are not recomputed. With `reads_again`,
    completions are parsed again and must give the stored candidates. Raises `ReplayError` if a row differs.
    """
    asked: dict[str, Prompt] = {}
    waiting = list(parts)
    for number, event in enumerate(chain(history, [None])):
        place = (len(search.tickets), search.standing.tells)
        while waiting and (waiting[0].asks_before, waiting[0].tells_before) == place:
            settings = Config.from_json(waiting.pop(0).config_json)
            search.go_on(settings.search, choose_format(search.standing.problem, settings))
        if event is None:
            break
        if isinstance(event, Tell):
            if reads_again and event.prompt_id in asked:
                stored = [_READ(judged.candidate) for judged in event.judged]
                made = _read_again(search, asked[event.prompt_id], event)
                if stored != made:
                    raise ReplayError(
                        f"tell (event {number}) holds other candidates than its completion gives: "
                        f"{stored!r:.200}, expected {made!r:.200}; {_CAUSE}"
                    )
            try:
                search.tell(event)
            except SearchError as error:
                raise ReplayError(f"tell (event {number}) cannot be applied: {error}; {_CAUSE}") from error
            continue
        # In earlier versions a later ask could carry programs judged in another run.
        is_from_elsewhere = event.kind is PromptKind.SEED and event.sequence > 0
        if event.sequence < older_asks or is_from_elsewhere:
            search.take_over(event)
            continue
        ask = search.shorten() if event.kind is PromptKind.SHORTEN else search.ask()
        if ask != event:
            raise ReplayError(
                f"ask {event.sequence} (event {number}) comes out differently than stored: "
                f"{_difference(event, ask)}; {_CAUSE}"
            )
        if reads_again:
            asked[event.id] = event
    if waiting:
        raise ReplayError(f"a part begins after ask {waiting[0].asks_before}, where none can; {_CAUSE}")
    return number


def _is_older(part: RunPart) -> bool:
    search = json.loads(part.config_json).get("search", {})
    has_gone = any(search.get(key) for key in ("notes_interval", "novelty"))
    return "ways" not in search or search.get("strategy") in GONE_STRATEGIES or has_gone


def _read_again(search: SearchState, prompt: Prompt, tell: Tell) -> list[tuple[Any, ...]]:
    group = GroupJudge(search, lambda program: Evaluation(program.id, "", Status.OK, None, "", 0.0, ""))
    (made,) = group.tells(prompt, [tell.rollout], group.find_at_once(prompt, [tell.rollout]))
    reasons = [judged.candidate.reason for judged in tell.judged]
    found = [_READ(judged.candidate) for judged in made.judged]
    return [read if any(reasons[place : place + 1]) else (*read[:-1], "") for place, read in enumerate(found)]


def _difference(stored: Prompt, made: Prompt | None) -> str:
    if made is None:
        return "the search has no budget left to ask"
    for name in Prompt.__slots__:
        old, new = getattr(stored, name), getattr(made, name)
        if old != new:
            return f"{name} was {old!r:.120}, is now {new!r:.120}"
    return "no field differs"
