"""The conformance suite over every proposer of this package, and what each adds to it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("proposer_conformance")

from proposer_conformance import *  # noqa: E402, F403
from proposer_conformance import SAMPLING, MakeProposer, content, make_prompt, replies, run_with  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tiny_models import CONTEXT, END_ID, write_tiny_folder  # noqa: E402

from evovpo.errors import ConfigError, PolicyError  # noqa: E402
from evovpo.problem import load_problem, resolve_problem  # noqa: E402
from evovpo.proposers import Proposer  # noqa: E402
from evovpo.proposers.local import LocalProposer, load_local_policy  # noqa: E402
from evovpo.proposers.random import RandomProposer  # noqa: E402
from evovpo.proposers.scripted import ScriptedProposer  # noqa: E402
from evovpo.types import PolicyVersion, Prompt, Rollout, Sampling  # noqa: E402


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("other"), seed=1)


@pytest.fixture(params=["scripted queue", "scripted function", "random", "local"])
def make_proposer(request: pytest.FixtureRequest, tiny_folder: Path) -> MakeProposer:
    def write(prompt: Prompt, index: int) -> str:
        return f"reply {index} to {prompt.id}"

    makers: dict[str, MakeProposer] = {
        "scripted queue": lambda: ScriptedProposer([f"text {i}" for i in range(100)], logprob=-1.5),
        "scripted function": lambda: ScriptedProposer(write, policy_version=3),
        "random": lambda: RandomProposer(load_problem(resolve_problem("strings/date-to-iso"))),
        "local": lambda: LocalProposer(PolicyVersion(2, None, str(tiny_folder))),
    }
    return makers[request.param]


def make_local(folder: Path, **options: Any) -> LocalProposer:
    return LocalProposer(PolicyVersion(0, None, str(folder)), **options)


def local(proposer: Proposer) -> LocalProposer:
    assert isinstance(proposer, LocalProposer)
    return proposer


def copy_folder(source: Path, target: Path, leave_out: str = "") -> Path:
    target.mkdir()
    for file in source.iterdir():
        if file.name != leave_out:
            (target / file.name).write_bytes(file.read_bytes())
    return target


def test_importing_the_protocol_and_the_scripted_proposer_loads_no_torch() -> None:
    code = "import sys, evovpo.proposers, evovpo.proposers.scripted; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_local_proposer_without_torch_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "try: import evovpo.proposers.local\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.startswith("PolicyError")
    assert "pip install 'evovpo[local]'" in found.stdout


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


def test_scripted_replies_have_no_tokens_unless_asked() -> None:
    (rollout,) = replies(lambda: ScriptedProposer(lambda prompt, index: "xy"), make_prompt(), [0])
    assert (rollout.token_ids, rollout.logprobs, rollout.prompt_token_ids) == (None, None, None)


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


def test_a_reply_does_not_depend_on_the_size_of_the_batch(tiny_folder: Path) -> None:
    prompts = [make_prompt(i, text="write f(x)\n" * (i + 1)) for i in range(5)]

    async def together(proposer: Proposer) -> list[list[Rollout]]:
        return await asyncio.gather(*(proposer.propose(prompt, range(4), SAMPLING) for prompt in prompts))

    wide, narrow = (
        run_with(partial(make_local, tiny_folder, max_batch_rows=rows), together) for rows in (128, 6)
    )
    for one, other in zip(wide, narrow, strict=True):
        assert [content(rollout) for rollout in one] == [content(rollout) for rollout in other]


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


def test_the_next_request_uses_a_loaded_policy(tiny_folder: Path, other_folder: Path) -> None:
    async def use(proposer: Proposer) -> tuple[list[Rollout], list[Rollout]]:
        before = asyncio.ensure_future(proposer.propose(make_prompt(), range(4), SAMPLING))
        await asyncio.sleep(0)
        local(proposer).load_policy(PolicyVersion(1, 0, str(other_folder)))
        after = asyncio.ensure_future(proposer.propose(make_prompt(), range(4), SAMPLING))
        return await before, await after

    before, after = run_with(lambda: make_local(tiny_folder), use)
    assert {rollout.policy_version for rollout in before} == {0}
    assert {rollout.policy_version for rollout in after} == {1}
    old, new = (
        replies(partial(make_local, folder), make_prompt(), range(4))
        for folder in (tiny_folder, other_folder)
    )
    assert [r.text for r in before] == [r.text for r in old]
    assert [r.text for r in after] == [r.text for r in new]
    assert [r.text for r in old] != [r.text for r in new]


def test_a_policy_that_cannot_be_loaded_leaves_the_present_one(tiny_folder: Path, tmp_path: Path) -> None:
    async def use(proposer: Proposer) -> list[Rollout]:
        with pytest.raises(PolicyError):
            local(proposer).load_policy(PolicyVersion(1, 0, str(tmp_path / "nothing")))
        return await proposer.propose(make_prompt(), [0], SAMPLING)

    (rollout,) = run_with(lambda: make_local(tiny_folder), use)
    assert rollout.policy_version == 0


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


def test_closing_waits_for_requests_on_their_way(tiny_folder: Path) -> None:
    async def use(proposer: Proposer) -> list[Rollout]:
        request = asyncio.ensure_future(proposer.propose(make_prompt(), [0], SAMPLING))
        await asyncio.sleep(0)
        await proposer.aclose()
        return await request

    assert len(run_with(lambda: make_local(tiny_folder), use)) == 1


def test_a_closed_proposer_refuses_requests(tiny_folder: Path) -> None:
    async def use(proposer: Proposer) -> list[Rollout]:
        await proposer.aclose()
        return await proposer.propose(make_prompt(), [0], SAMPLING)

    with pytest.raises(RuntimeError, match="closed"):
        run_with(lambda: make_local(tiny_folder), use)


def test_a_prompt_longer_than_the_context_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(PolicyError, match=f"reads from 1 to {CONTEXT - 1}"):
        replies(lambda: make_local(tiny_folder), make_prompt(text="x" * 200), [0])


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=0.0), Sampling(max_tokens=0), Sampling(grammar_masked=True)]
)
def test_sampling_that_the_local_proposer_cannot_do_is_refused(tiny_folder: Path, sampling: Sampling) -> None:
    with pytest.raises(ConfigError):
        replies(lambda: make_local(tiny_folder), make_prompt(), [0], sampling)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="does not exist"):
        make_local(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused_with_its_name(
    tiny_folder: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(PolicyError, match=f"lacks {name}"):
        make_local(copy_folder(tiny_folder, tmp_path / "copy", leave_out=name))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_refused(tiny_folder: Path, tmp_path: Path, name: str) -> None:
    folder = copy_folder(tiny_folder, tmp_path / "copy")
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


def test_an_adapter_folder_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = copy_folder(tiny_folder, tmp_path / "copy")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(PolicyError, match="adapter"):
        make_local(folder)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"architectures": ["MistralForCausalLM"], "model_type": "mistral"}, "MistralForCausalLM"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
    ],
)
def test_an_architecture_that_the_sampler_does_not_compute_is_refused(
    tiny_folder: Path, tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    folder = copy_folder(tiny_folder, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(PolicyError, match=complaint):
        make_local(folder)


def test_two_prompts_with_the_same_text_and_seed_get_the_same_replies(tiny_folder: Path) -> None:
    prompt = make_prompt()
    one, other = (
        replies(lambda: make_local(tiny_folder), p, range(2)) for p in (prompt, replace(prompt, id="other"))
    )
    assert [rollout.text for rollout in one] == [rollout.text for rollout in other]


def test_loading_writes_nothing_to_the_terminal(tiny_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_local_policy(PolicyVersion(0, None, str(tiny_folder)))
    assert capfd.readouterr() == ("", "")
