"""Publishing: what is written was trained, what is served was published, and kills do no harm."""

import json
import os
import resource
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from fake_server import FakeServer, Faults, serve
from safetensors.torch import load_file, save_file
from tiny_models import load_folder, tiny_model, with_adapter, write_tiny_folder
from transformers import AutoTokenizer

from evovpo.errors import PolicyError, PublishError
from evovpo.proposers.local import load_model, no_progress_bar
from evovpo.proposers.policy_folders import read_warm_up, served_name
from evovpo.proposers.policy_server import VLLMServer
from evovpo.store import Store
from evovpo.types import PolicyEventKind, PolicyVersion
from trainer.learning import policy_models
from trainer.learning.policy_models import TrainableModel
from trainer.loop import publish
from trainer.loop.publish import make_warm_up, publish_policy, roll_back, serve_policy

pytestmark = pytest.mark.slow

PUBLISHED, SERVED, ROLLED_BACK, REFUSED = (
    PolicyEventKind.PUBLISHED,
    PolicyEventKind.SERVED,
    PolicyEventKind.ROLLED_BACK,
    PolicyEventKind.REFUSED,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    return AutoTokenizer.from_pretrained(base)


@pytest.fixture
def start(base: Path) -> PolicyVersion:
    return PolicyVersion(0, None, str(base))


@pytest.fixture
def store(tmp_path: Path, start: PolicyVersion) -> Iterator[Store]:
    with Store.open(str(tmp_path / "store.db")) as found:
        found.add_policy_version(start)
        found.serve(0)
        yield found


@pytest.fixture(scope="module")
def running(base: Path) -> Iterator[tuple[FakeServer, str]]:
    server = FakeServer(base)
    with serve(server) as url:
        yield server, url


@pytest.fixture
def server(running: tuple[FakeServer, str], base: Path) -> FakeServer:
    """The server as if it had just been started on the base model."""
    found, _ = running
    found.restart()
    return found


@pytest.fixture
def target(running: tuple[FakeServer, str], server: FakeServer) -> VLLMServer:
    return VLLMServer(running[1], "base", timeout_seconds=20)


class Publisher:
    """Publishes small changes of the base model into one store."""

    def __init__(self, store: Store, base: Path, tokenizer: Any, policies: Path) -> None:
        self.store, self.base, self.tokenizer, self.policies = store, base, tokenizer, policies

    def adapter(self, seed: int) -> Any:
        return with_adapter(load_folder(self.base), seed)

    def whole(self, seed: int) -> Any:
        torch.manual_seed(seed)
        model = load_folder(self.base)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        return model

    def publish(
        self,
        model: Any,
        parent: PolicyVersion | None = None,
        *,
        policies: Path | None = None,
        targets: Sequence[VLLMServer] = (),
        serve: bool = True,
    ) -> PolicyVersion:
        parent = parent or self.store.served() or PolicyVersion(0, None, str(self.base))
        made = PolicyVersion(-1, parent.number, "", f"prompt after {parent.number}", "hash", (("loss", 0.5),))
        trained = TrainableModel(model, None, self.tokenizer)
        version = publish_policy(self.store, trained, made, policies or self.policies, targets)
        if serve:
            serve_policy(self.store, version.number, f"trained from version {parent.number}", targets)
        return version

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.policies.iterdir()) if self.policies.exists() else []

    @property
    def happened(self) -> list[tuple[int | None, PolicyEventKind]]:
        """The events after the fixture's own."""
        return [(event.number, event.kind) for event in self.store.policy_events()[1:]]


@pytest.fixture
def publisher(store: Store, base: Path, tokenizer: Any, tmp_path: Path) -> Publisher:
    return Publisher(store, base, tokenizer, tmp_path / "policies")


@pytest.fixture(autouse=True)
def without_progress_bars() -> Iterator[None]:
    with no_progress_bar():
        yield


# The warm-up


def test_a_warm_up_is_what_the_model_says_of_a_fixed_text(base: Path) -> None:
    model = load_folder(base)
    found = make_warm_up(model)
    assert len(found.next_ids) == len(found.logprobs) > 4
    for left, token, logprob in zip(reversed(range(len(found.next_ids))), *found[1:], strict=True):
        prefix = found.text_ids[: len(found.text_ids) - left]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prefix])).logits[0, -1].double()
        assert token == int(logits.argmax())
        assert logprob == pytest.approx(float(logits[token] - logits.exp().sum().log()), abs=1e-5)
    assert make_warm_up(model) == found


