"""The proposer suite, publishing and a search against a real vLLM that serves the built-in model.

Skipped unless EVOVPO_VLLM_PYTHON names a Python that has vLLM (a server is then started and ended), or
EVOVPO_TEST_VLLM the address of a running one (`http://127.0.0.1:8000/v1`), started as `COMMAND` and
`ENVIRONMENT` below say.
"""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("proposer_conformance")

import torch  # noqa: E402
from proposer_conformance import *  # noqa: E402, F403
from proposer_conformance import MakeProposer, make_prompt, replies  # noqa: E402
from tiny_models import load_folder, with_adapter  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from evovpo.builtin import BUILT_IN_MODEL  # noqa: E402
from evovpo.config import Config, ProposerConfig  # noqa: E402
from evovpo.problem.folder import load_problem  # noqa: E402
from evovpo.problem.suites import resolve_problem  # noqa: E402
from evovpo.proposers.local import no_progress_bar  # noqa: E402
from evovpo.proposers.openai import OpenAIProposer  # noqa: E402
from evovpo.proposers.policy_folders import served_name  # noqa: E402
from evovpo.proposers.policy_server import VLLMServer, load_and_compare  # noqa: E402
from evovpo.runs.driver import Progress  # noqa: E402
from evovpo.runs.request import RunRequest  # noqa: E402
from evovpo.runs.start_resume import start  # noqa: E402
from evovpo.store import Store  # noqa: E402
from evovpo.types import CallOutcome, PolicyVersion, Sampling  # noqa: E402
from trainer.learning.policy_models import TrainableModel  # noqa: E402
from trainer.loop.publish import make_warm_up, publish_policy, roll_back, serve_policy  # noqa: E402

NAME = "base"
COMMAND = [
    "-m", "vllm.entrypoints.openai.api_server", "--model", str(BUILT_IN_MODEL), "--served-model-name", NAME,
    "--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager", "--max-model-len", "512",
    "--max-num-seqs", "64", "--logprobs-mode", "processed_logprobs", "--enable-lora", "--max-lora-rank", "16",
    "--max-loras", "2", "--max-cpu-loras", "4",
    # A prompt in two parts and a seed kill the engine on CPUs: there is room for all of them (64 x 512).
    "--max-num-batched-tokens", "32768",
    # The model was trained on plain text: a chat is its messages one after the other.
    "--chat-template", "{% for message in messages %}{{ message['content'] }}{% endfor %}",
]  # fmt: skip
ENVIRONMENT = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
START_SECONDS = 600
START = PolicyVersion(0, None, str(BUILT_IN_MODEL))

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not (os.environ.get("EVOVPO_TEST_VLLM") or os.environ.get("EVOVPO_VLLM_PYTHON")),
        reason="set EVOVPO_VLLM_PYTHON=PATH (a Python with vLLM) or EVOVPO_TEST_VLLM=URL",
    ),
]


@pytest.fixture(scope="session")
def vllm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if address := os.environ.get("EVOVPO_TEST_VLLM"):
        yield address
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("vllm") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [os.environ["EVOVPO_VLLM_PYTHON"], *COMMAND, "--port", str(port)],
            env=os.environ | ENVIRONMENT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its engine is a process of its own
        )
    try:
        root = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(root):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield root + "/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def is_healthy(root: str) -> bool:
    try:
        with urllib.request.urlopen(root + "/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture(params=["completions", "chat"])
def make_proposer(request: pytest.FixtureRequest, vllm_url: str) -> MakeProposer:
    return lambda: OpenAIProposer(
        ProposerConfig(base_url=vllm_url, model=NAME, timeout_seconds=300, endpoint=request.param)
    )


@pytest.fixture
def target(vllm_url: str) -> VLLMServer:
    return VLLMServer(vllm_url, NAME, timeout_seconds=300)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "store.db")) as found:
        found.add_policy_version(START)
        yield found


def publish(store: Store, model: object, target: VLLMServer, folder: Path) -> PolicyVersion:
    with no_progress_bar():
        trained = TrainableModel(model, None, AutoTokenizer.from_pretrained(BUILT_IN_MODEL))
        made = PolicyVersion(-1, (store.served() or START).number, "", config_hash="test")
        version = publish_policy(store, trained, made, folder, [target])
        return serve_policy(store, version.number, "trained", [target])


def adapter(seed: int) -> object:
    return with_adapter(load_folder(BUILT_IN_MODEL), seed, scale=0.03)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_the_model_at_the_temperature(
    make_proposer: MakeProposer, temperature: float
) -> None:
    sampling = Sampling(temperature, 24)
    tokenizer, model = AutoTokenizer.from_pretrained(BUILT_IN_MODEL), load_folder(BUILT_IN_MODEL)
    for rollout in replies(make_proposer, make_prompt(text="⟦m1⟧a-b"), range(4), sampling):
        assert rollout.token_ids is not None
        assert rollout.prompt_token_ids == tuple(tokenizer("a ⟦m1⟧a-b")["input_ids"])
        assert rollout.text == tokenizer.decode(list(rollout.token_ids), skip_special_tokens=True)
        ids = [*rollout.prompt_token_ids, *rollout.token_ids]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, len(rollout.prompt_token_ids) - 1 : -1]
        found = torch.log_softmax(logits / temperature, -1)
        expected = [float(row[token]) for row, token in zip(found, rollout.token_ids, strict=True)]
        assert rollout.logprobs == pytest.approx(expected, abs=2e-5)


