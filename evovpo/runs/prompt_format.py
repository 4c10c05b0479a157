"""In which words a run asks: the prompt format that the configuration names, or that fits the problem."""

import numpy as np

from evovpo.builtin.choice import built_in_format
from evovpo.builtin.formulas.format import FormulaFormat
from evovpo.builtin.strings.format import ExpressionFormat, expression_fault
from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import open_evaluator
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.request import PromptFormat, Request, Shown, choose_rows
from evovpo.prompts.templates import load_templates
from evovpo.types import Message, ParentRole, Problem, Program, PromptKind

_LONG_PROGRAM = 2000
"""Characters of a starting program from which on models are asked for edits of it."""


def choose_format(problem: Problem, config: Config) -> PromptFormat:
    """Return the prompt format that `prompt.style` names, or that fits the proposer and the problem.

    By itself: the format of the built-in model that fits the problem, behind a server only that for strings
    and not where chat is asked for, for a proposer of the user's own none of these; else edits for a long or
    partly fixed starting program, and whole programs for any other. Raises `ProblemError` for a problem that
    does not fit, and `ConfigError` for templates that cannot be used and a proposer that knows one format
    only.
    """
    style, proposer = config.prompt.style, config.proposer
    if proposer.name == "random" and style not in ("auto", "alignment", "formula"):
        raise ConfigError(
            f"prompt.style is '{style}' and proposer.name 'random', which writes expressions as the built-in "
            "model does; expected style auto, or another proposer"
        )
    if style == "auto":
        is_chat = proposer.name == "own" or (proposer.name == "openai" and proposer.endpoint == "chat")
        if proposer.name in ("local", "random"):
            return built_in_format(problem)
        if not (expression_fault(problem) or is_chat):
            style = "alignment"
        else:
            style = "diff" if any(map(_is_for_edits, problem.seeds[:1])) else "rewrite"
    if style == "alignment":
        return ExpressionFormat(problem)
    if style == "formula":
        return FormulaFormat(problem)
    templates = load_templates(config.prompt.templates)
    return (DiffFormat if style == "diff" else RewriteFormat)(config.prompt, templates)


def _is_for_edits(program: Program) -> bool:
    """True for a program of which an answer had better be edits: a long one, or one with fixed parts."""
    return len(program.source) > _LONG_PROGRAM or "EVOLVE-BLOCK-START" in program.source


def example_prompts(problem: Problem, config: Config) -> dict[PromptKind, tuple[Message, ...]]:
    """Return what a run would ask first: without a parent, and to improve the first starting program.

    That program is judged for it, in the sandbox. Raises what `choose_format` and `open_evaluator` raise.
    """
    made_by = choose_format(problem, config)
    rows = choose_rows(len(problem.train), made_by.max_rows, np.random.default_rng(config.run.seed))
    requests = []
    if config.search.root_share > 0.0:
        requests.append(Request(config.search.answers, rows=rows))
    for seed in problem.seeds[:1]:
        if made_by.can_show(problem, seed, ParentRole.PARENT):
            with open_evaluator(problem, config) as judge:
                parent = Shown(seed, judge.evaluate(seed))
            requests.append(Request(config.search.answers, PromptKind.MUTATE, parent, rows=rows))
    return {request.kind: made_by.messages(problem, request) for request in requests}
