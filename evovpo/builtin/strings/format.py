"""The format of the built-in model for strings (`prompt_text.py` beside it): examples in, expressions out."""

from evovpo.builtin.chain import MAX_ROWS, ChainFormat
from evovpo.builtin.functions import UNREADABLE
from evovpo.builtin.strings.grammar import MAX_ARGUMENTS
from evovpo.builtin.strings.programs import canonical, from_source, to_source
from evovpo.builtin.strings.prompt_text import encode_prompt
from evovpo.prompts.request import Request
from evovpo.types import Evaluation, Message, Problem, Program


def make_program(expression: str, problem: Problem) -> Program | None:
    """Return the program that returns a canonical expression, or none if that is nested too deeply."""
    try:
        return Program(to_source(expression, problem.entry, problem.parameters))
    except UNREADABLE:
        return None


def expression_fault(problem: Problem) -> str:
    """Return why the built-in model's format does not fit `problem`; empty if it does."""
    if not problem.is_by_example:
        return "it has a scorer instead of examples"
    if not 1 <= len(problem.parameters) <= MAX_ARGUMENTS:
        return f"it has {len(problem.parameters)} inputs; 1 to {MAX_ARGUMENTS} fit"
    if {"re", "w", "len", "str", "int"} & set(problem.parameters):
        return "an input is named re, w, len, str or int, names that expressions use"
    for number, example in enumerate(problem.train, start=1):
        if not all(isinstance(value, str) for value in (*example.inputs, example.output)):
            return f"training row {number} holds a value that is no string"
    return ""


class ExpressionFormat(ChainFormat):
    """The format of the built-in model: alignments in, a chain of expressions out."""

    model = "the built-in model"
    advice = "it writes string expressions from examples of strings; use another proposer"
    fault = staticmethod(expression_fault)
    read = staticmethod(from_source)

    @staticmethod
    def program(text: str, problem: Problem) -> Program | None:
        """Return the program of an answer that is one Python expression."""
        expression = canonical(text)
        return None if expression is None else make_program(expression, problem)

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return one message; a parent and rows are all that has a place in this format."""
        rows, parent = request.rows, request.parent
        chosen = [problem.train[row] for row in rows][:MAX_ROWS]
        inputs = [[str(value) for value in example.inputs] for example in chosen]
        expression, got = None, []
        if parent is not None:
            expression = from_source(parent.program.source, problem.entry)
            got = [_got(problem, parent.evaluation, row) for row in rows][:MAX_ROWS]
        text = encode_prompt(
            inputs, [str(example.output) for example in chosen], request.answers, expression, got
        )
        return (Message("user", text),)


def _got(problem: Problem, evaluation: Evaluation, row: int) -> str | None:
    """Return what a parent gave for a training row; none for an error, a non-string or one not kept."""
    if evaluation.rewards is not None and evaluation.rewards[row] >= 1.0:
        # Long outputs are not kept; of a row that passes, the output is known all the same.
        return str(problem.train[row].output)
    output = None if evaluation.outputs is None else evaluation.outputs[row]
    return output if isinstance(output, str) else None
