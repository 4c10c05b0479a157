"""The conformance suite over every proposer of this package, and what each adds to it."""

import asyncio
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

pytest.register_assert_rewrite("proposer_conformance")

from fake_server import FakeServer, Faults  # noqa: E402
from proposer_conformance import *  # noqa: E402, F403
from proposer_conformance import SAMPLING, MakeProposer, content, make_prompt, replies, run_with  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from scripted_proposer import ScriptedProposer  # noqa: E402
from served_model import *  # noqa: E402, F403
from served_model import make_openai  # noqa: E402
from tiny_models import CONTEXT, END_ID, load_folder, with_adapter, write_tiny_folder  # noqa: E402

from evovpo.builtin.random_baseline import RandomProposer  # noqa: E402
from evovpo.config import Config  # noqa: E402
from evovpo.errors import ConfigError, PolicyError, ServerError, StoreError  # noqa: E402
from evovpo.problem.folder import load_problem  # noqa: E402
from evovpo.problem.suites import resolve_problem  # noqa: E402
from evovpo.proposers import Proposer  # noqa: E402
from evovpo.proposers.local import LocalProposer, load_local_policy  # noqa: E402
from evovpo.proposers.policy_folders import served_name  # noqa: E402
from evovpo.runs.choices import open_proposer  # noqa: E402
from evovpo.store import Store  # noqa: E402
from evovpo.types import CallOutcome, PolicyVersion, Prompt, Rollout, Run, RunStatus, Sampling  # noqa: E402


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("other"), seed=1)


@pytest.fixture(scope="session")
def adapter_folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tiny_folder, tmp_path_factory.mktemp("adapter"))


@pytest.fixture(
    params=[
        "scripted queue",
        "scripted function",
        "random",
        "local",
        "openai",
        "openai chat",
        "one a request",
    ]
)
def make_proposer(
    request: pytest.FixtureRequest, tiny_folder: Path, url: str, server: FakeServer
) -> MakeProposer:
    def write(prompt: Prompt, index: int) -> str:
        return f"reply {index} to {prompt.id}"

    makers: dict[str, MakeProposer] = {
        "scripted queue": lambda: ScriptedProposer([f"text {i}" for i in range(100)], logprob=-1.5),
        "scripted function": lambda: ScriptedProposer(write, policy_version=3),
        "random": lambda: RandomProposer(load_problem(resolve_problem("strings/date-to-iso"))),
        "local": lambda: LocalProposer(PolicyVersion(2, None, str(tiny_folder))),
        "openai": lambda: make_openai(url),
        "openai chat": lambda: make_openai(url, endpoint="chat"),
        "one a request": lambda: make_openai(url, endpoint="chat"),
    }
    server.faults.refuses_n = request.param == "one a request"
    return makers[request.param]


def make_local(folder: Path, **options: Any) -> LocalProposer:
    return LocalProposer(PolicyVersion(0, None, str(folder)), **options)


def write_adapter(base: Path, folder: Path, seed: int = 0) -> Path:
    with_adapter(load_folder(base), seed).save_pretrained(folder, save_embedding_layers=False)
    return folder


