"""Advice for an unsolved run, from its stored data."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice
from typing import Any

from evovpo.config import Config
from evovpo.reports.text import counted, printable
from evovpo.runs.stored import RunView
from evovpo.store import Store, rises
from evovpo.types import ParseStatus, RunStatus, Status

_MOST = 3
_MANY, _FEW, _SOME = 1 / 3, 1 / 4, 1 / 20
_ALLOW = "allow them more, under [limits] in problem.toml or by evaluator settings"
_AGAINST = {Status.TIMEOUT: _ALLOW, Status.MEMORY: _ALLOW, Status.SANDBOX_ERROR: "see docs/sandbox.md"}
_OTHERWISE = "a starting program or the statement can show what is wanted"


def advice(
    view: RunView,
    store_option: str = "",
    answers: Sequence[Mapping[str, Any]] = (),
    is_failed: bool = False,
    fault_of: Callable[[Status], str] = lambda status: "",
) -> list[str]:
    """Return up to three sentences of advice, most useful first; none for a run that is solved.

    `answers` are the first answers, from `Store.answers`; one without a program may be quoted. If `is_failed`
    is true (no program was judged, or all failed), another seed is not advised. `fault_of` returns the most
    frequent feedback on programs with a status; it is called only if many have the status.
    """
    config, calls = Config.from_json(view.run.config_json), view.summary.calls
    budget, target, outcome = config.budget, config.search.target, view.outcome(0.0)
    if outcome.is_memorised:
        wrong = "the held-out examples that it gets wrong: correct them, or add more training examples alike"
        return [wrong, "another --seed"]
    if outcome.solved or (target is not None and outcome.best >= target):
        return []
    more = f"--evaluations {2 * view.run.evaluations}"
    used, spent = calls.prompt_tokens + calls.completion_tokens, calls.cost or 0.0
    if budget.tokens and used >= budget.tokens:
        more = f"--set budget.tokens={2 * used}"
    if budget.money and spent >= budget.money:
        more = f"--set budget.money={2 * spent:g}"
    if config.search.patience and view.run.status is RunStatus.STOPPED:
        more += " --set search.patience=0"
    is_imported = config.proposer.name == "imported"
    further = f"evolve PROJECT --from {view.run.id}" if is_imported else f"resume {view.run.id} {more}"
    reasons = _reasons(view, f"evovpo {further}{store_option}", answers, is_failed, fault_of)
    return list(islice(reasons, _MOST))


def _reasons(
    view: RunView,
    further: str,
    answers: Sequence[Mapping[str, Any]],
    is_failed: bool,
    fault_of: Callable[[Status], str],
) -> Iterator[str]:
    summary, problem, config = view.summary, view.problem, Config.from_json(view.run.config_json)
    proposed, calls = max(1, summary.proposed), summary.calls
    if calls.failed > _MANY * calls.calls:
        ((reason, _),) = Counter(calls.faults).most_common(1)
        most = min(config.proposer.concurrency, config.search.in_flight)
        less = f"proposer.concurrency={max(1, most // 2)}"
        helps = f"--set {less}" if reason == "http 429" else "see the server's log"
        helps = "--set proposer.timeout_seconds=S" if reason == "timeout" else helps
        yield (
            f"{calls.failed} of {counted(calls.calls, 'request')} brought nothing, most often: "
            f"{printable(reason)}; {helps}"
        )
    read = summary.by_parse_status
    cut = sum(one["finish_reason"] == "length" for one in answers)
    empty = sum(not one["text"] for one in answers)
    if config.proposer.name == "openai" and cut + empty > _SOME * len(answers):
        helps = "more sampling.max_tokens, less thinking, or another model" if cut else "see the server's log"
        yield (
            f"{cut} of the first {len(answers)} replies were cut off at the limit of tokens, {empty} held no "
            f"text: {helps}"
        )
    elif (unread := read.get(ParseStatus.UNPARSED, 0)) > _MANY * proposed:
        helps = "--set prompt.style=rewrite, " * (config.prompt.style == "diff") + "another model"
        without = [one for one in answers if one["parse_status"] == ParseStatus.UNPARSED]
        quoted = next((one for one in without if one["text"]), None) or next(iter(without), None)
        such = "" if quoted is None else _example(quoted)
        yield f"{unread} of {proposed} answers held no program{such}: {helps}"
    for kind, count in Counter(summary.by_status).most_common():
        if kind is not Status.OK and count > _MANY * proposed:
            said = printable(fault_of(kind)[:150])
            fault = f", most often {said!r}" * bool(said)
            yield f"{count} of {proposed} programs ended with {kind}{fault}: {_AGAINST.get(kind, _OTHERWISE)}"
    late = [after for after, _ in rises(summary.curve, 5) if after > 0.7 * proposed]
    if late:
        yield f"it still got better after {late[-1]} of {proposed} evaluations: {further}"
    passed = {tuple(value >= 1.0 for value in vector) for _, vector in summary.risen}
    nearly: tuple[bool, ...] = max(passed, key=sum, default=())
    is_near = 0 < nearly.count(False) < _FEW * len(nearly)
    columns = [nearly] if is_near else passed
    wrong = [place for place, column in enumerate(zip(*columns, strict=True)) if not any(column)]
    pairs = combinations(passed, 2)
    if problem.is_by_example and not is_near and any(all(map(max, one, other)) for one, other in pairs):
        yield "two of its programs are right on all rows together, but not joined: more rows of each kind"
    elif problem.is_by_example and wrong:
        rows = ", ".join(str(place + 1) for place in wrong[:4]) + ", ..." * (len(wrong) > 4)
        hint = "correct mistakes in them, or add more alike"
        if len(wrong) > _FEW * len(problem.train):
            hint = "check that the result follows from the inputs alone" + f", or {further}" * (not late)
            if config.proposer.name == "local":
                hint = "the built-in model writes short expressions: split a long result into columns, "
                hint += "and leave out a text that all results have"
        who = "its best program is wrong" if is_near else "no program is right"
        yield f"{who} on training examples {rows} (# in the table): {hint}"
    if (again := read.get(ParseStatus.DUPLICATE, 0)) > 0.5 * proposed and config.proposer.name != "own":
        helps = f"--set sampling.temperature={config.sampling.temperature + 0.3:g}"
        helps = (
            "a higher temperature in [[models]]" if any(one.temperature for one in config.models) else helps
        )
        yield f"{again} of {proposed} answers were programs that it had before: {helps}"
    if config.proposer.name in ("local", "random"):
        yield "a larger model behind a server: --base-url URL --model NAME"
    if not is_failed:
        yield "another --seed" + f", or {further}" * (not late)


def stored_advice(store: Store, view: RunView, options: str = "", is_failed: bool = False) -> list[str]:
    if view.outcome(0.0).is_right:
        return []
    answers = store.answers(view.run.id, 0, 1000, None, 100)
    fault_of = partial(common_fault, store, view.problem.version)
    return advice(view, options, answers, is_failed, fault_of)


def common_fault(store: Store, version: str, status: Status) -> str:
    """Return the most frequent last line of the feedback on a problem's programs with a status, or ""."""
    judged = [one for one in store.known_evaluations(version).values() if one.status is status]
    lines = Counter(one.feedback.splitlines()[-1] for one in judged if one.feedback.strip())
    return max(lines, key=lines.__getitem__, default="")


def _example(answer: Mapping[str, Any]) -> str:
    text, reason = (printable(" ".join((answer[name] or "").split())) for name in ("text", "reason"))
    return f", such as {text!r}" * bool(text) + f" ({reason})" * bool(reason)
