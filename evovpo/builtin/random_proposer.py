"""The baselines without a model: random programs of the grammars that the built-in models learned from.

That for strings sees the training inputs (their separators and shared words bias the literals) but neither
the outputs nor a parent; that for numeric rules sees nothing. Whatever a trained model solves should be
compared with these.
"""

from random import Random

from evovpo.builtin.chain import join_chain
from evovpo.builtin.formulas.format import formula_fault
from evovpo.builtin.formulas.sampler import FormulaSampler
from evovpo.builtin.strings.grammar import render
from evovpo.builtin.strings.sampler import Sampler
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.types import Problem, Prompt


def random_proposer(problem: Problem) -> ScriptedProposer:
    """Return the baseline of the built-in model for `problem`; that for strings where none fits.

    It replies with chains of `prompt.answers` programs; reply i of a prompt follows from its seed and i.
    """
    is_formula = not formula_fault(problem)
    rows = [[str(value) for value in example.inputs] for example in problem.train]

    def reply(prompt: Prompt, index: int) -> str:
        rng = Random(f"{prompt.seed}:{index}")
        if is_formula:
            formulas = FormulaSampler(rng, len(problem.parameters))
            return join_chain([formulas.formula() for _ in range(prompt.answers)])
        strings = Sampler(rng, rows)
        return join_chain([render(strings.program()) for _ in range(prompt.answers)])

    return ScriptedProposer(reply)