def copy_folder(source: Path, target: Path, leave_out: str = "") -> Path:
    target.mkdir()
    for file in source.iterdir():
        if file.name != leave_out:
            (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.mark.parametrize(
    ("module", "lacks", "extra"), [("local", "torch", "local"), ("openai", "openai", "server")]
)
def test_a_proposer_without_what_it_needs_says_what_to_install(module: str, lacks: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules['{lacks}'] = None\n"
        f"try: import evovpo.proposers.{module}\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.startswith("PolicyError")
    assert f"pip install 'evovpo[{extra}]'" in found.stdout


# Scripted


def test_a_queue_deals_its_texts_in_the_order_of_the_tickets() -> None:
    async def use() -> list[str]:
        proposer = ScriptedProposer(["a", "b", "c", "d"])
        late = await proposer.propose(make_prompt(7, rollouts=2), [1], SAMPLING)
        next_ticket = await proposer.propose(make_prompt(1, rollouts=2), [0, 1], SAMPLING)
        first = await proposer.propose(make_prompt(7, rollouts=2), [0], SAMPLING)
        return [rollout.text for rollout in late + next_ticket + first]

    assert asyncio.run(use()) == ["b", "c", "d", "a"]


def test_an_exhausted_queue_says_so() -> None:
    with pytest.raises(PolicyError, match=r"1 texts left and prompt prompt0 .* asks for 4"):
        replies(lambda: ScriptedProposer(["a"]), make_prompt(), [0])


# Local


def test_the_prompt_is_the_messages_one_after_the_other(tiny_folder: Path) -> None:
    (rollout,) = replies(lambda: make_local(tiny_folder), make_prompt(text="xy"), [0])
    tokenizer = load_local_policy(PolicyVersion(0, None, str(tiny_folder))).tokenizer
    assert rollout.prompt_token_ids is not None
    assert tokenizer.decode(rollout.prompt_token_ids) == "a xy"


def test_text_is_that_of_the_tokens_without_the_end_token(tiny_folder: Path) -> None:
    sampling = Sampling(max_tokens=80)
    tokenizer = load_local_policy(PolicyVersion(0, None, str(tiny_folder))).tokenizer
    rollouts = replies(lambda: make_local(tiny_folder), make_prompt(rollouts=16), range(16), sampling)
    assert {rollout.finish_reason for rollout in rollouts} == {"stop", "length"}
    for rollout in rollouts:
        assert rollout.token_ids is not None
        assert (rollout.token_ids[-1] == END_ID) == (rollout.finish_reason == "stop")
        assert rollout.text == tokenizer.decode(rollout.token_ids, skip_special_tokens=True)
        assert "<end>" not in rollout.text


@pytest.mark.parametrize(("max_batch_rows", "batches"), [(12, 1), (11, 2), (3, 3)])
def test_requests_that_meet_share_batches_up_to_the_limit(
    tiny_folder: Path, max_batch_rows: int, batches: int
) -> None:
    async def use(proposer: Proposer) -> list[list[Rollout]]:
        prompts = [make_prompt(i) for i in range(3)]
        return await asyncio.gather(*(proposer.propose(prompt, range(4), SAMPLING) for prompt in prompts))

    groups = run_with(lambda: make_local(tiny_folder, max_batch_rows=max_batch_rows), use)
    # The seconds of a batch are split evenly over its replies, so each batch shows as one value.
    assert len({rollout.seconds for group in groups for rollout in group}) == batches


def test_the_event_loop_stays_free_while_sampling(tiny_folder: Path) -> None:
    async def use(proposer: Proposer) -> int:
        request = asyncio.ensure_future(proposer.propose(make_prompt(), range(4), Sampling(max_tokens=60)))
        turns = 0
        while not request.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert run_with(lambda: make_local(tiny_folder), use) > 10


@pytest.mark.parametrize("turns", [1, 3], ids=["while it waits", "while it is sampled"])
def test_a_cancelled_request_does_not_disturb_the_others(tiny_folder: Path, turns: int) -> None:
    async def use(proposer: Proposer) -> list[Rollout]:
        requests = [
            asyncio.ensure_future(proposer.propose(make_prompt(i), range(4), SAMPLING)) for i in range(3)
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        requests[1].cancel()
        await requests[0]
        return await requests[2]

    rollouts = run_with(lambda: make_local(tiny_folder), use)
    expected = replies(lambda: make_local(tiny_folder), make_prompt(2), range(4))
    assert [content(rollout) for rollout in rollouts] == [content(rollout) for rollout in expected]


def test_a_prompt_longer_than_the_context_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(PolicyError, match=f"reads from 1 to {CONTEXT - 1}"):
        replies(lambda: make_local(tiny_folder), make_prompt(text="x" * 200), [0])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_with_a_missing_or_damaged_file_is_refused(
    tiny_folder: Path, tmp_path: Path, name: str
) -> None:
    folder = copy_folder(tiny_folder, tmp_path / "copy", leave_out=name)
    with pytest.raises(PolicyError, match=f"lacks {name}"):
        make_local(folder)
    (folder / name).write_text("{")
    with pytest.raises(PolicyError, match="cannot be loaded"):
        make_local(folder)


def test_weights_that_lack_a_tensor_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = copy_folder(tiny_folder, tmp_path / "copy")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PolicyError, match=r"lack 1 tensors .* model\.layers\.1\.mlp\.up_proj\.weight"):
        make_local(folder)


def test_an_adapter_is_sampled_as_the_model_it_makes_of_its_base(
    tiny_folder: Path, adapter_folder: Path, tmp_path: Path
) -> None:
    merged = copy_folder(tiny_folder, tmp_path / "merged")
    whole = load_folder(tiny_folder).state_dict()
    parts = load_file(adapter_folder / "adapter_model.safetensors")
    for key in [key for key in parts if "lora_A" in key]:
        name = key.removeprefix("base_model.model.").replace("lora_A.", "")
        whole[name] += 2.0 * parts[key.replace("lora_A", "lora_B")] @ parts[key]  # alpha / rank = 16 / 8
    del whole["lm_head.weight"]  # the embeddings once more
    save_file(whole, merged / "model.safetensors", metadata={"format": "pt"})
    one, other, base = (
        replies(partial(make_local, folder), make_prompt(), range(4))
        for folder in (adapter_folder, merged, tiny_folder)
    )
    assert [content(rollout) for rollout in one] == [content(rollout) for rollout in other]
    assert [content(rollout) for rollout in one] != [content(rollout) for rollout in base]


def test_an_adapter_without_its_base_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    base = copy_folder(tiny_folder, tmp_path / "base")
    adapter = write_adapter(base, tmp_path / "adapter")
    shutil.rmtree(base)
    with pytest.raises(PolicyError, match=r"stands on the model in .*base, which is no folder here"):
        make_local(adapter)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "names no base model"),
        ("{", "names no base model"),
        ('{"base_model_name_or_path": null}', "names no base model"),
        ('{"base_model_name_or_path": "ITSELF"}', "which is an adapter itself"),
    ],
)
def test_an_adapter_without_full_weights_below_it_is_refused(
    adapter_folder: Path, tmp_path: Path, text: str, complaint: str
) -> None:
    folder = copy_folder(adapter_folder, tmp_path / "copy")
    (folder / "adapter_config.json").write_text(text.replace("ITSELF", str(adapter_folder)))
    with pytest.raises(PolicyError, match=complaint):
        make_local(folder)


