"""Goal-conditioned training: prompts show the weights that answers are rewarded by."""

import re
from pathlib import Path

import numpy as np
import pytest

from evovpo.errors import ConfigError
from tests.support.benchmark_rows import musique, write_jsonl
from trainer.domains import open_domain
from trainer.domains.goals import by_goal, with_goals


def test_a_prompt_shows_the_weights_that_its_answers_earn(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", list(map(musique, range(10))))
    with open_domain("musique", rows) as domain:
        drawn, usual = with_goals(domain, 0), with_goals(domain, None)
        for row, plain in zip(drawn.prompts, domain.prompts, strict=True):
            text = row["prompt"][-1]["content"]
            assert text.startswith(plain["prompt"][-1]["content"])
            shown = re.findall(r"^(\S+): (\d\.\d\d)$", text[len(plain["prompt"][-1]["content"]) :], re.M)
            assert tuple(name for name, _ in shown) == domain.components
            assert [float(weight) for _, weight in shown] == row["goal"]
            assert sum(row["goal"]) == pytest.approx(1, abs=0.03)
        assert drawn.prompts == with_goals(domain, 0).prompts != with_goals(domain, 1).prompts
        assert usual.prompts[0]["goal"] == [0.14, 0.14, 0.14, 0.14, 0.43]  # (hops + 3 F1) / 7
    rewards = [np.array([[1.0, 0.0, 0.0, 0.0, 0.5]]), None]
    (found, fault) = by_goal(rewards, drawn.prompts[:2])
    goal = drawn.prompts[0]["goal"]
    assert (found.tolist(), fault) == ([[goal[0] + 0.5 * goal[4]]], None)


def test_components_without_a_meaning_of_their_own_have_no_goals() -> None:
    with open_domain("maze", tasks=1) as domain, pytest.raises(ConfigError, match="cannot show weights"):
        with_goals(domain, 0)
