"""Servers that misbehave, refuse, charge or compete: what the openai proposer makes of them, row by row."""

import asyncio
import json
import logging
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, Faults, serve
from http_servers import answering_all
from proposer_conformance import SAMPLING, content, make_prompt, replies, run_with
from served_model import *  # noqa: F403
from served_model import make_openai
from shell import Shell
from tiny_models import CONTEXT

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import BudgetConfig, Config, ModelConfig, ProposerConfig
from evovpo.errors import BudgetError, ConfigError, PolicyError, ServerError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import resolve_problem
from evovpo.proposers import CheckedProposer, Proposer
from evovpo.proposers.endpoints import (
    Form,
    Shape,
    correct,
    is_too_long,
    read_answer,
    read_lengths,
    request_body,
)
from evovpo.proposers.fetch import reason
from evovpo.proposers.limits import make_room
from evovpo.proposers.local import LocalProposer
from evovpo.proposers.openai import OpenAIProposer
from evovpo.proposers.prices import with_price
from evovpo.runs.choices import open_proposer
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.runs.stored import Outcome
from evovpo.store import Store
from evovpo.types import Call, CallOutcome, Message, PolicyVersion, Rollout, RunStatus, Sampling

pytestmark = pytest.mark.slow

OK, RETRIED, FAILED = CallOutcome.OK, CallOutcome.RETRIED, CallOutcome.FAILED
KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture(params=["completions", "chat"])
def endpoint(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


IMPATIENT = ("proposer.attempts=2", "proposer.patience_seconds=0")


def make(url: str, calls: list[Call], **options: Any) -> OpenAIProposer:
    return make_openai(url, record=calls.append, **options)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def propose_many(proposer: Proposer, count: int) -> list[list[Rollout]]:
    """Return the replies to so many prompts, asked one after the other."""
    return [await proposer.propose(make_prompt(i), range(4), SAMPLING) for i in range(count)]


async def propose_at_once(
    proposer: Proposer, indices: Sequence[int], **prompt: Any
) -> list[BaseException | list[Rollout]]:
    """Return what four prompts at the same time come to."""
    asks = [proposer.propose(make_prompt(i, **prompt), indices, SAMPLING) for i in range(4)]
    return list(await asyncio.gather(*asks, return_exceptions=True))


def outcomes(calls: Sequence[Call]) -> list[tuple[int, CallOutcome, str]]:
    return [(call.attempt, call.outcome, call.reason) for call in calls]


# What is asked again


@pytest.mark.parametrize(
    ("manners", "reasons"),
    [
        (["500", "503"], ["http 500", "http 503"]),
        (["429"], ["http 429"]),
        (["truncated"], ["truncated json"]),
        (["broken"], ["connection"]),
        (["close"], ["connection"]),
        (["empty"], ["empty choices"]),
        (["hang", "trickle"], ["timeout", "timeout"]),
    ],
)
def test_every_fault_is_a_row_with_its_reason_and_changes_no_reply(
    url: str, server: FakeServer, calls: list[Call], endpoint: str, manners: list[str], reasons: list[str]
) -> None:
    well = replies(partial(make, url, [], endpoint=endpoint), make_prompt(), range(4))
    server.restart()
    server.faults.manners = list(manners)
    seconds = 1.0 if "hang" in manners else 30.0
    patient = partial(make, url, calls, endpoint=endpoint, timeout_seconds=seconds, attempts=20)
    found = replies(patient, make_prompt(), range(4))
    assert [content(rollout) for rollout in found] == [content(rollout) for rollout in well]
    assert outcomes(calls)[: len(reasons)] == [
        (number, RETRIED, reason) for number, reason in enumerate(reasons, start=1)
    ]
    assert outcomes(calls)[-1] == (len(calls), OK, "")
    assert len(calls) == len(server.completions)
    assert {(call.run_id, call.prompt_id, call.model) for call in calls} == {("run", "prompt0", "base")}
    tokens = sum(len(rollout.token_ids or ()) for rollout in found)
    assert (calls[-1].prompt_tokens, calls[-1].completion_tokens) == (len("a write f(x)\n"), tokens)


@pytest.mark.parametrize("fault", ["500", "429", "close"])
def test_a_server_that_fails_for_long_is_waited_for(
    url: str, server: FakeServer, calls: list[Call], fault: str
) -> None:
    troubles: list[str] = []

    async def use(proposer: OpenAIProposer) -> list[Rollout]:
        asked = asyncio.create_task(proposer.propose(make_prompt(), range(4), SAMPLING))
        await until(lambda: len(calls) > 10)
        troubles.append(proposer.trouble)
        server.faults.manners = []
        found = await asked
        troubles.append(proposer.trouble)
        return found

    server.faults.manners = [fault] * 100_000
    found = run_with(partial(make, url, calls, attempts=2, patience_seconds=3600), use)
    assert len(found) == 4
    assert "failed" in troubles[0]
    assert "next try in" in troubles[0]
    assert troubles[1] == ""


def test_a_failing_request_is_told_while_others_are_answered(
    url: str, server: FakeServer, calls: list[Call]
) -> None:
    async def use(proposer: OpenAIProposer) -> list[str]:
        asked = asyncio.create_task(proposer.propose(make_prompt(), range(4), SAMPLING))
        await until(lambda: bool(calls))
        await proposer.propose(make_prompt(1), range(4), SAMPLING)
        troubles = [proposer.trouble]
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return [*troubles, proposer.trouble]

    server.faults.manners, server.faults.retry_after = ["503"], "500"
    during, after = run_with(partial(make, url, calls, patience_seconds=3600), use)
    assert during.startswith(
        f"{url.removesuffix('/v1')} failed once (http 503: as the test wants it); next try"
    )
    assert after == ""


def test_a_long_retry_after_ends_with_the_patience(url: str, server: FakeServer, calls: list[Call]) -> None:
    async def use(proposer: OpenAIProposer) -> None:
        async with asyncio.timeout(300):
            await proposer.propose(make_prompt(), range(4), SAMPLING)

    server.faults.manners, server.faults.retry_after = ["429"] * 100, "900"
    with pytest.raises(ServerError, match="at last: http 429"):
        run_with(partial(make, url, calls, attempts=2, patience_seconds=0.5), use)
    assert [call.outcome for call in calls][-1] == FAILED
    assert len(calls) <= 4


def test_a_date_is_a_wait_too(url: str, server: FakeServer, calls: list[Call]) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    server.faults.manners, server.faults.retry_after = ["429"], format_datetime(until, usegmt=True)
    replies(partial(make, url, calls), make_prompt(), range(4))
    assert datetime.now(UTC) >= until


def test_a_used_up_quota_is_not_asked_for_again(
    url: str, server: FakeServer, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    monkeypatch.setattr(server, "answer", lambda path, body: (429, answer))
    with pytest.raises(ServerError, match="exceeded your current quota"):
        replies(partial(make, url, calls), make_prompt(), range(4))
    assert outcomes(calls) == [(1, FAILED, "http 429")]


def test_a_cancelled_request_is_a_row(url: str, server: FakeServer, calls: list[Call]) -> None:
    server.held.add("base")

    async def use(proposer: Proposer) -> None:
        task = asyncio.ensure_future(proposer.propose(make_prompt(), range(4), SAMPLING))
        await until(lambda: bool(server.completions))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_with(partial(make, url, calls), use)
    server.gate.set()
    assert outcomes(calls) == [(1, FAILED, "cancelled")]


# What a server does not take


@pytest.mark.parametrize("fault", [{"refuses_n": True}, {"obeys_n": False}], ids=["refuses n", "ignores n"])
def test_a_server_that_gives_one_choice_is_asked_for_each_and_it_is_said_once(
    url: str,
    server: FakeServer,
    calls: list[Call],
    endpoint: str,
    fault: dict[str, bool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.faults = Faults(**fault)  # type: ignore[arg-type]

    with caplog.at_level(logging.WARNING):
        first, second = run_with(partial(make, url, calls, endpoint=endpoint), partial(propose_many, count=2))
    assert len({rollout.text for rollout in first}) > 1, "each has a seed of its own"
    assert {rollout.logprobs is None for rollout in first + second} == {False}
    reason = "http 400" if "refuses_n" in fault else "wrong n"
    assert Counter(call.reason for call in calls) == {reason: 1, "": 8}
    assert len(server.completions) == 9
    (record,) = caplog.records
    assert "each reply is asked for in a request of its own" in record.getMessage()


@pytest.mark.parametrize(
    "fields",
    [{"return_token_ids"}, {"top_k", "min_p"}, {"logprobs", "top_logprobs"}, {"seed"}, {"presence_penalty"}],
)
def test_fields_that_a_server_refuses_are_left_out_from_then_on(
    url: str,
    server: FakeServer,
    calls: list[Call],
    endpoint: str,
    fields: set[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.faults.refused_fields = frozenset(fields)

    with caplog.at_level(logging.WARNING):
        found = run_with(partial(make, url, calls, endpoint=endpoint), partial(propose_many, count=3))
    assert outcomes(calls) == [(1, RETRIED, "http 400"), (2, OK, ""), (1, OK, ""), (1, OK, "")]
    assert len(server.completions) == 4
    trainable = {rollout.logprobs is not None for group in found for rollout in group}
    assert trainable == {fields == {"seed"}}
    said = [record.getMessage() for record in caplog.records]
    assert sum("cannot be trained on" in text for text in said) == (fields != {"seed"})
    assert sum("does not take" in text for text in said) == 1


def test_fields_that_fastapi_refuses_are_left_out_at_once(
    url: str, server: FakeServer, calls: list[Call], endpoint: str
) -> None:
    fields = {"frequency_penalty", "seed", "top_k"}
    server.faults = Faults(refused_fields=frozenset(fields), as_fastapi=True)
    run_with(partial(make, url, calls, endpoint=endpoint), partial(propose_many, count=2))
    assert outcomes(calls) == [(1, RETRIED, "http 422"), (2, OK, ""), (1, OK, "")]
    left_out = server.completions[0].keys() - server.completions[1].keys()
    assert left_out == fields | {"min_p", "repetition_penalty", "return_token_ids"}


def test_a_refused_field_that_the_settings_ask_for_is_an_error_and_not_asked_for_again(
    url: str, server: FakeServer, calls: list[Call]
) -> None:
    server.faults = Faults(refused_fields=frozenset({"top_k"}), as_fastapi=True)
    own = [model("base", extra={"top_k": 5})]
    (rollout,) = replies(partial(make, url, calls, models=own), make_prompt(), [0])
    assert rollout.finish_reason == "refused: http 422: 'top_k': Extra inputs are not permitted"
    assert [call.outcome for call in calls] == [RETRIED, FAILED]


DETAIL = [{"type": "x", "loc": ["body", "n"], "msg": "Not permitted", "input": {"top_k": 0}}]
PAGE = "<html>\n<title>502 Bad Gateway</title>\n</html>"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "Too\nlong.", "code": 7}}, "Too long."),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"detail": [*DETAIL, {"loc": ["body"], "msg": "Bad"}]}, "'n': Not permitted; '': Bad"),
        ({"object": "error", "message": {"detail": DETAIL}}, "'n': Not permitted"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"status": 1}, "{'status': 1}"),
        ({"detail": [{"loc": None, "msg": "x"}]}, '{"detail": [{"loc": null, "msg": "x"}]}'),
    ],
)
def test_what_a_refusal_says_is_found(body: dict[str, Any], said: str) -> None:
    assert reason(json.dumps(body)) == said