def test_an_adapter_that_lacks_a_tensor_is_refused(adapter_folder: Path, tmp_path: Path) -> None:
    folder = copy_folder(adapter_folder, tmp_path / "copy")
    tensors = load_file(folder / "adapter_model.safetensors")
    del tensors["base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"]
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PolicyError, match=r"cannot be loaded .*layers\.1\.self_attn\.q_proj"):
        make_local(folder)


def test_an_adapter_without_peft_says_what_to_install(
    adapter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(PolicyError, match=r"pip install 'evovpo\[train\]'"):
        make_local(adapter_folder)


def test_an_architecture_that_the_sampler_does_not_compute_is_refused(
    tiny_folder: Path, tmp_path: Path
) -> None:
    folder = copy_folder(tiny_folder, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "gelu"}))
    with pytest.raises(PolicyError, match="hidden_act='gelu'"):
        make_local(folder)


def test_loading_writes_nothing_to_the_terminal(tiny_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_local_policy(PolicyVersion(0, None, str(tiny_folder)))
    assert capfd.readouterr() == ("", "")


# A server


def test_the_wait_that_a_server_asks_for_is_kept(url: str, server: FakeServer) -> None:
    server.faults.statuses, server.faults.retry_after = [429], "0.4"
    (rollout,) = replies(partial(make_openai, url), make_prompt(rollouts=1), [0])
    assert rollout.seconds >= 0.4


def test_an_aborted_reply_is_not_taken_for_one(url: str, server: FakeServer) -> None:
    whole = replies(partial(make_openai, url), make_prompt(), range(4))
    server.faults.aborts = 1
    again = replies(partial(make_openai, url), make_prompt(), range(4))
    assert [content(rollout) for rollout in again] == [content(rollout) for rollout in whole]


def test_a_server_outside_of_the_protocol_is_one_error(url: str, server: FakeServer) -> None:
    server.faults = Faults(gibberish=2)
    with pytest.raises(ServerError, match=r"failed 2 times, .*outside the completions protocol"):
        replies(partial(make_openai, url, attempts=2), make_prompt(), range(4))


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_the_first_three_prompts_is_one_error(
    url: str, server: FakeServer, status: int
) -> None:
    server.faults.statuses = [status] * 3

    async def use(proposer: Proposer) -> None:
        for number in range(2):
            (reply,) = await proposer.propose(make_prompt(number), [0], SAMPLING)
            assert reply.finish_reason.startswith(f"refused: http {status}")
        with pytest.raises(ServerError, match="refused a request"):
            await proposer.propose(make_prompt(2), [0], SAMPLING)

    run_with(partial(make_openai, url), use)


def test_a_server_that_only_chats_is_told_from_one_without_the_model(url: str, server: FakeServer) -> None:
    server.faults.statuses = [404]
    with pytest.raises(ServerError, match=r"--set proposer\.endpoint=chat"):
        replies(partial(make_openai, url, endpoint="completions"), make_prompt(), [0])
    server.faults.statuses = [404]
    with pytest.raises(
        ServerError,
        match=r"name another: resume --set proposer\.model=X, or --config FILE with \[\[models\]\]$",
    ):
        replies(partial(make_openai, url, endpoint="chat"), make_prompt(), [0])


@pytest.mark.parametrize("address", ["", "127.0.0.1:8000/v1", "http://user:password@127.0.0.1/v1"])
def test_an_address_that_is_none_or_holds_a_password_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"proposer\.base_url"):
        make_openai(address)


