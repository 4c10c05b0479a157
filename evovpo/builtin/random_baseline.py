"""The random baseline: random programs in the built-in model's language, with constants from the inputs."""

from collections.abc import Sequence
from random import Random

from evovpo.builtin.chain import join_chain
from evovpo.builtin.strings.grammar import render
from evovpo.builtin.strings.sampler import Sampler
from evovpo.proposers import check_ticket, text_rollout
from evovpo.types import Problem, Prompt, Rollout, Sampling


class RandomProposer:
    """The random baseline for one problem. Reply i to a prompt depends only on i and the prompt's seed."""

    policy_version = 0

    def __init__(self, problem: Problem) -> None:
        self._rows = [[str(value) for value in example.inputs] for example in problem.train]

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        check_ticket(prompt, indices)
        return [text_rollout(prompt, index, self._reply(prompt, index), sampling) for index in indices]

    async def aclose(self) -> None:
        """Do nothing: there are no resources to release."""

    def _reply(self, prompt: Prompt, index: int) -> str:
        strings = Sampler(Random(f"{prompt.seed}:{index}"), self._rows)
        return join_chain([render(strings.program()) for _ in range(prompt.answers)])
