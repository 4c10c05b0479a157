"""The random baseline: random programs in the built-in model's grammar, made from training inputs."""

from random import Random

from evovpo.builtin.chain import join_chain
from evovpo.builtin.strings.grammar import render
from evovpo.builtin.strings.sampler import Sampler
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.types import Problem, Prompt


def random_proposer(problem: Problem) -> ScriptedProposer:
    """Return the baseline for `problem`. Reply i to a prompt depends only on i and the prompt's seed."""
    rows = [[str(value) for value in example.inputs] for example in problem.train]

    def reply(prompt: Prompt, index: int) -> str:
        strings = Sampler(Random(f"{prompt.seed}:{index}"), rows)
        return join_chain([render(strings.program()) for _ in range(prompt.answers)])

    return ScriptedProposer(reply)