@pytest.mark.parametrize(
    ("faults", "what", "has_tokens"),
    [
        (Faults(has_logprobs=False), "no log-probabilities", True),
        (Faults(has_token_ids=False), "no token ids", False),
    ],
)
def test_what_a_trainer_will_miss_is_said_once(
    url: str,
    server: FakeServer,
    caplog: pytest.LogCaptureFixture,
    faults: Faults,
    what: str,
    has_tokens: bool,
) -> None:
    server.faults = faults

    async def use(proposer: Proposer) -> list[Rollout]:
        await proposer.propose(make_prompt(1), range(4), SAMPLING)
        return await proposer.propose(make_prompt(), range(4), SAMPLING)

    with caplog.at_level(logging.WARNING):
        rollouts = run_with(partial(make_openai, url), use)
    assert [what in record.getMessage() for record in caplog.records] == [True]
    assert [rollout.logprobs for rollout in rollouts] == [None] * 4
    assert [rollout.token_ids is not None for rollout in rollouts] == [has_tokens] * 4


def test_proposers_that_share_what_was_said_say_it_once(
    url: str, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults, said = Faults(has_token_ids=False), set[str]()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            replies(partial(make_openai, url, said=said), make_prompt(), [0])
    assert len(caplog.records) == 1


def test_a_reply_ends_where_the_context_ends(url: str, tiny_folder: Path) -> None:
    prompt, sampling = make_prompt(text="x" * (CONTEXT - 10), rollouts=8), Sampling(max_tokens=30)
    one, other = (
        replies(make, prompt, range(8), sampling)
        for make in (partial(make_openai, url), partial(make_local, tiny_folder))
    )
    assert [content(rollout) for rollout in one] == [content(rollout) for rollout in other]
    assert max(len(rollout.token_ids or ()) for rollout in one) == 8  # two more characters are the system's


# Both


@pytest.fixture(params=["local", "openai"])
def backend(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def make_either(backend: str, url: str, tiny_folder: Path) -> MakeProposer:
    return partial(make_local, tiny_folder) if backend == "local" else partial(make_openai, url)


def test_closing_waits_for_requests_on_their_way_and_ends_all_others(make_either: MakeProposer) -> None:
    async def use(proposer: Proposer) -> list[Rollout]:
        request = asyncio.ensure_future(proposer.propose(make_prompt(), [0], SAMPLING))
        await asyncio.sleep(0)
        await proposer.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await proposer.propose(make_prompt(), [0], SAMPLING)
        return await request

    assert len(run_with(make_either, use)) == 1


@pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), Sampling(max_tokens=0)])
def test_sampling_that_nothing_can_be_trained_from_is_refused(
    make_either: MakeProposer, sampling: Sampling
) -> None:
    with pytest.raises(ConfigError):
        replies(make_either, make_prompt(), [0], sampling)


# Adapters on a server


def test_an_adapter_is_requested_by_its_own_name(url: str, server: FakeServer, adapter_folder: Path) -> None:
    version = PolicyVersion(7, 0, str(adapter_folder))
    served = replies(partial(make_openai, url, version=version), make_prompt(), range(4))
    name = served_name(version, "base")
    assert name.startswith("policy-v7-")
    assert {body["model"] for body in server.completions} == {name}
    assert name in server.models, "an adapter that the server does not hold is loaded"
    sampled = replies(partial(make_local, adapter_folder), make_prompt(), range(4))
    assert [content(rollout) for rollout in served] == [content(rollout) for rollout in sampled]
    assert {rollout.policy_version for rollout in served} == {7}


