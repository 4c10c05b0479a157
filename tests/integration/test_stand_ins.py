"""Rows and start models for trying trainings: what they are worth, and that every word has a token."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.bench import stand_ins
from tests.support.benchmark_rows import write_jsonl
from trainer.domains import open_domain
from trainer.domains.sampling import as_text, load_policy

NAMES = ("musique", "eureqa", "toolrl")


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_readable_and_no_component_is_sure(name: str, tmp_path: Path) -> None:
    rng = Random(1)
    rows, answers = zip(*(stand_ins._DRAW[name](rng) for _ in range(200)), strict=True)
    domain = open_domain(name, write_jsonl(tmp_path / "rows.jsonl", rows))
    judged = [answer for (answer,) in domain.judge(answers, domain.prompts)]
    assert not any(answer.reason for answer in judged)
    rewards = np.array([answer.rewards for answer in judged])
    assert (rewards.mean(axis=0) > 0.05).all()
    assert (rewards.mean(axis=0) < 0.9).all()
    assert (rewards.min(axis=1) == 1.0).mean() < 0.2


@pytest.mark.parametrize("name", NAMES)
def test_a_start_model_is_written_with_rows_of_both_splits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stand_ins.PretrainConfig(hidden_size=16, layers=1, heads=1, intermediate_size=16)
    monkeypatch.setattr(stand_ins, "_CONFIG", config)
    monkeypatch.setattr(stand_ins, "_SEQUENCES", 4)
    stand_ins.main(name, tmp_path / "out", rows=300, steps=2)
    split = {one: (tmp_path / "out" / f"{one}.jsonl").read_text().splitlines() for one in ("train", "test")}
    assert (len(split["train"]), len(split["test"])) == (300, 30)
    assert json.loads(split["train"][0]) != json.loads(split["test"][0])
    tokenizer = load_policy(str(tmp_path / "out" / "start")).tokenizer
    for row in open_domain(name, tmp_path / "out" / "test.jsonl").prompts:
        prompt = as_text(row["prompt"], tokenizer)
        ids = tokenizer(prompt)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == prompt
        assert len(ids) < 64
