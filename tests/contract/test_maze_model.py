"""The maze model that ships: small, loadable by plain transformers, and a start that leaves room."""

import numpy as np
import pytest

pytest.importorskip("torch")

from evovpo.judging.measure import measure
from trainer.domains import open_domain
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.sampling import Ask, complete, load_policy


@pytest.mark.parametrize("answers", [1, 3])
def test_the_start_model_reaches_the_exit_now_and_then_by_ways_of_all_kinds(answers: int) -> None:
    with open_domain("maze", answers=answers, split="validation", tasks=16) as domain:
        found = complete(load_policy(str(MAZE_MODEL)), domain, domain.prompts, Ask(12 // answers))
    pools = [measure([one.answers for one in completions]) for completions in found]
    keys = [[key for chain in pool.keys_C_m for key in chain] for pool in pools]
    arrived, gold, diamond, _ = np.mean([pool.rewards_C_m_D > 0 for pool in pools], axis=(0, 1, 2))
    assert np.mean([key is not None for pool in keys for key in pool]) > 0.7
    assert 0.15 < arrived < 0.5
    assert gold > 0.01
    assert diamond > 0.01
    assert np.mean([len(set(pool)) / len(pool) for pool in keys]) > 0.7
    one, ten = np.mean([pool.best_at_k([1, 10]) for pool in pools], axis=0)
    assert one < ten < 0.7