def test_of_another_refusal_the_start_is_shown() -> None:
    assert reason(PAGE) == "<html> <title>502 Bad Gateway</title> </html>"
    assert reason(PAGE * 20).startswith("<html> <title>502")
    assert len(reason(PAGE * 20)) == 500
    assert reason(" ") == "no reason given"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            502,
            r"failed 2 times, at last: http 502: <html> <title>502 Bad Gateway</title> </html>; see its log",
        ),
        (200, r"at last: no json: its answer is no complete JSON: '<html> <title>502 Bad Gateway</title> "),
        (422, r"refused a request \(http 422\): <html> <title>502"),
    ],
)
def test_a_page_in_place_of_an_answer_is_quoted(status: int, said: str, calls: list[Call]) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers["Content-Length"]))
        request.send_response(status)
        request.send_header("Content-Length", str(len(PAGE)))
        request.end_headers()
        request.wfile.write(PAGE.encode())

    with answering_all(answer) as address, pytest.raises(ServerError, match=said):
        run_with(partial(make, f"{address}/v1", calls, attempts=2), partial(propose_many, count=3))


def test_a_reply_of_reasoning_alone_is_kept_as_reasoning() -> None:
    form = Form("chat", (Message("user", "p"),), 1, 5, Sampling(0.7, 9))

    def text(**message: Any) -> str:
        return read_answer({"choices": [{"message": message, "finish_reason": "stop"}]}, form)[0].text

    assert text(content=None, reasoning_content="Hm.") == "<think>Hm.</think>"
    assert text(content="", reasoning="Hm.") == "<think>Hm.</think>"
    assert text(content="So.", reasoning_content="Hm.") == "So."
    assert text(content=None) == ""


