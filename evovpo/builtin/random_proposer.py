"""The baselines without a model: random programs of the grammars that the built-in models learned from.

That for strings sees the training inputs (their separators and shared words bias the literals) but neither
the outputs nor a parent; that for numeric rules sees nothing. Whatever a trained model solves should be
compared with these.
"""

from collections.abc import Callable, Sequence
from random import Random

from evovpo.builtin.chain import join_chain
from evovpo.builtin.formulas.format import formula_fault
from evovpo.builtin.formulas.sampler import FormulaSampler
from evovpo.builtin.strings.grammar import render
from evovpo.builtin.strings.sampler import Sampler
from evovpo.proposers import check_ticket, text_rollout
from evovpo.types import Problem, Prompt, Rollout, Sampling


class RandomProposer:
    """Replies with chains of random programs; reply i of a prompt follows from its seed and i."""

    def __init__(self, draws: Callable[[Random], Callable[[], str]]) -> None:
        """Take a function from a random generator to one that draws a program."""
        self._draws = draws

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
        draw = self._draws(Random(f"{prompt.seed}:{index}"))
        text = join_chain([draw() for _ in range(prompt.answers)])
        return text_rollout(prompt, index, text, sampling)


def random_proposer(problem: Problem) -> RandomProposer:
    """Return the baseline of the built-in model for `problem`; that for strings where none fits."""
    if not formula_fault(problem):
        return RandomProposer(lambda rng: FormulaSampler(rng, len(problem.parameters)).formula)
    rows = [[str(value) for value in example.inputs] for example in problem.train]

    def draws(rng: Random) -> Callable[[], str]:
        sampler = Sampler(rng, rows)
        return lambda: render(sampler.program())

    return RandomProposer(draws)
