"""Which built-in model writes for a problem: that for strings or for numeric rules, if any; random baselines.

A baseline draws random programs of the grammar that the model learned from. That for strings sees the
training inputs (their separators and shared words bias the literals) but neither the outputs nor a parent;
that for numeric rules sees nothing. Whatever a trained model solves should be compared with these.
"""

from pathlib import Path
from random import Random

from evovpo.builtin import BUILT_IN_MODEL, FORMULA_MODEL
from evovpo.builtin.chain import join_chain
from evovpo.builtin.formulas.format import FormulaFormat, formula_fault
from evovpo.builtin.formulas.sampler import FormulaSampler
from evovpo.builtin.strings.format import ExpressionFormat, expression_fault
from evovpo.builtin.strings.grammar import render
from evovpo.builtin.strings.sampler import Sampler
from evovpo.prompts.request import PromptFormat
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.types import Problem, Prompt


def built_in_fault(problem: Problem) -> str:
    """Return why no built-in model can write for `problem`; empty if one can."""
    of_strings, of_numbers = expression_fault(problem), formula_fault(problem)
    if not of_strings or not of_numbers:
        return ""
    has_scorer = problem.scorer_path is not None
    return f"{of_strings}, and {of_numbers}" if has_scorer else of_strings


def built_in_model(problem: Problem) -> Path:
    """Return the folder of the model that writes for `problem`; that for strings where none does."""
    return BUILT_IN_MODEL if formula_fault(problem) else FORMULA_MODEL


def built_in_format(problem: Problem) -> PromptFormat:
    """Return the format of that model. Raises `ProblemError` if none can write for `problem`."""
    return ExpressionFormat(problem) if formula_fault(problem) else FormulaFormat(problem)


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