def test_the_limit_has_the_name_that_the_server_asks_for(
    url: str, server: FakeServer, calls: list[Call], endpoint: str
) -> None:
    well = replies(partial(make, url, [], endpoint=endpoint), make_prompt(), range(4))
    server.faults.limit_name = "max_completion_tokens"
    found = replies(partial(make, url, calls, endpoint=endpoint), make_prompt(), range(4))
    assert [content(rollout) for rollout in found] == [content(rollout) for rollout in well]
    assert [call.outcome for call in calls] == [RETRIED, OK]
    assert {rollout.logprobs is None for rollout in found} == {False}


def test_a_request_put_otherwise_counts_as_no_failure(
    url: str, server: FakeServer, calls: list[Call]
) -> None:
    server.faults = Faults(refuses_n=True, refused_fields=frozenset({"top_k", "seed"}))
    assert len(replies(partial(make, url, calls, attempts=1), make_prompt(), range(4))) == 4
    assert Counter(call.outcome for call in calls) == {RETRIED: 3, OK: 4}


BODY = {"n": 4, "top_k": 0, "min_p": 0.0, "seed": 1, "max_tokens": 9, "logprobs": True, "temperature": 1.0}


@pytest.mark.parametrize(
    ("message", "parameter", "expected"),
    [
        ("Unrecognized request argument supplied: top_k", None, {"top_k", "min_p"}),
        ("[{'type': 'extra_forbidden', 'loc': ['body', 'min_p'], 'msg': 'x'}]", None, {"top_k", "min_p"}),
        (
            "Extra inputs are not permitted",
            None,
            {"top_k", "min_p", "return_token_ids", "repetition_penalty"},
        ),
        ("logprobs are not supported with reasoning models.", "logprobs", {"logprobs"}),
        ("Invalid value: seed is not supported", None, {"seed"}),
    ],
)
def test_a_refusal_that_names_fields_leaves_them_and_their_like_out(
    message: str, parameter: str | None, expected: set[str]
) -> None:
    found = correct(Shape(), BODY, message, parameter)
    assert found is not None
    assert found.left_out == expected
    assert found.has_n


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, whereas you "
        "provided 16384.",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]",
        "max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens",
        "Input should be less than or equal to 4096 for max_completion_tokens: must be <= 4096",
    ],
)
def test_a_model_whose_replies_have_a_limit_is_asked_for_no_more(message: str) -> None:
    asked = {**BODY, "max_tokens": 16384}
    found = correct(Shape(), asked, message, "max_tokens")
    assert found == Shape(most_tokens=4096)
    assert correct(Shape(), {**BODY, "max_tokens": 100}, message, None) != found