def test_names_differ_between_numbers_and_between_weights(
    tiny_folder: Path, adapter_folder: Path, tmp_path: Path
) -> None:
    other = write_adapter(tiny_folder, tmp_path / "other", seed=1)
    versions = [(1, adapter_folder), (2, adapter_folder), (1, other)]
    names = [served_name(PolicyVersion(number, 0, str(path)), "base") for number, path in versions]
    assert len(set(names)) == 3
    copied = copy_folder(adapter_folder, tmp_path / "copy")
    assert served_name(PolicyVersion(1, 0, str(copied)), "base") == names[0]


def test_full_weights_are_requested_by_the_name_of_the_server_s_own(tiny_folder: Path) -> None:
    assert served_name(PolicyVersion(3, 0, str(tiny_folder)), "base") == "base"
    assert served_name(PolicyVersion(0, None, "no folder here"), "base") == "base"


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "serves it not"])
def test_an_adapter_that_a_server_does_not_take_is_one_error(
    url: str, server: FakeServer, adapter_folder: Path, refuses: bool
) -> None:
    server.faults = Faults(refuses=True) if refuses else Faults(statuses=[404, 404])
    version = PolicyVersion(7, 0, str(adapter_folder))
    with pytest.raises(ServerError, match="out of memory" if refuses else "loaded 'policy-v7-.*and does not"):
        replies(partial(make_openai, url, version=version), make_prompt(), [0])


# Following


def make_following(
    backend: str, url: str, versions: list[PolicyVersion], asked: list[int]
) -> Callable[[], Proposer]:
    """Return a maker of a proposer that follows `versions[0]`; `asked` counts how often it looks."""

    def follow() -> PolicyVersion:
        asked.append(1)
        return versions[0]

    if backend == "local":
        return lambda: LocalProposer(versions[0], follow=follow)
    return lambda: make_openai(url, version=versions[0], follow=follow)


def test_the_next_request_uses_the_version_that_is_followed(
    backend: str, url: str, tiny_folder: Path, adapter_folder: Path
) -> None:
    new = PolicyVersion(1, 0, str(adapter_folder))
    versions, asked = [PolicyVersion(0, None, str(tiny_folder))], list[int]()

    async def use(proposer: Proposer) -> tuple[list[Rollout], list[list[Rollout]]]:
        before = asyncio.ensure_future(proposer.propose(make_prompt(), range(4), SAMPLING))
        await asyncio.sleep(0)
        versions[0] = new
        after = [proposer.propose(make_prompt(), range(4), SAMPLING) for _ in range(3)]
        found = await asyncio.gather(*after)
        return await before, found

    before, after = run_with(make_following(backend, url, versions, asked), use)
    old, expected = (
        replies(partial(make_local, folder), make_prompt(), range(4))
        for folder in (tiny_folder, adapter_folder)
    )
    assert [content(rollout) for rollout in before] == [content(rollout) for rollout in old]
    assert {rollout.policy_version for rollout in before} == {0}
    for group in after:
        assert [content(rollout) for rollout in group] == [content(rollout) for rollout in expected]
        assert {rollout.policy_version for rollout in group} == {1}
    assert len(asked) <= 3 + 2 * 4, "a look at the store, or two, for every request"


def test_a_followed_version_whose_folder_is_gone_is_one_error(
    backend: str, url: str, tiny_folder: Path, tmp_path: Path
) -> None:
    versions = [PolicyVersion(0, None, str(tiny_folder))]

    async def use(proposer: Proposer) -> list[Rollout]:
        versions[0] = PolicyVersion(1, 0, str(tmp_path / "gone"))
        with pytest.raises(PolicyError, match=r"policy version 1 is gone: .*gone does not exist"):
            await proposer.propose(make_prompt(), range(4), SAMPLING)
        versions[0] = PolicyVersion(0, None, str(tiny_folder))
        return await proposer.propose(make_prompt(), range(4), SAMPLING)

    assert len(run_with(make_following(backend, url, versions, []), use)) == 4