def test_a_search_gives_the_rows_that_the_model_in_process_gives(store: Store, vllm_url: str) -> None:
    settings = ["search.evaluations=64", "search.rollouts=8", "search.joins=false", "search.answers=3"]
    settings += ["search.stop_when_solved=false", "proposer.name=openai", "prompt.style=alignment"]
    settings += [f"proposer.model={NAME}", f"proposer.base_url={vllm_url}"]
    problem = load_problem(resolve_problem("strings/date-to-iso"))
    outcome = start(RunRequest(problem, Config.load(None, Config.read_changes(settings))), store)
    tokenizer, model = AutoTokenizer.from_pretrained(BUILT_IN_MODEL), load_folder(BUILT_IN_MODEL)
    largest = 0.0
    for group in store.groups(outcome.run):
        text = "".join(message.content for message in group.prompt.messages)
        for rollout in group.rollouts:
            assert rollout.token_ids is not None
            assert rollout.logprobs is not None
            assert rollout.prompt_token_ids == tuple(tokenizer(text)["input_ids"])
            assert rollout.text == tokenizer.decode(list(rollout.token_ids), skip_special_tokens=True)
            ids = [*rollout.prompt_token_ids, *rollout.token_ids]
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[
                    0, len(rollout.prompt_token_ids) - 1 : -1
                ]
            found = torch.log_softmax(logits, -1)
            for row, token, logprob in zip(found, rollout.token_ids, rollout.logprobs, strict=True):
                largest = max(largest, abs(float(row[token]) - logprob))
    assert largest < 1e-4
    calls = store.calls(outcome.run)
    assert [call.outcome for call in calls] == [CallOutcome.OK] * len(calls)
    told = sum(
        len(rollout.token_ids or ()) for group in store.groups(outcome.run) for rollout in group.rollouts
    )
    assert sum(call.completion_tokens or 0 for call in calls) >= told > 0


def test_a_context_that_ends_cuts_the_reply(make_proposer: MakeProposer) -> None:
    rollouts = replies(make_proposer, make_prompt(text="b" * 490), range(4), Sampling(max_tokens=160))
    assert max(len(rollout.token_ids or ()) for rollout in rollouts) <= 512 - 492


def test_adapters_are_published_followed_and_rolled_back(
    store: Store, target: VLLMServer, tmp_path: Path
) -> None:
    versions = [publish(store, adapter(seed), target, tmp_path / "policies") for seed in (1, 2)]
    assert store.served() == versions[1]
    assert roll_back(store, targets=[target]) == versions[0]
    warm_up = make_warm_up(adapter(1))
    assert load_and_compare(target, versions[0], warm_up) < 1e-4
    assert make_warm_up(adapter(2)).difference(warm_up.logprobs) > 1e-2
    for version in versions:
        target.unload(version)


def test_a_search_uses_the_adapter_that_is_published_meanwhile(
    store: Store, vllm_url: str, target: VLLMServer, tmp_path: Path
) -> None:
    settings = ["search.evaluations=48", "search.rollouts=4", "search.in_flight=1", "search.joins=false"]
    settings += ["search.stop_when_solved=false", "proposer.name=openai", "proposer.policy=served"]
    settings += [f"proposer.model={NAME}", f"proposer.base_url={vllm_url}"]
    versions: list[PolicyVersion] = []

    def told(progress: Progress) -> None:
        if progress.search.standing.proposed in (16, 32):
            seed = progress.search.standing.proposed // 16
            versions.append(publish(store, adapter(seed), target, tmp_path / "policies"))

    problem = load_problem(resolve_problem("strings/date-to-iso"))
    outcome = start(
        RunRequest(problem, Config.load(None, Config.read_changes(settings))), store, on_tell=told
    )
    rows = store.query(
        "SELECT policy_version, logprobs IS NOT NULL AS has_logprobs FROM rollouts JOIN tells "
        "ON tells.rollout_id = rollouts.id WHERE run_id = :run ORDER BY position",
        run=outcome.run,
    )
    assert [row["policy_version"] for row in rows] == [0] * 16 + [1] * 16 + [2] * 16
    assert all(row["has_logprobs"] for row in rows)
    with urllib.request.urlopen(target.address + "/v1/models", timeout=60) as answer:
        offered = answer.read().decode()
    assert served_name(versions[0], NAME) not in offered, "unloaded when its last request had ended"
    assert served_name(versions[1], NAME) in offered
    target.unload(versions[1])