@pytest.mark.parametrize(
    ("message", "parameter", "n"),
    [
        ("Only one completion choice is allowed", "n", False),
        ("best_of / n > 1 is not supported", None, False),
        ("Input should be less than or equal to 1 for 'n'", None, False),
        ("The image is not a number", None, True),
    ],
)
def test_a_refusal_of_n_is_told_from_another(message: str, parameter: str | None, n: bool) -> None:
    found = correct(Shape(), BODY, message, parameter)
    assert (found is None) == n
    assert found is None or not found.has_n


@pytest.mark.parametrize(
    ("message", "lengths"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9100 tokens (5100 in "
            "the messages, 4000 in the completion).",
            (5100, 8192),
        ),
        (
            "This model's maximum context length is 512 tokens. However, you requested 160 output tokens and "
            "your prompt contains 492 input tokens, for a total of 652 tokens.",
            (492, 512),
        ),
        ("the request exceeds the available context size (4096 tokens), try increasing it", None),
        ("prompt is too long: 210000 tokens > 200000 maximum", None),
    ],
)
def test_a_context_that_is_too_short_is_recognised_with_its_figures(
    message: str, lengths: tuple[int, int] | None
) -> None:
    assert is_too_long(message, None)
    assert read_lengths(message) == lengths


def test_other_refusals_are_not_taken_for_a_short_context() -> None:
    assert not is_too_long("Invalid 'messages': expected an array", None)
    assert is_too_long("whatever", "context_length_exceeded")


# Refused prompts


LONG = "x" * 200


def test_the_length_of_the_context_is_learned_once_and_said(
    url: str, server: FakeServer, calls: list[Call], caplog: pytest.LogCaptureFixture
) -> None:
    async def use(proposer: Proposer) -> None:
        for number, text in enumerate(["write f(x)\n", "write g\n", "x" * 40, "x" * 85]):
            await proposer.propose(make_prompt(number, text=text), range(4), Sampling(1.0, 90))

    with caplog.at_level(logging.WARNING):
        run_with(partial(make, url, calls), use)
    first, second, third, *fourth = [body["max_tokens"] for body in server.completions][1:]
    assert CONTEXT // 2 < third < first < second < CONTEXT - len("a write g\n")
    assert fourth == [90, CONTEXT - 87], "a long prompt gets the exact room"
    assert [call.outcome for call in calls] == [RETRIED, OK, OK, OK, RETRIED, OK]
    said = [record.getMessage() for record in caplog.records]
    assert [
        text.endswith(f"takes {CONTEXT} tokens, prompt included: replies get what is left of them")
        for text in said
    ] == [True]


def test_a_prompt_that_does_not_fit_comes_back_refused_once_another_was_answered(
    url: str, server: FakeServer, calls: list[Call], endpoint: str
) -> None:
    async def use(proposer: Proposer) -> tuple[list[Rollout], list[Rollout]]:
        await proposer.propose(make_prompt(), range(4), SAMPLING)
        refused = await proposer.propose(make_prompt(1, text=LONG), [0, 2], SAMPLING)
        return refused, await proposer.propose(make_prompt(2), range(4), SAMPLING)

    refused, after = run_with(partial(make, url, calls, endpoint=endpoint), use)
    assert [rollout.index for rollout in refused] == [0, 2]
    for rollout in refused:
        assert (rollout.text, rollout.token_ids, rollout.logprobs) == ("", None, None)
        assert rollout.finish_reason.startswith("refused: context too long: the prompt has 202 tokens")
    assert all(rollout.token_ids for rollout in after)
    assert [call.outcome for call in calls] == [OK, FAILED, OK]


