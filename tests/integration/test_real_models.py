"""What people's own models bring along: generation settings, chat templates, tokens of their own."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from mazes import route_rewards, route_words, routes_with_items
from shell import Shell
from tiny_models import CHAT_TEMPLATE, END_ID, hf, load_folder, write_answering_model, write_tiny_folder

pytest.importorskip("trl")

from evovpo.errors import ConfigError, PolicyError, TrainingError
from tests.support.benchmark_rows import toolrl, write_jsonl
from tests.unit.test_text_files import FORMATS
from trainer.domains import open_domain, training
from trainer.domains.catalogue import FILE_DOMAINS, GENERATED, START_FOLDERS
from trainer.domains.maze.generator import generate_maze
from trainer.domains.maze.words import words_of
from trainer.domains.sampling import Ask, complete, load_policy
from trainer.domains.training import TrainingRequest, train

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet_trl")]

OWN = """
COMPONENTS = ("vowels",)
MAX_TOKENS = 12

def reward_vectors(completions, **columns):
    return [[[min(1.0, sum(map(text.count, "aeiou")) / 6)]] for text in completions]
"""
NOTHING = OWN.replace('min(1.0, sum(map(text.count, "aeiou")) / 6)', "0.0")


def own(folder: Path, code: str = OWN) -> dict[str, str]:
    (folder / "own.py").write_text(code)
    rows = write_jsonl(folder / "rows.jsonl", [{"prompt": "abcdefghij"[: n % 4 + 1]} for n in range(10)])
    return {"domain": str(folder / "own.py"), "data": str(rows)}


def small(**changes: Any) -> dict[str, Any]:
    return {"steps": 1, "prompts": 2, "rollouts": 4, "test": 0, "ks": (1, 2), "settings": {"k": 2}} | changes


def test_what_a_model_says_of_generation_has_no_say(tmp_path: Path) -> None:
    parts, found = own(tmp_path), []
    written: dict[str, Any] = {"repetition_penalty": 1.8, "top_k": 3, "no_repeat_ngram_size": 2, "top_p": 0.5}
    for name, settings in (("plain", {}), ("instruct", written)):
        folder = write_tiny_folder(tmp_path / name, "qwen2")
        hf.GenerationConfig(eos_token_id=END_ID, pad_token_id=0, do_sample=True, **settings).save_pretrained(
            folder
        )
        with open_domain(parts["domain"], parts["data"]) as domain:
            policy = load_policy(str(folder))
            found.append(complete(policy, domain, domain.prompts, Ask(8)))
            asked = complete(policy, domain, domain.prompts, Ask(8, top_k=1))
            assert policy.model.generation_config.top_k == settings.get("top_k")
    assert found[0] == found[1]
    assert len({one.text for one in asked[0]}) == 1 < len({one.text for one in found[0][0]})


def test_a_tokenizer_that_makes_nothing_of_a_prompt_is_an_error(tmp_path: Path) -> None:
    parts = own(tmp_path)
    write_jsonl(tmp_path / "rows.jsonl", [{"prompt": "ÄÖÜ"}] * 10)
    policy = load_policy(str(write_tiny_folder(tmp_path / "model", "qwen2")))
    with (
        open_domain(parts["domain"], parts["data"]) as domain,
        pytest.raises(PolicyError, match="its tokenizer makes no token of a prompt"),
    ):
        complete(policy, domain, domain.prompts, Ask(2))


def test_the_arguments_of_the_chat_template_are_those_of_the_training(tmp_path: Path, evovpo: Shell) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", list(map(toolrl, range(10))))
    answers = [str(toolrl(number)["reward_model"]["ground_truth"]).replace("\n", "") for number in range(10)]
    refuses = "{% if enable_thinking is not defined %}{{ raise_exception('thinks') }}{% endif %}"
    without = {"enable_thinking": False}
    with open_domain("toolrl", rows) as domain:
        folder = write_answering_model(
            tmp_path / "model", domain.prompts, answers, refuses + CHAT_TEMPLATE, **without
        )
    parts: dict[str, Any] = {"domain": "toolrl", "data": str(rows), "model": str(folder)}
    settings = {"k": 2, "chat_template_kwargs": without, "max_completion_length": 1}
    asked = TrainingRequest(**parts | small(test=1, settings=settings), output=str(tmp_path / "out"))
    found = train(asked)
    assert found.before is not None
    command = ["measure", "--domain=toolrl", f"--data={rows}", f"--model={folder}", "--k=1", "--json"]
    assert "its chat template refused the prompt: thinks" in evovpo(*command).err
    answer = evovpo(*command, "--template", "enable_thinking=false")
    assert answer.code == 0, answer.err


@pytest.mark.parametrize("name", ["maze", "maze-conflict", "strings"])
def test_a_model_with_other_tokens_is_refused_where_answers_are_tokens(
    name: str, tmp_path: Path, evovpo: Shell
) -> None:
    folder = write_tiny_folder(tmp_path / "model", "qwen2")
    with pytest.raises(ConfigError, match="needs the tokens of its own start model"):
        train(TrainingRequest(domain=name, model=str(folder), output=str(tmp_path / "out"), **small()))
    out = tmp_path / "study"
    for command in (
        ("measure", "--domain", name, "--model", folder, "--prompts=1", "--k=1"),
        ("study", name, "--model", folder, "--out", out),
    ):
        answer = evovpo(*command)
        assert answer.code == 2, answer.err
        assert f"the model {folder} has others" in answer.err
    assert not out.exists()


def test_a_maze_in_words_is_for_any_model(tmp_path: Path) -> None:
    maze = generate_maze("train-0-0")
    assert "\n".join(maze.rows) in words_of(maze, 3)
    found = []
    with open_domain("maze-words", answers=3, tasks=2) as domain:
        assert domain.prompts[0]["prompt"][0]["content"] == words_of(maze, 3)
        routes = ["".join(moves) for moves in ("DDRR", "RRDD", "UULL")]
        text = "Let me see.\n" + "\n".join(
            f"<route_{n}>{route_words(moves)}</route_{n}>" for n, moves in enumerate(routes, 1)
        )
        (found,) = domain.judge([text], domain.prompts[:1])
        assert [answer.rewards for answer in found] == [route_rewards(maze, moves) for moves in routes]
        (broken,) = domain.judge(["<route_1>UP, NORTH</route_1><route_2>UP"], domain.prompts[:1])
    assert [answer.reason for answer in broken] == [
        "NORTH: expected UP, DOWN, LEFT and RIGHT alone", "<route_2> is not closed", "it has no <route_3>"
    ]  # fmt: skip
    words = [f"<route>{route_words(moves)}</route>" for moves in routes_with_items(maze)]
    with open_domain("maze-words", tasks=2) as domain:
        best = max(sum(one.rewards or ()) for (one,) in domain.judge(words, domain.prompts[:1] * len(words)))
        assert best > 2
        answers = [word.replace(" ", ",") for word in words]
        folder = write_answering_model(tmp_path / "model", domain.prompts, answers)
    settings = {"k": 2, "max_completion_length": 1, "check_first_batch": False}
    parts: dict[str, Any] = {"domain": "maze-words", "model": str(folder)}
    done = train(TrainingRequest(**parts | small(test=1, settings=settings), output=str(tmp_path / "out")))
    assert done.before is not None


def worthless(name: str, folder: Path) -> dict[str, str]:
    """Return a domain with a model none of whose answers earns anything."""
    if name == "yours":
        return own(folder, NOTHING) | {"model": str(write_tiny_folder(folder / "model"))}
    if name in START_FOLDERS:
        shutil.copytree(START_FOLDERS[name], folder / "model")
        blank = load_folder(folder / "model").apply(lambda part: getattr(part, "reset_parameters", int)())
        blank.save_pretrained(folder / "model")
        return {"domain": name, "model": str(folder / "model")}
    parts = {"domain": name}
    if name in FORMATS:
        rows = write_jsonl(folder / "rows.jsonl", list(map(FORMATS[name][0], range(10))))
        parts["data"] = str(rows)
    with open_domain(name, parts.get("data"), tasks=10) as domain:
        return parts | {"model": str(write_answering_model(folder / "model", domain.prompts, ["nothing"]))}


@pytest.mark.parametrize("name", [*GENERATED, *FILE_DOMAINS, "yours"])
def test_a_first_batch_that_earns_nothing_is_an_error_that_shows_a_prompt_and_a_completion(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_BUNDLED_TASKS", 10)
    parts: dict[str, Any] = worthless(name, tmp_path)
    settings = {"k": 2, "max_completion_length": 12 if name == "yours" else 1}
    with pytest.raises(TrainingError, match=r"none of the 8 completions .* earned anything") as raised:
        train(TrainingRequest(**parts, output=str(tmp_path / "out"), **small(settings=settings)))
    prompt, completion = str(raised.value).split("\nPrompt:\n")[1].split("\nCompletion:\n")
    assert prompt.strip()
    assert completion
    if name == "yours":
        on = small(settings={"k": 2, "check_first_batch": False})
        assert train(TrainingRequest(**parts, output=str(tmp_path / "on"), **on)).steps == 1