@pytest.mark.parametrize(
    "name", ["embed_tokens", "layers.0.mlp.gate_proj", "layers.1.self_attn.k_proj", "model.norm"]
)
def test_a_small_change_of_any_weight_shows(base: Path, name: str) -> None:
    model = load_folder(base)
    before = make_warm_up(model)
    torch.manual_seed(0)
    (parameter,) = [p for key, p in model.named_parameters() if name in key]
    with torch.no_grad():
        parameter.mul_(1 + 0.02 * torch.randn_like(parameter))
    after = make_warm_up(model)
    assert after.next_ids != before.next_ids or before.difference(after.logprobs) > 1e-3


def test_a_warm_up_leaves_the_model_as_it_was_and_uses_no_dropout(base: Path) -> None:
    model = with_adapter(load_folder(base))
    expected = make_warm_up(model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.9
    model.train()
    assert make_warm_up(model) == expected
    assert model.training


def test_a_model_in_half_precision_is_computed_as_it_will_be_loaded() -> None:
    half = tiny_model().to(torch.bfloat16)
    assert make_warm_up(half) == make_warm_up(tiny_model().to(torch.bfloat16).float())
    assert next(half.parameters()).dtype == torch.bfloat16


def test_a_difference_that_is_no_number_is_infinite(base: Path) -> None:
    warm_up = make_warm_up(load_folder(base))
    broken = (float("nan"), *warm_up.logprobs[1:])
    assert warm_up.difference(broken) == warm_up.difference(warm_up.logprobs[1:]) == float("inf")
    assert warm_up.difference(warm_up.logprobs) == 0


# What is written


def test_full_weights_are_published_and_served(publisher: Publisher, store: Store) -> None:
    model = publisher.whole(1)
    version = publisher.publish(model)
    assert version == PolicyVersion(
        number=1,
        parent=0,
        path=str(publisher.policies / "v0001"),
        trained_through="prompt after 0",
        config_hash="hash",
        metrics=(("loss", 0.5),),
    )
    assert store.policy_version(1) == store.served() == version
    assert publisher.happened == [(1, PUBLISHED), (1, SERVED)]
    assert "loaded afresh" in store.policy_events()[1].detail
    assert publisher.names == ["v0001"]
    loaded = load_model(version)
    assert make_warm_up(loaded.model) == make_warm_up(model) == read_warm_up(Path(version.path))
    assert loaded.tokenizer("abc")["input_ids"] == publisher.tokenizer("abc")["input_ids"]


def test_of_a_peft_model_only_the_adapter_is_written(publisher: Publisher, base: Path) -> None:
    model = publisher.adapter(1)
    version = publisher.publish(model)
    assert {path.name for path in Path(version.path).iterdir()} <= {
        "adapter_config.json", "adapter_model.safetensors", "policy.json", "README.md"
    }  # fmt: skip
    config = json.loads((Path(version.path) / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(base.resolve())
    found = make_warm_up(load_model(version).model)
    assert make_warm_up(model).difference(found.logprobs) < 1e-4
    assert make_warm_up(load_folder(base)).difference(found.logprobs) > 0.1


def test_versions_follow_each_other_wait_to_be_served_and_can_be_read_by_other_users(
    publisher: Publisher, store: Store, start: PolicyVersion
) -> None:
    first = publisher.publish(publisher.whole(1), serve=False)
    assert (store.served(), publisher.happened) == (start, [(1, PUBLISHED)])
    assert serve_policy(store, 1, "it is better") == store.served() == first
    assert store.policy_events()[-1].detail == "it is better"
    versions = [first, publisher.publish(publisher.adapter(2))]
    assert [(version.number, version.parent) for version in versions] == [(1, 0), (2, 1)]
    assert store.served() == versions[1]
    assert publisher.names == ["v0001", "v0002"]
    for version in versions:
        modes = {stat.S_IMODE(path.stat().st_mode) for path in Path(version.path).iterdir()}
        assert modes == {0o644}


def test_an_adapter_on_another_base_than_it_was_trained_on_is_refused(
    publisher: Publisher, store: Store, start: PolicyVersion
) -> None:
    model = publisher.adapter(1)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)  # in memory, not in the folder of the base
    with pytest.raises(
        PublishError, match=r"version 1 is not served: .* differ by [\d.]+ nats from the trained"
    ):
        publisher.publish(model)
    assert store.served() == start
    assert store.policy_versions() == [start]
    assert publisher.happened == [(1, REFUSED)]
    assert "nats" in store.policy_events()[-1].detail
    assert publisher.names == ["v0001.refused"]
    assert publisher.publish(publisher.adapter(1)).number == 2, "a number that was refused is not used again"


def test_an_adapter_whose_base_lies_nowhere_is_refused(publisher: Publisher, store: Store) -> None:
    model = publisher.adapter(1)
    model.peft_config["default"].base_model_name_or_path = "someone/model"
    with pytest.raises(PublishError, match="'someone/model', which is no folder here"):
        publisher.publish(model)
    assert (publisher.names, publisher.happened, len(store.policy_versions())) == ([], [], 1)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Make every write beyond `size` bytes of a file fail, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [100, 20_000])
@pytest.mark.parametrize("whole", [True, False], ids=["full weights", "adapter"])
def test_a_full_disk_leaves_nothing_behind(
    publisher: Publisher, store: Store, start: PolicyVersion, whole: bool, size: int
) -> None:
    model = publisher.whole(1) if whole else publisher.adapter(1)
    with (
        pytest.raises(PublishError, match=r"cannot be written .* make room"),
        files_of_at_most(size),
    ):
        publisher.publish(model)
    assert publisher.names == []
    assert publisher.happened == []
    assert store.policy_versions() == [start]
    assert publisher.publish(model).number == 1


def test_a_folder_that_is_not_of_the_store_is_left_alone(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PublishError, match="cannot be used as the folder of policies"):
        publisher.publish(publisher.whole(1), policies=tmp_path / "file")
    with Store.open(str(tmp_path / "other.db")) as other:
        other.add_policy_version(PolicyVersion(0, None, str(publisher.base)))
        publish_to = Publisher(other, publisher.base, publisher.tokenizer, publisher.policies)
        publish_to.publish(publisher.whole(1))
    with pytest.raises(PublishError, match=r"belongs to .*other\.db\); give every store"):
        publisher.publish(publisher.whole(2))
    assert publisher.names == ["v0001"]


# Killed


class Killer:
    """Ends this process at once, without any cleaning up, at the n-th step of the publication's files."""

    FILES = (publish.__file__, policy_models.__file__)

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename in self.FILES:
            self.steps -= 1
            if self.steps < 0:
                os._exit(9)


def publish_and_be_killed(publisher: Publisher, database: Path, steps: int) -> bool:
    """Publish in a child process that is killed after some steps; return whether it was."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with Store.open(str(database)) as store:
                mortal = Publisher(store, publisher.base, publisher.tokenizer, publisher.policies)
                model = mortal.whole(1)
                sys.setprofile(Killer(steps))
                mortal.publish(model)
                sys.setprofile(None)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9)
    return code == 9


def test_a_publication_killed_anywhere_is_finished_by_the_next(
    publisher: Publisher, store: Store, tmp_path: Path
) -> None:
    model = publisher.whole(1)
    expected = make_warm_up(model)
    kills, steps = 0, 0
    seen = set()
    while publish_and_be_killed(publisher, tmp_path / "store.db", steps):
        kills += 1
        stored = store.policy_versions()
        seen.add((tuple(publisher.names), len(stored), tuple(publisher.happened)))
        if len(stored) > 1:
            assert make_warm_up(load_model(stored[1]).model) == expected, "a row means: servable"
        version = publisher.publish(model)
        assert (version.number, store.served()) == (kills, version), "nothing was published twice"
        assert publisher.names == [f"v{number:04d}" for number in range(1, kills + 1)]
        assert publisher.happened[-2:] == [(kills, PUBLISHED), (kills, SERVED)]
        steps += 13
    assert kills > 5
    assert len(seen) > 4


# Servers


def test_an_adapter_is_loaded_and_compared_before_its_row(
    publisher: Publisher, store: Store, server: FakeServer, target: VLLMServer
) -> None:
    model = publisher.adapter(1)
    version = publisher.publish(model, targets=[target])
    name = served_name(version, "base")
    assert set(server.models) == {"base", name}
    warm_up = make_warm_up(model)
    found = target.logprobs(version, warm_up.text_ids, warm_up.next_ids)
    assert warm_up.difference(found) < 1e-4
    assert target.address in store.policy_events()[1].detail
    assert {body["model"] for body in server.completions} == {name}


@pytest.mark.parametrize(
    ("faults", "complaint"),
    [
        (Faults(lies=True), r"computes with other weights: .* differ by ([\d.]+|inf) nats"),
        (Faults(refuses=True), r"answered 500 to /v1/load_lora_adapter: .*out of memory"),
        (Faults(statuses=[500]), "answered 500 to /v1/completions"),
        (Faults(has_logprobs=False), "gave no log-probabilities"),
        (Faults(has_adapters=False), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"),
    ],
    ids=["lies", "refuses", "fails", "has none", "takes no adapters"],
)
def test_a_server_that_does_not_compute_the_version_keeps_the_old_one(
    publisher: Publisher,
    store: Store,
    server: FakeServer,
    target: VLLMServer,
    faults: Faults,
    complaint: str,
) -> None:
    old = publisher.publish(publisher.adapter(1), targets=[target])
    server.faults = faults
    with pytest.raises(PublishError, match=complaint):
        publisher.publish(publisher.adapter(2), targets=[target])
    assert store.served() == old
    assert [version.number for version in store.policy_versions()] == [0, 1]
    assert publisher.happened[2:] == [(2, REFUSED)]
    assert publisher.names == ["v0001", "v0002.refused"]
    assert set(server.models) == {"base", served_name(old, "base")}


def test_one_server_that_cannot_be_reached_takes_the_version_from_all(
    publisher: Publisher, store: Store, start: PolicyVersion, server: FakeServer, target: VLLMServer
) -> None:
    gone = VLLMServer("http://127.0.0.1:9/v1", "base")
    with pytest.raises(PublishError, match=r"cannot be reached .* is the server running"):
        publisher.publish(publisher.adapter(1), targets=[target, gone])
    assert store.served() == start
    assert publisher.happened == [(1, REFUSED)]
    assert set(server.models) == {"base"}


def test_full_weights_are_served_only_by_a_server_that_was_started_with_them(
    publisher: Publisher, store: Store, start: PolicyVersion, server: FakeServer, target: VLLMServer
) -> None:
    with pytest.raises(PublishError, match=r"other weights: .* start it on .*v0001, or train an"):
        publisher.publish(publisher.whole(1), targets=[target])
    assert store.served() == start
    assert publisher.happened == [(1, PUBLISHED), (1, REFUSED)]
    assert server.models["base"].folder == str(publisher.base)
    assert serve_policy(store, 0, "the server has these", [target]) == start


# Back, and forth


def test_rolling_back_serves_the_parent_again(
    publisher: Publisher, store: Store, server: FakeServer, target: VLLMServer
) -> None:
    versions = [publisher.publish(publisher.adapter(seed), targets=[target]) for seed in (1, 2, 3)]
    assert set(server.models) == {"base", *(served_name(version, "base") for version in versions[1:])}
    assert roll_back(store, targets=[target]) == store.served() == versions[1]
    assert publisher.happened[-1] == (2, ROLLED_BACK)
    assert roll_back(store, 1, [target]) == store.served() == versions[0]
    assert served_name(versions[0], "base") in server.models, "unloaded before, loaded again"
    assert roll_back(store, targets=[target]).number == 0
    with pytest.raises(PublishError, match="version 0 is served, and it has no parent"):
        roll_back(store)
    assert publisher.publish(publisher.adapter(4)).number == 4


def test_a_version_whose_folder_is_gone_is_not_served(publisher: Publisher, store: Store) -> None:
    first = publisher.publish(publisher.adapter(1))
    second = publisher.publish(publisher.adapter(2))
    Path(first.path).rename(first.path + " moved")
    with pytest.raises(PolicyError, match=r"policy version 1 is gone: .*v0001 does not exist"):
        roll_back(store)
    assert store.served() == second


def test_a_version_whose_weights_changed_since_is_not_served(publisher: Publisher, store: Store) -> None:
    first = publisher.publish(publisher.whole(1))
    second = publisher.publish(publisher.whole(2))
    file = Path(first.path) / "model.safetensors"
    save_file({key: value * 1.01 for key, value in load_file(file).items()}, file, metadata={"format": "pt"})
    with pytest.raises(PublishError, match=r"version 1 is not served: .* differ by"):
        roll_back(store)
    assert store.served() == second
    assert publisher.happened[-1] == (1, REFUSED)


def test_without_a_served_version_there_is_nothing_to_roll_back(tmp_path: Path) -> None:
    with (
        Store.open(str(tmp_path / "empty.db")) as empty,
        pytest.raises(PublishError, match="nothing to roll back"),
    ):
        roll_back(empty)