def test_where_no_prompt_fits_there_is_one_error(url: str) -> None:
    found = run_with(partial(make, url, []), partial(propose_at_once, indices=[0], text=LONG))
    *_, error = sorted(found, key=lambda one: isinstance(one, PolicyError))
    assert f"has 202 tokens; the model reads from 1 to {CONTEXT - 1}" in str(error)


def test_one_reply_of_several_may_be_refused(url: str, server: FakeServer, calls: list[Call]) -> None:
    server.faults.refuses_n = True

    async def use(proposer: Proposer) -> list[Rollout]:
        await proposer.propose(make_prompt(), [0], SAMPLING)
        server.faults.statuses = [400]
        return await proposer.propose(make_prompt(1), range(4), SAMPLING)

    found = run_with(partial(make, url, calls, concurrency=1), use)
    assert [rollout.finish_reason.startswith("refused: ") for rollout in found] == [True, False, False, False]


def test_a_server_that_refuses_everything_ends_the_run(url: str, server: FakeServer) -> None:
    async def use(proposer: Proposer) -> None:
        await proposer.propose(make_prompt(), [0], SAMPLING)
        server.faults.refused_text = "write"
        for number in range(19):
            await proposer.propose(make_prompt(number), [0], SAMPLING)
        with pytest.raises(ServerError, match="the last 20 prompts were refused"):
            await proposer.propose(make_prompt(19), [0], SAMPLING)

    run_with(partial(make, url, []), use)


# Chat and completions


def test_both_endpoints_give_what_the_model_gives(url: str, tiny_folder: Path, endpoint: str) -> None:
    served = replies(partial(make, url, [], endpoint=endpoint), make_prompt(), range(4))
    sampled = replies(
        lambda: LocalProposer(PolicyVersion(0, None, str(tiny_folder))), make_prompt(), range(4)
    )
    assert [content(rollout) for rollout in served] == [content(rollout) for rollout in sampled]
    for one, other in zip(served, sampled, strict=True):
        assert one.prompt_token_ids == other.prompt_token_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_a_prompt_with_a_system_message_is_a_chat_and_any_other_plain_text(
    url: str, server: FakeServer
) -> None:
    proposer = partial(make, url, [], endpoint="auto")
    replies(proposer, make_prompt(), [0])
    replies(proposer, replace(make_prompt(), messages=(Message("user", "a "), Message("user", "b"))), [0])
    assert [path for path, _ in server.requests] == ["/v1/chat/completions", "/v1/completions"]
    chat, plain = server.completions
    assert chat["messages"] == [
        {"role": "system", "content": "a "},
        {"role": "user", "content": "write f(x)\n"},
    ]
    assert (chat["logprobs"], plain["prompt"], plain["logprobs"]) == (True, "a b", 1)


def test_a_temperature_that_logprobs_ignore_is_refused_of_both_endpoints(
    url: str, server: FakeServer, endpoint: str
) -> None:
    hot = Sampling(temperature=1.5, max_tokens=24)
    assert len(replies(partial(make, url, [], endpoint=endpoint), make_prompt(), range(4), hot)) == 4
    server.faults.follows_temperature = False
    with pytest.raises(ConfigError, match="--logprobs-mode processed_logprobs"):
        replies(partial(make, url, [], endpoint=endpoint), make_prompt(), range(4), hot)
    server.faults.refused_fields = frozenset({"return_token_ids"})
    found = replies(partial(make, url, [], endpoint=endpoint), make_prompt(), range(4), hot)
    assert {rollout.logprobs for rollout in found} == {None}, "nothing can be trained from these anyway"


# Models


def model(name: str, **options: Any) -> ModelConfig:
    return ModelConfig(name=name, **options)


@pytest.fixture
def two(server: FakeServer) -> list[ModelConfig]:
    server.models["large"] = server.models["base"]
    return [model("base"), model("large", weight=3.0)]


def test_tickets_go_to_the_models_by_weight_and_say_which(
    url: str, server: FakeServer, calls: list[Call], two: list[ModelConfig]
) -> None:
    found = run_with(partial(make, url, calls, models=two), partial(propose_many, count=40))
    names = [{rollout.model for rollout in group} for group in found]
    assert all(len(name) == 1 for name in names), "a group is by one model"
    assert [call.model for call in calls] == [group[0].model for group in found]
    share = two[1].weight / sum(one.weight for one in two)
    assert sum(name == {"large"} for name in names) / 40 == pytest.approx(share, abs=0.18)
    again = run_with(partial(make, url, [], models=two), partial(propose_many, count=40))
    assert [[content(rollout) for rollout in group] for group in again] == [
        [content(rollout) for rollout in group] for group in found
    ]


