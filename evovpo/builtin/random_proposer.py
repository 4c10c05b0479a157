"""The baselines without a model: random programs of the grammars that the built-in models learned from.

That for strings sees the training inputs (their separators and shared words bias the literals) but neither
the outputs nor a parent; that for numeric rules sees nothing. Whatever a trained model solves should be
compared with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from evovpo.builtin.chain_format import join_chain
from evovpo.builtin.expressions import Sampler, render
from evovpo.builtin.formulas import FormulaSampler
from evovpo.proposers import check_ticket, rollout_id
from evovpo.types import Problem, Prompt, Rollout, Sampling


class RandomProposer:
    """Replies with chains of typed random expressions; reply i of a prompt follows from its seed and i."""

    def __init__(self, problem: Problem) -> None:
        self._rows = [[str(value) for value in example.inputs] for example in problem.train]

    @property
    def policy_version(self) -> int:
        """Always 0."""
        return 0

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return random chains of `prompt.answers` programs; see `Proposer.propose`."""
        check_ticket(prompt, indices)
        return [self._rollout(prompt, index, sampling) for index in indices]

    async def aclose(self) -> None:
        """Do nothing: nothing is held."""

    def _rollout(self, prompt: Prompt, index: int, sampling: Sampling) -> Rollout:
        sampler = Sampler(Random(f"{prompt.seed}:{index}"), self._rows)
        return _as_rollout(
            prompt, index, sampling, [render(sampler.program()) for _ in range(prompt.answers)]
        )


class RandomFormulaProposer:
    """Replies with chains of random formulas; reply i of a prompt follows from its seed and i."""

    def __init__(self, problem: Problem) -> None:
        self._inputs = len(problem.parameters)

    @property
    def policy_version(self) -> int:
        """Always 0."""
        return 0

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return random chains of `prompt.answers` formulas; see `Proposer.propose`."""
        check_ticket(prompt, indices)
        return [self._rollout(prompt, index, sampling) for index in indices]

    async def aclose(self) -> None:
        """Do nothing: nothing is held."""

    def _rollout(self, prompt: Prompt, index: int, sampling: Sampling) -> Rollout:
        sampler = FormulaSampler(Random(f"{prompt.seed}:{index}"), self._inputs)
        return _as_rollout(prompt, index, sampling, [sampler.formula() for _ in range(prompt.answers)])


def _as_rollout(prompt: Prompt, index: int, sampling: Sampling, answers: Sequence[str]) -> Rollout:
    return Rollout(
        id=rollout_id(prompt.id, index),
        prompt_id=prompt.id,
        index=index,
        policy_version=0,
        text=join_chain(answers),
        token_ids=None,
        logprobs=None,
        prompt_token_ids=None,
        sampling=sampling,
        finish_reason="stop",
        seconds=0.0,
    )
