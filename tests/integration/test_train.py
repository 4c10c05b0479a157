"""`evovpo train`: any model on any domain, measured before and after, cut off and gone on with."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from shell import Shell
from tiny_models import OWN_DOMAIN, load_folder, write_tiny_folder

pytest.importorskip("trl")

from evovpo.errors import ConfigError, EvovpoError, PolicyError
from evovpo.proposers.local import load_local_policy
from evovpo.types import PolicyVersion
from trainer.domains import open_domain, training
from trainer.domains.sampling import Ask, complete, load_policy
from trainer.domains.training import TrainingRequest, checked_settings, train

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_trl")]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("parts")
    (folder / "own.py").write_text(OWN_DOMAIN)
    rows = [{"prompt": "abcdefghij"[: place % 4 + 1], "shape": {str(place): [place]}} for place in range(10)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = write_tiny_folder(folder / "model")
    return {"domain": str(folder / "own.py"), "data": str(folder / "rows.jsonl"), "model": str(model)}


def asked(parts: dict[str, str], output: Path, **changes: Any) -> TrainingRequest:
    small: dict[str, Any] = {"steps": 2, "prompts": 2, "rollouts": 4, "test": 1, "ks": (1, 2)}
    settings = {"k": 2, "learning_rate": 0.01} | changes.pop("settings", {})
    return TrainingRequest(**parts | small | changes, output=str(output), settings=settings)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_folder(folder).state_dict()
    return found


def is_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_command_prints_one_line_of_json_and_leaves_a_model_that_searches_take(
    parts: dict[str, str], tmp_path: Path, evovpo: Shell
) -> None:
    command = ["train", *(f"--{name}={value}" for name, value in parts.items()), "--output=out", "--json"]
    command += ["--steps=2", "--prompts=2", "--rollouts=4", "--k=1,2", "--set=k=2"]
    command += ["--set=report_to=tensorboard"]
    answer = evovpo(*command)
    assert answer.code == 0, answer.err
    assert answer.out.count("\n") == 1
    found = answer.json
    assert (found["steps"], found["output"]) == (2, "out")
    assert list(found["before"]) == list(found["after"]) == ["1", "2"]
    assert 0 < found["before"]["1"] < found["before"]["2"] < 1
    assert found["gain"]["low"] <= found["gain"]["mean"] <= found["gain"]["high"]
    assert found["tokens"] >= 2 * 2 * 4
    assert list(tmp_path.glob("out/**/events.out.tfevents.*"))
    policy = load_local_policy(PolicyVersion(0, None, "out"))
    assert policy.end_ids == (2,)
    assert not is_same(weights(Path("out")), weights(Path(parts["model"])))
    again = evovpo(*command)
    assert again.json == found
    assert "was made before" in again.err
    other = evovpo(*command, "--steps=3")
    assert other.code == 2
    assert "holds a training with steps 2; ask for the same" in other.err


def test_a_training_that_was_cut_off_goes_on_to_the_same_weights(
    parts: dict[str, str], tmp_path: Path
) -> None:
    whole = asked(parts, tmp_path / "whole", steps=4, test=1, settings={"save_steps": 2})
    train(whole)
    cut = dataclasses.replace(whole, output=str(tmp_path / "cut"))

    def stop(name: str, done: int, total: int, figures: str) -> None:
        if (name, done) == ("training", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(cut, stop)
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    (tmp_path / "cut" / "checkpoint-3").mkdir()  # of a process killed while it wrote
    said: list[str] = []
    found = train(cut, lambda name, *amounts: said.append(name))
    assert said[:1] == [f"Going on from {tmp_path / 'cut' / 'checkpoint-2'}."]
    assert found._replace(output="") == train(whole)._replace(output="")
    assert is_same(weights(tmp_path / "cut"), weights(tmp_path / "whole"))


def test_an_adapter_is_trained_and_merged(parts: dict[str, str], tmp_path: Path) -> None:
    train(asked(parts, tmp_path / "out", lora=2, test=0, settings={"beta": 0.1}))
    from peft import PeftModel

    adapter: Any = PeftModel.from_pretrained(load_folder(Path(parts["model"])), tmp_path / "out" / "adapter")
    merged, start = weights(tmp_path / "out"), weights(Path(parts["model"]))
    assert is_same(merged, adapter.merge_and_unload().state_dict())
    changed = {name for name in start if not torch.equal(merged[name], start[name])}
    assert changed
    assert all("_proj" in name for name in changed)


def test_two_processes_take_the_step_of_one_and_train_together(parts: dict[str, str], tmp_path: Path) -> None:
    from two_processes import step

    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    script = Path(__file__).parents[1] / "support" / "two_processes.py"
    environment = {"PYTHONPATH": str(script.parents[2]), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [*command, str(script), parts["model"], parts["data"], parts["domain"], str(tmp_path)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    one: Any = step(Path(parts["model"]), tmp_path / "one", 1).model
    start = load_folder(Path(parts["model"])).state_dict()
    for name, value in torch.load(tmp_path / "weights.pt").items():
        torch.testing.assert_close(value, one.state_dict()[name], atol=1e-6, rtol=1e-5)
    assert max(float((one.state_dict()[name] - start[name]).abs().max()) for name in start) > 1e-3
    result = json.loads((tmp_path / "trained" / "training.json").read_text())["result"]
    assert list(result["before"]) == ["1", "2"]
    assert (tmp_path / "trained" / "model.safetensors").is_file()
    # Measured where it is trained: before too, the model is placed as its processes share it.
    measured = sorted((tmp_path / "measured.txt").read_text().splitlines())
    assert measured == ["after DistributedDataParallel"] * 2 + ["before DistributedDataParallel"] * 2


def test_a_dry_run_shows_what_would_be_trained_on_and_writes_nothing(
    parts: dict[str, str], tmp_path: Path, evovpo: Shell
) -> None:
    command = ["train", *(f"--{name}={value}" for name, value in parts.items()), "--dry-run", "--rollouts=4"]
    answer = evovpo(*command, "--set", "k=2", "--steps=10")
    assert answer.code == 0, answer.err
    assert answer.out.count("reward vowels ") == 3
    assert "VPO here: " in answer.out
    found = evovpo(*command, "--set", "k=2", "--steps=10", "--json").json
    assert len(found["samples"]) == 3
    assert found["verdict"] in ("worth it", "worth it after changes", "not worth it")
    assert 10 * 8 * 4 <= found["tokens"] <= found["most_tokens"] == 10 * 8 * 4 * 6
    start = load_folder(Path(parts["model"]))
    assert found["parameters"] == sum(one.numel() for one in start.parameters())
    assert found["memory_bytes"] > 20 * found["parameters"]
    shorter = (*command, "--set", "k=2", "--steps=10", "--set", "max_completion_length=2", "--json")
    short = evovpo(*shorter).json
    assert short["tokens"] <= short["most_tokens"] == 10 * 8 * 4 * 2
    assert short["memory_bytes"] < found["memory_bytes"]
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_trained_is_said_before_anything_is_written(
    parts: dict[str, str], tmp_path: Path
) -> None:
    no_tokenizer = tmp_path / "bare"
    load_folder(Path(parts["model"])).save_pretrained(no_tokenizer)
    columns = tmp_path / "columns.jsonl"
    columns.write_text('{"question": "a"}\n' * 10)
    wrong: list[tuple[dict[str, Any], type[EvovpoError], str]] = [
        ({"domain": "musiq"}, ConfigError, "unknown domain 'musiq'"),
        ({"data": None}, ConfigError, "reads its prompts from a file"),
        ({"data": str(columns)}, EvovpoError, "expected the fields prompt, found question"),
        ({"model": None}, ConfigError, "has no start model of its own"),
        ({"model": str(no_tokenizer)}, PolicyError, "lacks tokenizer.json"),
        ({"settings": {"k": 4}, "objective": "max-at-k"}, ConfigError, "needs at least 5 rollouts"),
        ({"settings": {"learning_rat": 1}}, ConfigError, "did you mean 'learning_rate'"),
        ({"settings": {"learning_rate": "fast"}}, ConfigError, "--set learning_rate: expected"),
        ({"settings": {"max_steps": 9}}, ConfigError, "this is the option --steps"),
        ({"settings": {"per_device_train_batch_size": 3}}, ConfigError, "settings of the trainer"),
        ({"objective": "vpo", "answers": 1}, ConfigError, "pays for the answers of one rollout together"),
    ]
    for changes, kind, message in wrong:
        with pytest.raises(kind, match=message):
            train(asked({**parts}, tmp_path / "out", **changes))
    assert not (tmp_path / "out").exists()
    (tmp_path / "long.jsonl").write_text(json.dumps({"prompt": "a" * 96}) + "\n")
    with (
        open_domain(parts["domain"], tmp_path / "long.jsonl") as domain,
        pytest.raises(PolicyError, match="has 96 tokens, and the model's context 96"),
    ):
        complete(load_policy(parts["model"]), domain, domain.prompts, Ask(1))
    given = {"learning_rate": "1e-4", "use_vllm": True, "beta": 0, "lr_scheduler_kwargs": {"a": 1}}
    assert checked_settings(given) == given | {"learning_rate": 1e-4, "beta": 0.0}
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="holds other files"):
        train(asked(parts, tmp_path / "full"))


def test_completions_depend_on_the_prompt_and_the_seed_alone(
    parts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(parts["model"])
    with open_domain(parts["domain"], parts["data"]) as domain:
        cold = Ask(2, temperature=1e-4)
        together = complete(policy, domain, domain.prompts[:4], cold)
        alone = [complete(policy, domain, [row], cold)[0] for row in domain.prompts[:4]]
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        one, same, other = (
            complete(policy, domain, domain.prompts[:4], Ask(8, seed=seed)) for seed in (1, 1, 2)
        )
        assert torch.equal(before, torch.random.get_rng_state())
    assert together == alone
    assert one == same
    assert one != other
    for completion in one[0]:
        text = completion.text
        assert completion.answers[0].rewards == (sum(map(text.count, "aeiou")) / 6, 1 / (1 + len(text)))


def test_chat_messages_are_one_text_where_the_tokenizer_has_no_template(
    parts: dict[str, str], tmp_path: Path
) -> None:
    chat = [{"role": "system", "content": "be"}, {"role": "user", "content": "ab"}]
    (tmp_path / "chat.jsonl").write_text(f"{json.dumps({'prompt': chat})}\n" * 2)
    made = training.make_trainer
    with open_domain(parts["domain"], tmp_path / "chat.jsonl") as domain:
        dataset: Any = made(asked(parts, tmp_path / "out"), domain)[0].train_dataset
    assert dataset["prompt"][0] == "be\n\nab\n\n"