def test_a_model_has_settings_and_fields_of_its_own(url: str, server: FakeServer) -> None:
    one = model("base", temperature=0.5, max_tokens=7, system="S ", extra={"reasoning_effort": "low"})
    (rollout,) = replies(partial(make, url, [], endpoint="chat", models=[one]), make_prompt(), [0])
    assert (rollout.sampling, rollout.model) == (Sampling(0.5, 7), "")
    assert len(rollout.token_ids or ()) <= 7
    body = server.completions[0]
    assert body["messages"][0] == {"role": "system", "content": "S "}
    assert len(body["messages"]) == 2
    assert (body["temperature"], body["max_tokens"], body["reasoning_effort"]) == (0.5, 7, "low")


@pytest.mark.parametrize("options", [{"top_p": 0.9}, {"top_k": 20}])
def test_sampling_that_leaves_tokens_out_gives_nothing_to_train_on_and_says_so_once(
    url: str, server: FakeServer, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = run_with(
            partial(make, url, [], models=[model("base", extra=options)]), partial(propose_many, count=2)
        )
    assert {rollout.logprobs for group in found for rollout in group} == {None}
    assert ["leave tokens out" in record.getMessage() for record in caplog.records] == [True]
    assert server.completions[0]["top_p"] == options.get("top_p", 1.0)


def test_requests_are_priced(url: str, calls: list[Call]) -> None:
    one = model("base", price=[2.0, 5.0])
    replies(partial(make, url, calls, models=[one]), make_prompt(), range(4))
    (call,) = calls
    assert call.prompt_tokens is not None
    assert call.completion_tokens is not None
    assert call.cost == (2.0 * call.prompt_tokens + 5.0 * call.completion_tokens) / 1e6


def test_a_public_providers_price_is_known_and_a_servers_of_ones_own_is_not() -> None:
    name, openai = "gpt-4o-mini-2024-07-18", "https://api.openai.com/v1"
    assert with_price(model(name), openai).price == (0.15, 0.6)  # of a snapshot, which does not change
    assert with_price(model(name, price=[1.0, 2.0]), openai).price == (1.0, 2.0)
    assert with_price(model(name), "http://localhost:8000/v1").price is None
    with pytest.raises(ConfigError, match="no model has a price"):
        OpenAIProposer(
            ProposerConfig(model="m", base_url="http://localhost:8000/v1"), budget=BudgetConfig(money=1.0)
        )


def test_several_models_have_no_policy_versions(url: str, two: list[ModelConfig]) -> None:
    with pytest.raises(PolicyError, match="versions are of one model, and there are 2"):
        make(url, [], models=two, version=PolicyVersion(1, 0, "somewhere"))


def test_a_request_body_is_complete() -> None:
    form = Form("completions", (Message("user", "p"),), 3, 5, Sampling(0.7, 9))
    body = request_body(
        form, model("m", extra='{"top_p": 0.5, "a": 1}'), Shape(frozenset({"top_k"}), True, "most")
    )
    assert body == {
        "prompt": "p", "n": 3, "seed": 5, "temperature": 0.7, "most": 9, "top_p": 0.5, "min_p": 0.0, "a": 1,
        "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "logprobs": 1,
        "return_token_ids": True,
    }  # fmt: skip


# Limits and budgets


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_requests_are_under_way_than_allowed(url: str, server: FakeServer, concurrency: int) -> None:
    server.held.add("base")

    async def use(proposer: Proposer) -> None:
        asks = asyncio.gather(*(proposer.propose(make_prompt(i), [0], SAMPLING) for i in range(8)))
        await until(lambda: server.most_inside >= concurrency)
        await asyncio.sleep(0.1)  # for one too many to come, if it is let through
        server.gate.set()
        await asks

    run_with(partial(make, url, [], concurrency=concurrency), use)
    assert server.most_inside == concurrency


def test_a_process_gets_the_files_that_its_connections_need(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"has": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits["has"])
    monkeypatch.setattr(resource, "setrlimit", lambda which, new: limits.update(has=new))
    make_room(16)
    assert limits["has"] == (1024, 4096)
    make_room(2000)
    assert limits["has"] == (2256, 4096)
    with pytest.raises(ConfigError, match="10256 open files; it may have 4096 here: lower it"):
        make_room(10_000)


def test_a_budget_that_is_used_up_ends_before_the_next_ticket_and_what_is_under_way_ends_well(
    url: str, server: FakeServer, calls: list[Call]
) -> None:
    limited = partial(make, url, calls, budget=BudgetConfig(tokens=20), concurrency=2)
    found = run_with(limited, partial(propose_at_once, indices=range(4)))
    assert [type(one) for one in found] == [list, list, BudgetError, BudgetError]
    assert len(server.completions) == len(calls) == 2


def test_a_budget_of_what_is_not_counted_is_refused(url: str, server: FakeServer) -> None:
    server.faults.has_usage = False
    assert len(replies(partial(make, url, []), make_prompt(), range(4))) == 4
    with pytest.raises(ServerError, match=r"does not say how many tokens .*budget\.tokens"):
        replies(partial(make, url, [], budget=BudgetConfig(tokens=9999)), make_prompt(), range(4))


# Before anything is spent


def checked(url: str, name: str = "base", **options: Any) -> None:
    async def use(proposer: Proposer) -> None:
        assert isinstance(proposer, CheckedProposer)
        await proposer.check()

    run_with(partial(make, url, [], models=[model(name, **options)]), use)


def test_a_good_server_passes_and_nothing_is_sampled(url: str, server: FakeServer) -> None:
    checked(url)
    checked(url + "/")
    assert [path for path, _ in server.requests] == ["/v1/models"] * 2
    server.faults.lists_models = False
    checked(url, "whatever")


def test_an_address_without_v1_is_told_what_is_missing(url: str) -> None:
    root = url.removesuffix("/v1")
    with pytest.raises(ConfigError, match=rf"set proposer\.base_url={root}/v1"):
        checked(root)


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions/", "/v1/models/x", "/chat/completions"]
)
def test_an_address_of_one_endpoint_is_told_what_to_leave_out(url: str, path: str) -> None:
    root = url.removesuffix("/v1")
    extra = path.rstrip("/").removeprefix("/v1")
    with pytest.raises(ConfigError, match=rf"leave out {extra}; set proposer\.base_url={url}$"):
        checked(root + path)


