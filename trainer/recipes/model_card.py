"""Write the model card of a trained folder: `python -m trainer.recipes.model_card FOLDER RESULTS.json`.

RESULTS.json holds what the benchmarks measured, as a list of `{"measured", "result", "command"}`.
Recipe and loss curve come from the folder's `training.json`, sizes from the weights themselves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_CARD = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# evovpo strings: a small model that writes string functions from examples

A causal language model (Llama architecture, {parameters:.2f} million parameters, {megabytes:.1f} MB in
float32) that reads input/output examples as alignments and writes chains of one to four Python
expressions. It is the start model of evovpo's search and can be loaded by `AutoModelForCausalLM`
and `AutoTokenizer`.

## Prompt and completion

The prompt is text made by `evovpo.builtin.chain.encode_prompt`: the number of answers wanted, each
example's inputs cut into runs (letters, digits, blanks, other characters), each output written as
references to those runs where they match and as characters where not, and optionally a parent
expression with its outputs. The completion is expressions over `x0`, `x1`, … between `⟦sep⟧` marks,
closed by `⟦end⟧`. Sample at temperature 1.

## Training

From scratch, on a CPU, with data that `trainer/domains/strings/tasks.py` makes without end: typed random
expressions run on made-up columns of text (`trainer/domains/strings/columns.py`). No benchmark task and no
text from elsewhere was used. Only completion tokens carry loss. One command makes the model again:

```
python -m trainer.recipes.pretrain OUT {options}
```

{recipe}

Sequences seen: {sequences:,}; padded tokens: {tokens:,}; wall-clock time: {minutes:.0f} minutes on two
shared cores. (Counts miss up to fifty steps for each time that the run was resumed.)

### Loss (nats per completion token, mean over the steps since the row before)

| step | loss |
|---|---|
{curve}

## Measured

| what | result | command |
|---|---|---|
{results}

## Limits

It writes single expressions on strings, over at most four arguments, and sees at most seven examples in
one prompt. Letters of a run are shown only when several examples share the run, so it cannot know what
words mean. It is a proposer for a search, not a model to trust with one sample.
"""


def write_card(folder: Path, results: list[dict[str, str]]) -> Path:
    """Write `README.md` into the model folder and return its path."""
    training: dict[str, Any] = json.loads((folder / "training.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    recipe, curve = training["recipe"], training["loss_curve"]
    weights = (folder / "model.safetensors").stat().st_size
    header = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    shown = [row for index, row in enumerate(curve) if index in (0, 1, 3, 7) or (index + 1) % 8 == 0]
    if shown[-1] != curve[-1]:
        shown.append(curve[-1])
    text = _CARD.format(
        parameters=(weights - 8 - header) / 4 / 1e6,
        megabytes=weights / 1e6,
        options=" ".join(f"--{key.replace('_', '-')} {value}" for key, value in recipe.items()),
        recipe="\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in recipe.items())
        + f"\n- vocabulary: {config['vocab_size']} tokens",
        sequences=sum(row["sequences"] for row in curve),
        tokens=sum(row["padded_tokens"] for row in curve),
        minutes=curve[-1]["seconds"] / 60,
        curve="\n".join(f"| {row['step']} | {row['loss']:.3f} |" for row in shown),
        results="\n".join(f"| {row['measured']} | {row['result']} | `{row['command']}` |" for row in results),
    )
    path = folder / "README.md"
    path.write_text(text)
    return path


def main() -> None:
    """Command line; see the module's docstring."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m trainer.recipes.model_card FOLDER RESULTS.json")
    folder, results = Path(sys.argv[1]), Path(sys.argv[2])
    print(write_card(folder, json.loads(results.read_text())))


if __name__ == "__main__":
    main()
