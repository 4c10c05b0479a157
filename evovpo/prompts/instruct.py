"""The prompt formats for instruction models: whole programs, or edits of the parent.

Feedback on programs is shown in a code fence, truncated and marked as untrusted.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from evovpo.config import PromptConfig
from evovpo.errors import AnswerError, BundleError
from evovpo.prompts import program_text
from evovpo.prompts.blocks import layout
from evovpo.prompts.extract_programs import files_of, read_diff, read_rewrite
from evovpo.prompts.replies import delimiter, split_answers
from evovpo.prompts.request import Answer, Attempt, PromptRequest, ShownProgram
from evovpo.prompts.templates import Templates, load_templates
from evovpo.types import Message, ParentRole, Problem, Program, PromptKind, Rollout

_ATTEMPT_CHARACTERS = 600
_PROGRAM_CHARACTERS = 40_000


class _InstructFormat:
    reply_tokens = 16_384  # with room for reasoning before the programs
    max_rows = 7
    rollouts = 1
    ways: ClassVar[Mapping[str, float]] = {}
    others = 0
    _form: ClassVar[str]
    _read: Callable[[Problem, str, Program | None, bool, bool], Program]

    def __init__(self, settings: PromptConfig | None = None, templates: Templates | None = None) -> None:
        self._settings = settings or PromptConfig()
        self._templates = templates or load_templates()

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return the system message, if there is one, and the user message."""
        language = program_text.language_of(problem.suffix)
        parent, partner = request.parent, request.partner
        # The statement of an OpenEvolve project is its system message: it is not repeated for the user.
        statement, own = problem.statement.strip(), problem.evaluator is not None
        values = {
            "statement": "" if own else statement,
            "signature": f"{problem.entry}({', '.join(problem.parameters)})" if problem.entry else "",
            "objectives": "" if problem.has_one_score else _objectives(problem),
            "score": _objectives(problem).removeprefix("- ") if problem.has_one_score else "",
            "examples": _examples(problem, request),
            "inspirations": self._numbered(
                "inspiration",
                [self._judged(problem, request, shown, request.parent) for shown in request.inspirations],
            ),
            "changes": _changes(parent),
            "attempts": self._numbered("attempt", [self._failed(attempt) for attempt in request.attempts]),
            "answer": self._answer(problem, request),
        }
        if parent is None:
            base = self._base(problem, None)
            values["start"] = "" if base is None else program_text.shown_source(base.source, problem.suffix)
        else:
            judged = self._judged(problem, request, parent, partner)
            values |= {"parent": judged["program"], **judged}
        if parent is not None and partner is not None:
            judged = self._judged(problem, request, partner, parent)
            values["partner"] = judged["program"]
            values |= {f"partner_{place}": text for place, text in judged.items()}
        system = self._templates.fill("system", {"statement": statement if own else "", "language": language})
        user = self._templates.fill(_template(request), values)
        return (Message("system", system), Message("user", user)) if system else (Message("user", user),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        return True

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return all requested answers in order. If an answer has no program, its `reason` says why."""
        texts = split_answers(rollout.text, answers)
        base = self._base(problem, parent)
        is_cut = rollout.finish_reason == "length"
        found = []
        for number, text in enumerate(texts, start=1):
            try:
                is_last_cut = is_cut and number == len(texts)
                program = self._read(problem, text, base, is_last_cut, self._settings.enforce_blocks)
                if len(program.source) > _PROGRAM_CHARACTERS:
                    raise AnswerError(
                        f"the program has {len(program.source)} characters; "
                        f"at most {_PROGRAM_CHARACTERS} are allowed"
                    )
                found.append(Answer(text, program, None))
            except (AnswerError, BundleError) as error:
                found.append(Answer(text, None, None, str(error)))
        missing = f"the reply has only {len(texts)} of {answers} answers"
        if not texts:
            missing = "the reply is empty" + ", all of its text is reasoning" * bool(rollout.text.strip())
        return found + [Answer("", None, None, missing)] * (answers - len(found))

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        """Return a completion that answers with `programs`, each after a delimiter if there are several."""
        texts = [self._reply(problem, program, parent) for program in programs]
        several = (f"{delimiter(number)}\n{text}" for number, text in enumerate(texts, start=1))
        return texts[0] if len(texts) == 1 else "\n".join(several)

    def _reply(self, problem: Problem, program: Program, parent: Program | None) -> str:
        return f"```{program_text.language_of(problem.suffix)}\n{program.source.rstrip()}\n```"

    def _base(self, problem: Problem, parent: Program | None) -> Program | None:
        raise NotImplementedError

    def _judged(
        self, problem: Problem, request: PromptRequest, shown: ShownProgram, other: ShownProgram | None
    ) -> dict[str, str]:
        most = program_text.FEEDBACK_CHARACTERS
        text = program_text.shown_feedback(problem, shown.evaluation, request.rows, most)
        return {
            "program": program_text.shown_source(shown.program.source, problem.suffix),
            "rewards": program_text.shown_rewards(problem, shown.evaluation),
            "feedback": self._templates.fill("output", {"text": text}),
            "better": program_text.better_at(problem, shown.evaluation, other.evaluation) if other else "",
        }

    def _failed(self, attempt: Attempt) -> dict[str, str]:
        text = program_text.quoted(attempt.text, _ATTEMPT_CHARACTERS)
        return {"reason": program_text.one_line(attempt.reason), "text": text}

    def _numbered(self, template: str, filled: list[dict[str, str]]) -> str:
        texts = (
            self._templates.fill(template, {"number": str(number), **values})
            for number, values in enumerate(filled, start=1)
        )
        return "\n\n".join(texts)

    def _answer(self, problem: Problem, request: PromptRequest) -> str:
        base = self._base(problem, None if request.parent is None else request.parent.program)
        language = program_text.language_of(problem.suffix)
        values = {
            "language": language,
            "fence": f"```{language}",
            "program": "the first program" if _template(request) == "crossover" else "the program",
        }
        form = f"answer_{self._form}_files" if problem.suffix == "/" else f"answer_{self._form}"
        parts = [self._templates.fill(form, values)]
        if self._settings.enforce_blocks and base and any(map(layout, files_of(problem, base).values())):
            parts.append(self._templates.fill("blocks", values))
        if request.answers > 1:
            chain = {"count": str(request.answers), "first": delimiter(1), "second": delimiter(2)}
            parts.append(self._templates.fill("chain", chain))
        return "\n\n".join(part for part in parts if part)


class RewriteFormat(_InstructFormat):
    """The format that asks for a whole program or, if programs are folders, for the changed files."""

    _form = "rewrite"

    def _base(self, problem: Problem, parent: Program | None) -> Program | None:
        if parent is not None or not problem.seeds:
            return parent
        seed = problem.seeds[0]
        is_needed = not problem.entry or any(layout(text) for text in files_of(problem, seed).values())
        return seed if is_needed else None

    _read = staticmethod(read_rewrite)


class DiffFormat(_InstructFormat):
    """The format that asks for edits of the parent or, without a parent, of the first starting program."""

    _form = "diff"

    def _base(self, problem: Problem, parent: Program | None) -> Program | None:
        return parent or next(iter(problem.seeds), None)

    _read = staticmethod(read_diff)

    def _reply(self, problem: Problem, program: Program, parent: Program | None) -> str:
        base = self._base(problem, parent) or program
        return f"<<<<<<< SEARCH\n{base.source.rstrip()}\n=======\n{program.source.rstrip()}\n>>>>>>> REPLACE"


def _template(request: PromptRequest) -> str:
    kind = request.kind
    if request.parent is None:
        return "root"
    if kind is PromptKind.CROSSOVER and request.partner is not None:
        return "crossover"
    return "repair" if kind is PromptKind.REPAIR else "mutate"


def _changes(shown: ShownProgram | None) -> str:
    steps = [
        (program_text.one_line(idea), program_text.number(before), program_text.number(after))
        for idea, before, after in (() if shown is None else shown.changes)
    ]
    return "\n".join(f"- {idea} ({before} -> {after})" for idea, before, after in steps)


def _objectives(problem: Problem) -> str:
    if problem.is_by_example:
        return ""
    return "\n".join(f"- {o.name}: {o.description}".rstrip(": ") for o in problem.objectives)


def _examples(problem: Problem, request: PromptRequest) -> str:
    if not problem.is_by_example:
        return ""
    rows = [(problem.objectives[row].name, problem.train[row]) for row in request.rows]
    return "\n".join(
        f"{name}: {program_text.shown_call(problem.entry, example.inputs)} == {example.output!r}"
        for name, example in rows
    )