def test_an_adapter_is_unloaded_when_its_last_request_has_ended(
    url: str, server: FakeServer, tiny_folder: Path, adapter_folder: Path, tmp_path: Path
) -> None:
    old = PolicyVersion(1, 0, str(adapter_folder))
    new = PolicyVersion(2, 1, str(write_adapter(tiny_folder, tmp_path / "new", seed=1)))
    names = [served_name(version, "base") for version in (old, new)]
    versions = [old]

    async def use(proposer: Proposer) -> tuple[list[Rollout], list[Rollout]]:
        await proposer.propose(make_prompt(), [0], SAMPLING)
        server.held.add(names[0])
        before = asyncio.ensure_future(proposer.propose(make_prompt(1), range(4), SAMPLING))
        while len(server.completions) < 3:  # the second is the one sent again after loading
            await asyncio.sleep(0.005)
        versions[0] = new
        after = await proposer.propose(make_prompt(1), range(4), SAMPLING)
        assert names[0] in server.models, "its request is still on its way"
        server.gate.set()
        return await before, after

    before, after = run_with(make_following("openai", url, versions, []), use)
    assert ({r.policy_version for r in before}, {r.policy_version for r in after}) == ({1}, {2})
    assert names[0] not in server.models
    assert names[1] in server.models


# Which policy a run samples from


@pytest.fixture
def store(tiny_folder: Path, other_folder: Path, adapter_folder: Path) -> Iterator[Store]:
    with Store.open("sqlite:///:memory:") as found:
        for number, folder in enumerate([tiny_folder, other_folder, adapter_folder]):
            found.add_policy_version(PolicyVersion(number, number - 1 if number else None, str(folder)))
        yield found


def open_with(store: Store | None, *overrides: str) -> Proposer:
    config = Config.load(None, Config.read_changes([f"proposer.{override}" for override in overrides]))
    return open_proposer(load_problem(resolve_problem("strings/date-to-iso")), config, store)


@pytest.mark.parametrize(
    ("policy", "served", "number"),
    [("start", 1, 0), ("served", None, 0), ("served", 1, 1), ("served", 2, 2), ("2", None, 2), ("0", 1, 0)],
)
def test_a_run_samples_from_the_policy_that_it_names(
    store: Store, tiny_folder: Path, policy: str, served: int | None, number: int
) -> None:
    if served is not None:
        store.serve(served)
    proposer = open_with(store, f"model={tiny_folder}", f"policy={policy}")
    assert proposer.policy_version == number
    asyncio.run(proposer.aclose())


def test_a_run_that_follows_takes_up_what_is_served_in_the_meantime(
    store: Store, tiny_folder: Path, url: str, backend: str
) -> None:
    model = tiny_folder if backend == "local" else "base"
    numbers = []
    problem = load_problem(resolve_problem("strings/date-to-iso"))
    store.add_problem(problem)
    store.add_run(
        Run("run", problem.id, problem.version, 0, 1, "{}", RunStatus.RUNNING, "2026-01-02T03:04:05Z")
    )
    store.add_prompt(make_prompt(rollouts=1))

    async def use(proposer: Proposer) -> None:
        for served in (1, 2, 0):
            store.serve(served)
            (rollout,) = await proposer.propose(make_prompt(rollouts=1), [0], SAMPLING)
            numbers.append(rollout.policy_version)

    settings = [f"name={backend}", f"model={model}", f"base_url={url}", "policy=served"]
    run_with(lambda: open_with(store, *settings), use)
    assert numbers == [1, 2, 0]
    outcomes = [call.outcome for call in store.calls("run")]
    assert outcomes == (
        [CallOutcome.OK, CallOutcome.RETRIED, CallOutcome.OK, CallOutcome.OK] if outcomes else []
    )
    assert bool(outcomes) == (backend == "openai")


@pytest.mark.parametrize(
    ("overrides", "error", "complaint"),
    [
        (["policy=9"], StoreError, "holds no policy version 9"),
        (["policy=newest"], ConfigError, "start, served or the number"),
        (["policy=-1"], ConfigError, "start, served or the number"),
        (["name=openai", "model=base"], ConfigError, "proposer.base_url is ''"),
        (["name=openai", "base_url=http://127.0.0.1:8000/v1"], ConfigError, "proposer.model is empty"),
        (["name=scripted"], ConfigError, "expected local, openai or random"),
    ],
)
def test_settings_that_name_no_proposer_are_refused(
    store: Store, overrides: list[str], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        open_with(store, *overrides)


def test_without_a_store_there_is_only_the_start_model(tiny_folder: Path) -> None:
    with pytest.raises(ConfigError, match="there is no store here"):
        open_with(None, f"model={tiny_folder}", "policy=served")