def test_only_a_server_that_lists_its_models_lacks_one(url: str, server: FakeServer) -> None:
    async def use(proposer: OpenAIProposer) -> None:
        await proposer.check()
        await proposer.propose(make_prompt(), [0], SAMPLING)

    server.faults.statuses = [404]
    with pytest.raises(
        ServerError, match=r"does not serve 'base' \(as the test wants it\); check proposer\.base_url"
    ):
        run_with(partial(make, url, []), use)
    with pytest.raises(ServerError, match=r"it lists no such model in /v1/models; check proposer\.base_url"):
        run_with(partial(make, url, [], models=[model("bass")]), use)
    server.faults.lists_models = False
    with pytest.raises(ServerError, match=r"The model `bass` does not exist\.\); check"):
        run_with(partial(make, url, [], models=[model("bass")]), use)


def test_a_model_that_is_not_listed_is_warned_of_with_those_there_are(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    checked(url)
    assert not caplog.records
    checked(url, "bass")
    (record,) = caplog.records
    assert "does not list the model 'bass'" in record.getMessage()
    assert "did you mean 'base'?" in record.getMessage()
    with pytest.raises(ServerError, match=r"does not serve 'bass' .*models\]\]"):
        replies(partial(make, url, [], models=[model("bass")]), make_prompt(), range(1))


@pytest.mark.parametrize(
    ("set_to", "complaint"),
    [(None, "MY_KEY is not set"), (KEY[::-1], "refused the key .*MY_KEY to a valid one"), (KEY, "")],
)
def test_a_key_is_read_from_the_environment_and_never_said(
    url: str,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    set_to: str | None,
    complaint: str,
) -> None:
    server.faults.key = KEY
    monkeypatch.delenv("MY_KEY", raising=False)
    if set_to is not None:
        monkeypatch.setenv("MY_KEY", set_to)
    if not complaint:
        checked(url, key_variable="MY_KEY")
        return
    with pytest.raises(ConfigError, match=complaint) as caught:
        checked(url, key_variable="MY_KEY")
    assert "Incorrect API key" in str(caught.value)
    assert set_to is None or set_to not in str(caught.value)


# Whole runs


@pytest.fixture(scope="module")
def built_in_server() -> Iterator[tuple[FakeServer, str]]:
    server = FakeServer(BUILT_IN_MODEL, max_model_len=768)
    with serve(server) as url:
        yield server, url


@pytest.fixture
def searched(built_in_server: tuple[FakeServer, str]) -> tuple[FakeServer, str]:
    built_in_server[0].restart()
    return built_in_server


def config_for(url: str, *more: str) -> Config:
    settings = ["search.evaluations=32", "search.rollouts=4", "search.joins=false", "search.in_flight=4"]
    settings += ["search.stop_when_solved=false", "proposer.name=openai", "proposer.model=base"]
    settings += ["prompt.style=alignment"]
    return Config.load(None, Config.read_changes([*settings, f"proposer.base_url={url}", *more]))


def search(store: Store, config: Config, **options: Any) -> Outcome:
    return start(RunRequest(load_problem(resolve_problem("strings/date-to-iso")), config, **options), store)


def test_a_run_that_a_server_cut_off_has_an_exit_code_of_its_own_and_is_resumed_once(
    searched: tuple[FakeServer, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, url = searched
    monkeypatch.chdir(tmp_path)
    evovpo = Shell(capsys)
    changes = ["search.rollouts=4", "search.joins=false", "search.in_flight=4", *IMPATIENT]
    changes += ["prompt.style=alignment"]
    given = [part for change in changes for part in ("--set", change)]
    server.faults.manners = ["ok"] * 2 + ["500"] * 100
    arguments = ["strings/date-to-iso", "-n", "32", "--base-url", url, "--model", "base", *given]
    cut_off = evovpo("evolve", *arguments)
    assert cut_off.code == 4
    assert "asking the server" in cut_off.err
    assert "loading" not in cut_off.err
    assert "evovpo resume " in cut_off.err
    assert "failed 2 times, at last: http 500" in cut_off.err
    assert "interrupted" in evovpo("runs").out
    server.faults.manners = []
    assert evovpo("resume", "latest", "--json").json["evaluations"] == 32
    sent = len(server.completions)
    again = evovpo("resume", "latest")
    assert again.code == 0
    assert "is finished (its budget of 32 evaluations is used): nothing to resume" in again.err
    assert "asking the server" not in again.err
    assert len(server.completions) == sent


def test_a_server_that_is_not_there_at_the_start_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "http://127.0.0.1:9/v1"
    answer = Shell(capsys)("evolve", "strings/date-to-iso", "--base-url", url, "--model", "base")
    assert answer.code == 2
    assert "cannot be reached" in answer.err
    assert "evovpo resume" not in answer.err


def test_a_run_stops_when_its_tokens_are_used_and_what_was_under_way_is_told(
    searched: tuple[FakeServer, str], tmp_path: Path
) -> None:
    server, url = searched
    with Store.open(str(tmp_path / "store.db")) as store:
        outcome = search(store, config_for(url, "budget.tokens=1"))
        assert store.run(outcome.run).status is RunStatus.STOPPED
        calls = store.calls(outcome.run)
        assert outcome.evaluations == 4 * len(calls) == 4 * len(server.completions) <= 16


@pytest.mark.parametrize("is_right", [True, False])
def test_a_key_is_nowhere_in_the_store_the_logs_or_the_terminal(
    searched: tuple[FakeServer, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    is_right: bool,
) -> None:
    server, url = searched
    key = KEY if is_right else KEY[::-1]
    server.faults = Faults(key=KEY, manners=["500"])
    monkeypatch.setenv("OPENAI_API_KEY", key)
    file = tmp_path / "store.db"
    with caplog.at_level(logging.DEBUG), Store.open(str(file)) as store:
        config = config_for(url, "search.evaluations=8")
        if is_right:
            search(store, config)
        else:
            with pytest.raises(ConfigError, match="refused the key") as caught:
                search(store, config)
            assert key not in str(caught.value)
            assert store.runs() == [], "nothing is begun"
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    output = "".join(capfd.readouterr())
    assert key.encode() not in written
    assert key not in output + caplog.text


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["proposer.name=local", "budget.tokens=5"], "are for servers"),
        (["proposer.name=openai", "proposer.model=m", "budget.money=5"], "no model has a price"),
        (["proposer.endpoint=chatter"], "did you mean 'chat'"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(settings: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_proposer(
            load_problem(resolve_problem("strings/date-to-iso")),
            Config.load(None, Config.read_changes(settings)),
        )


def test_models_are_tables_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        '[proposer]\nname = "openai"\n[[models]]\nname = "a"\nweight = 2\n'
        '[[models]]\nname = "b"\nbase_url = "http://h/v1"\nprice = [0, 0.5]\n[budget]\nmoney = 2\n'
    )
    config = Config.load(path)
    assert config.models == (model("a", weight=2.0), model("b", base_url="http://h/v1", price=[0.0, 0.5]))
    assert Config.from_json(config.to_json()) == config
    path.write_text(config.to_toml())
    assert Config.load(path) == config
    path.write_text(Config().to_toml())
    assert Config.load(path) == Config()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[[models]]\nnam = "a"', r"unknown key models\.nam; did you mean 'name'"),
        ("[[models]]\nweight = 1", r"models\.name is empty"),
        ('[[models]]\nname = "a"\nweight = 0', r"models\.weight: expected a number above 0"),
        ('[[models]]\nname = "a"\nextra = "[1]"', r"models\.extra: expected a table"),
        ('[models]\nname = "a"', r"expected one \[\[models\]\] with keys for each"),
        ('[[models]]\nname = "a"\n[[models]]\nname = "a"', "'a' is there 2 times"),
        ('[proposer]\nmodel = "b"\n[[models]]\nname = "a"', "give one of the two"),
    ],
)
def test_bad_models_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        Config.load(path)


def test_models_are_not_overrides() -> None:
    with pytest.raises(ConfigError, match="tables are read from files"):
        Config.load(None, Config.read_changes(["models.name=a"]))
