"""Rows of three benchmarks' shape with small start models.

    python tests/bench/stand_ins.py NAME OUT

For trying trainings on a laptop: OUT/train.jsonl and OUT/test.jsonl in the public format of `musique`,
`eureqa` or `toolrl`, and OUT/start, a model for them. A row can be read in several ways, and each component
follows one of its own: of two paragraphs on every hop one is the gold one, and four can be cited; two names
fit every entity; two tools do the same with other arguments. So no answer can be sure of all components. The
model has learned the form, and answers that are right by parts.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

from evovpo.builtin.chain import BEGIN, END, PAD
from evovpo.cli.options import argument, option
from trainer.domains import open_domain
from trainer.domains.maze.domain import UNKNOWN
from trainer.domains.sampling import as_text
from trainer.recipes import Seed, run_recipe
from trainer.recipes.pretrain import (
    PretrainConfig,
    build_model,
    build_optimizers,
    collate,
    completion_loss,
    save_policy,
)
from trainer.recipes.tokenizer import word_tokenizer

_PATTERN = (
    r"⟦\w+⟧|</?\w+>|Think briefly[\s\S]*?\n\n|(?:The narrative|Question|Tools):? .*\n+|Paragraphs:"
    r"|\n\[\d+\]| ?\w+|[^\w⟦<]+"
)
"""What a prompt of a domain says every time is one token."""
_WORDS = ("ash", "birch", "cedar", "elm", "fir", "gorse", "hazel", "ivy", "larch", "maple", "oak", "yew")
_HOPS = ("town", "river", "ship", "song")
_LETTERS = "ABCDEF"
_TOOLS = {
    "rain": {"weather": ("city", "day"), "forecast": ("place", "date")},
    "beds": {"hotel": ("town", "night"), "hostel": ("near", "arrival")},
}
_DAYS = ("monday", "tuesday", "friday", "sunday")
_CONFIG = PretrainConfig(hidden_size=64, layers=3, heads=2, intermediate_size=192, steps=250, processes=1)
_SEQUENCES, _CONTEXT = 64, 96
_Drawn = tuple[dict[str, Any], str]


def _mostly(rng: Random, likely: Any, others: Any) -> Any:
    """Return one of the likely values, or as a start model does at times, any other."""
    return rng.choice(likely if rng.random() < 0.7 else others)


def _musique(rng: Random) -> _Drawn:
    """Return a question with two paragraphs on each of its hops, one after the other, and an answer to it."""
    numbers, facts = rng.sample(range(8), 8), rng.sample(_WORDS, 8)
    fact = dict(zip(numbers, facts, strict=True))
    places = [numbers[at : at + 2] for at in range(0, 8, 2)]
    gold = [rng.choice(pair) for pair in places]
    row = {
        "question": "Which song is sung on the ship on the river of the town?",
        "paragraphs": [
            {"idx": idx, "title": hop, "paragraph_text": fact[idx]}
            for hop, pair in zip(_HOPS, places, strict=True)
            for idx in pair
        ],
        "question_decomposition": [{"paragraph_support_idx": idx} for idx in gold],
        "answer": fact[gold[-1]],
    }
    cited = ", ".join(str(_mostly(rng, pair, numbers)) for pair in places)
    return row, f"<support>{cited}</support><answer>{fact[_mostly(rng, places[-1], numbers)]}</answer>"


def _eureqa(rng: Random) -> _Drawn:
    """Return a narrative in which two names fit each entity, and an answer."""
    pairs = [rng.sample(_WORDS, 2) for _ in _LETTERS[1:]]
    links = zip(_LETTERS, _LETTERS[1:], pairs, strict=False)
    row = {
        "question": [
            *(f"{entity} names {other}, and is {one} or {two}." for entity, other, (one, two) in links),
            f"F is {rng.choice(_WORDS)}.",
        ],
        "entity_masks": list(_LETTERS),
        "entities": [rng.choice(pair) for pair in pairs],
    }
    named = zip(_LETTERS, pairs, strict=False)
    return row, "".join(
        f"<entity_{letter}>{_mostly(rng, pair, _WORDS)}</entity_{letter}>" for letter, pair in named
    )


def _toolrl(rng: Random) -> _Drawn:
    """Return a wish that two tools fulfil, for one of two towns and days, and a call of one of them."""
    wish, towns, days = rng.choice(list(_TOOLS)), rng.sample(_WORDS, 2), rng.sample(_DAYS, 2)
    tools = _TOOLS[wish]

    def call(name: str, keys: tuple[str, str], town: str, day: str) -> str:
        called = {"name": name, "parameters": dict(zip(keys, (town, day), strict=True))}
        return f"<tool_call>{json.dumps(called)}</tool_call>"

    name, keys = rng.choice(list(tools)), rng.choice(list(tools.values()))
    gold = call(name, keys, rng.choice(towns), rng.choice(days))
    said = f"{wish} in {towns[0]} or {towns[1]}, {days[0]} or {days[1]}?"
    row = {
        "prompt": [
            {"role": "system", "content": f"Tools: {json.dumps(_TOOLS)} Write <think>, then <tool_call>."},
            {"role": "user", "content": said},
        ],
        "reward_model": {"ground_truth": f"<think>{wish}</think>{gold}"},
    }
    every = {name: keys for others in _TOOLS.values() for name, keys in others.items()}
    name = _mostly(rng, list(tools), list(every))
    thoughts = _mostly(rng, [f"<think>{wish}</think>"], [""])
    return row, thoughts + call(name, every[name], _mostly(rng, towns, _WORDS), _mostly(rng, days, _DAYS))


_DRAW: dict[str, Callable[[Random], _Drawn]] = {"musique": _musique, "eureqa": _eureqa, "toolrl": _toolrl}


def _teach(name: str, data: Path, answers: list[str], out: Path, config: PretrainConfig) -> None:
    """Write a model that has learned to answer the rows of a file so."""
    prompts = [as_text(row["prompt"], None) for row in open_domain(name, data).prompts]
    tokens = {token for text in (*prompts, *answers) for token in re.findall(_PATTERN, text)}
    tokenizer = word_tokenizer([PAD, BEGIN, END, UNKNOWN, *sorted(tokens)], _PATTERN, 256)
    model = build_model(config, tokenizer)
    model.config.max_position_embeddings = _CONTEXT
    asked = tokenizer(prompts)["input_ids"]
    written = tokenizer([answer + END for answer in answers])["input_ids"]
    rows = [(prompt + answer, len(prompt)) for prompt, answer in zip(asked, written, strict=True)]
    optimizers, rng, losses = build_optimizers(model, config), Random(name), []
    for step in range(config.steps):
        loss = completion_loss(model, *collate(rng.sample(rows, _SEQUENCES)))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append({"step": step + 1, "loss": round(loss.item(), 4)})
    save_policy(out, model, tokenizer, config, losses[49::50])


def main(
    name: Annotated[Literal["musique", "eureqa", "toolrl"], argument("NAME", "Whose shape the rows have.")],
    out: Annotated[Path, argument("OUT", "A new folder.")],
    rows: Annotated[int, option("N", "Rows to train on; a tenth as many to measure on.")] = 6000,
    steps: Annotated[int, option("N", "Steps of teaching the start model.", min=1)] = _CONFIG.steps,
    seed: Seed = 0,
) -> None:
    """Write rows and a start model for trying trainings on a laptop."""
    out.mkdir(parents=True)
    for split, count in (("test", rows // 10), ("train", rows)):
        rng = Random(f"{name} {split} {seed}")
        drawn = [_DRAW[name](rng) for _ in range(count)]
        file = out / f"{split}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row, _ in drawn), encoding="utf-8")
    _teach(name, file, [answer for _, answer in drawn], out / "start", replace(_CONFIG, steps=steps))


if __name__ == "__main__":
    run_recipe(main)
