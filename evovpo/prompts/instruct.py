"""Prompts for instruction models, and their answers: whole programs, or edits of the one that was shown.

Both formats take problems of every kind. Every prompt with a parent carries its reward vector and what
judging it gave; that text is fenced, capped and marked as untrusted. A completion of M answers is a chain:
each answer has its delimiter, and slots are filled in the order of writing.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Mapping
from typing import ClassVar

from evovpo.config import PromptConfig
from evovpo.errors import AnswerError, BundleError
from evovpo.prompts import showing
from evovpo.prompts.blocks import keep_fixed, layout
from evovpo.prompts.bundles import check_path, is_bundle, pack, unpack
from evovpo.prompts.diff import apply_edits, editable_ranges, read_edits
from evovpo.prompts.replies import Block, blocks, delimiter, split_answers
from evovpo.prompts.request import Answer, Request, Shown
from evovpo.prompts.templates import Templates, load_templates
from evovpo.types import Message, ParentRole, Problem, Program, PromptKind, Rollout

_ALONE = ""
"""Path of the only file of a program that is no folder."""
_CUT = "the token limit cut the reply off within its code block"


class _InstructFormat:
    """What both formats share; they differ in how an answer is asked for and read."""

    reply_tokens = 4096
    max_rows = 7
    _form: ClassVar[str]

    def __init__(self, settings: PromptConfig | None = None, templates: Templates | None = None) -> None:
        self._settings = settings or PromptConfig()
        self._templates = templates or load_templates()

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return a system and a user message from the templates of the request's kind.

        Without a parent, a problem whose programs cannot be written from its text alone shows its first
        starting program, to which edits apply.
        """
        language = showing.language_of(problem.suffix)
        values = {
            "statement": problem.statement.strip(),
            "signature": f"{problem.entry}({', '.join(problem.parameters)})" if problem.entry else "",
            "objectives": _objectives(problem),
            "examples": _examples(problem, request),
            "notes": showing.quoted(request.notes),
            "inspirations": self._inspirations(problem, request),
            "attempts": self._attempts(request),
            "answer": self._answer(problem, request),
        }
        parent, partner = request.parent, request.partner
        if parent is None:
            base = self._base(problem, None)
            values["start"] = "" if base is None else showing.shown_source(base.source, problem.suffix)
        else:
            judged = self._judged(problem, request, parent, partner)
            values |= {"parent": judged.pop("program"), **judged}
        if parent is not None and partner is not None:
            judged = self._judged(problem, request, partner, parent)
            values["partner"] = judged.pop("program")
            values |= {f"partner_{place}": text for place, text in judged.items()}
        system = self._templates.fill("system", {"statement": values["statement"], "language": language})
        user = self._templates.fill(_template(request), values)
        return (Message("system", system), Message("user", user)) if system else (Message("user", user),)

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True: any program can be shown as text."""
        return True

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return the slots in the order of writing; a slot without a program says why."""
        texts = split_answers(rollout.text, answers)
        base = self._base(problem, parent)
        is_cut = rollout.finish_reason == "length"
        found = []
        for number, text in enumerate(texts, start=1):
            try:
                program = self._read(problem, text, base, is_cut and number == len(texts))
                if len(program.source) > self._settings.program_characters:
                    raise AnswerError(
                        f"the program has {len(program.source)} characters; "
                        f"at most {self._settings.program_characters} are allowed"
                    )
                found.append(Answer(text, program, None))
            except (AnswerError, BundleError) as error:
                found.append(Answer(text, None, None, str(error)))
        missing = f"the reply has only {len(texts)} of {answers} answers"
        return found + [Answer("", None, None, missing)] * (answers - len(found))

    def _base(self, problem: Problem, parent: Program | None) -> Program | None:
        """Return the program that an answer is a new version of; none where it is written from nothing."""
        raise NotImplementedError

    def _read(self, problem: Problem, text: str, base: Program | None, is_cut: bool) -> Program:
        """Return the program of one answer; `is_cut` if the token limit ended it.

        Raises `AnswerError` or `BundleError` if there is none.
        """
        raise NotImplementedError

    def _judged(
        self, problem: Problem, request: Request, shown: Shown, other: Shown | None
    ) -> dict[str, str]:
        """Return what a prompt says of a program; it may be better at something than `other`."""
        most = self._settings.feedback_characters
        text = showing.shown_feedback(problem, shown.evaluation, request.rows, most)
        return {
            "program": showing.shown_source(shown.program.source, problem.suffix),
            "rewards": showing.shown_rewards(problem, shown.evaluation),
            "feedback": self._templates.fill("output", {"text": text}),
            "better": showing.better_at(problem, shown.evaluation, other.evaluation) if other else "",
        }

    def _inspirations(self, problem: Problem, request: Request) -> str:
        return "\n\n".join(
            self._templates.fill(
                "inspiration",
                {"number": str(number), **self._judged(problem, request, shown, request.parent)},
            )
            for number, shown in enumerate(request.inspirations, start=1)
        )

    def _attempts(self, request: Request) -> str:
        return "\n\n".join(
            self._templates.fill(
                "attempt",
                {
                    "number": str(number),
                    "reason": showing.one_line(attempt.reason),
                    "text": showing.quoted(attempt.text, self._settings.attempt_characters),
                },
            )
            for number, attempt in enumerate(request.attempts, start=1)
        )

    def _answer(self, problem: Problem, request: Request) -> str:
        """Return how to answer; empty where no program is asked for."""
        if request.answers == 0:
            return ""
        base = self._base(problem, None if request.parent is None else request.parent.program)
        language = showing.language_of(problem.suffix)
        values = {
            "language": language,
            "fence": f"```{language}",
            "program": "the first program" if _template(request) == "crossover" else "the program",
        }
        form = f"answer_{self._form}_files" if problem.suffix == "/" else f"answer_{self._form}"
        parts = [self._templates.fill(form, values)]
        if base is not None and any(layout(text) for text in _files(problem, base).values()):
            parts.append(self._templates.fill("blocks", values))
        if request.answers > 1:
            chain = {"count": str(request.answers), "first": delimiter(1), "second": delimiter(2)}
            parts.append(self._templates.fill("chain", chain))
        return "\n\n".join(part for part in parts if part)


class RewriteFormat(_InstructFormat):
    """Whole programs, each in a code block; of a folder program, the files that change."""

    _form = "rewrite"

    def _base(self, problem: Problem, parent: Program | None) -> Program | None:
        if parent is not None or not problem.seeds:
            return parent
        seed = problem.seeds[0]
        is_needed = not problem.entry or any(layout(text) for text in _files(problem, seed).values())
        return seed if is_needed else None

    def _read(self, problem: Problem, text: str, base: Program | None, is_cut: bool) -> Program:
        found = blocks(text)
        if problem.suffix == "/":
            return _read_files(problem, found, base, is_cut)
        language = showing.language_of(problem.suffix)
        if not found:
            # Without a fence only what Python takes as definitions is code: a refusal is no program.
            if language != "python" or not _has_definitions(text, problem.entry):
                raise AnswerError("the reply has no code block")
            found = [Block(text, language, True, "")]
        named = [block for block in found if showing.same_language(block.language, language)]
        programs: list[Program] = []
        faults: list[AnswerError] = []
        for block in named or found:
            try:
                programs.append(_whole_program(problem, block, base, is_cut and block is found[-1]))
            except AnswerError as error:
                faults.append(error)
        if not programs:
            raise faults[0]
        is_free = not problem.entry or language != "python"
        fitting = (read for read in programs if is_free or _has_definitions(read.source, problem.entry))
        return next(fitting, programs[0])


class DiffFormat(_InstructFormat):
    """SEARCH/REPLACE edits of the parent, or without one of the problem's first starting program."""

    _form = "diff"

    def _base(self, problem: Problem, parent: Program | None) -> Program | None:
        return parent or next(iter(problem.seeds), None)

    def _read(self, problem: Problem, text: str, base: Program | None, is_cut: bool) -> Program:
        if base is None:
            raise AnswerError("there is no program that edits could apply to")
        try:
            edits = read_edits(text)
        except AnswerError as error:
            raise AnswerError(f"{error}{' (the token limit cut the reply off)' * is_cut}") from error
        old = _files(problem, base)
        edited = apply_edits(old, edits)
        return _checked(problem, {path: text for path, text in edited.items() if text != old[path]}, old)


def _template(request: Request) -> str:
    """Return the template of a request: that of its kind, or of the nearest for which it has the programs."""
    kind = request.kind
    if kind is PromptKind.NOTES:
        return "notes"
    if request.parent is None:
        return "root"
    if kind is PromptKind.CROSSOVER and request.partner is not None:
        return "crossover"
    return "repair" if kind is PromptKind.REPAIR else "mutate"


def _whole_program(problem: Problem, block: Block, base: Program | None, is_cut: bool) -> Program:
    """Return the program in one code block."""
    language = showing.language_of(problem.suffix)
    if not block.is_closed and is_cut and language != "python":
        raise AnswerError(_CUT)
    source = _trimmed(block.text)
    if not source.strip():
        raise AnswerError("the code block is empty")
    return _checked(problem, {_ALONE: keep_fixed(base.source if base else "", source)}, {})


def _read_files(problem: Problem, found: list[Block], base: Program | None, is_cut: bool) -> Program:
    """Return the folder program that an answer's files make, the rest as in `base`."""
    old = {} if base is None else _files(problem, base)
    new: dict[str, str] = {}
    for block in found:
        if not block.is_closed and is_cut:
            raise AnswerError(_CUT)
        if is_bundle(block.text):
            given = unpack(block.text)
        elif block.path:
            check_path(block.path)
            given = {block.path: _trimmed(block.text)}
        else:
            given = {}
        twice = sorted(set(given) & set(new))
        if twice:
            raise AnswerError(f"the file {twice[0]!r} is given twice")
        new |= given
    if not new:
        raise AnswerError("no code block in the reply stands under a line '=== FILE: PATH ==='")
    has_markers = editable_ranges(old) is not None
    changed: dict[str, str] = {}
    for path, source in new.items():
        if path in old and source.rstrip() == old[path].rstrip():
            continue
        if has_markers and (path not in old or layout(old[path]) is None):
            raise AnswerError(f"it changed the file {path!r}, which has no EVOLVE-BLOCK")
        try:
            changed[path] = keep_fixed(old.get(path, ""), source)
        except AnswerError as error:
            raise AnswerError(f"{path}: {error}") from error
    return _checked(problem, changed, old)


def _checked(problem: Problem, changed: Mapping[str, str], old: Mapping[str, str]) -> Program:
    """Return the program of the old files with the changed ones, which must be text.

    Whether it is valid is for the sandbox to say, which names the line, so that it can be mended.
    """
    for path, source in changed.items():
        place = f"{path}: " if path else ""
        try:
            source.encode("utf-8")
        except UnicodeEncodeError as error:
            raise AnswerError(f"{place}it has characters that are no text (lone surrogates)") from error
    return Program(pack({**old, **changed}) if problem.suffix == "/" else changed[_ALONE])


def _files(problem: Problem, program: Program) -> dict[str, str]:
    """Return the files of a program; a program that is no folder is one without a path."""
    return unpack(program.source) if problem.suffix == "/" else {_ALONE: program.source}


def _trimmed(text: str) -> str:
    """Return a text without empty lines around it, ending in a newline."""
    lines = text.split("\n")
    while lines and not lines[0].strip():
        lines = lines[1:]
    return "\n".join(lines).rstrip() + "\n"


@functools.lru_cache(maxsize=64)
def _definitions(source: str) -> frozenset[str]:
    """Return the functions, classes, imports and plain variables that Python code defines at its top.

    Empty for a text that Python cannot read.
    """
    try:
        with warnings.catch_warnings():
            # Doubtful escapes in strings are the program's own affair.
            warnings.simplefilter("ignore")
            body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in statement.names}
    return frozenset(names)


def _has_definitions(source: str, entry: str) -> bool:
    """True if Python reads `source` and it defines `entry`, or without an entry anything at all."""
    names = _definitions(source)
    return entry in names if entry else bool(names)


def _objectives(problem: Problem) -> str:
    if problem.is_by_example:
        return ""
    return "\n".join(f"- {o.name}: {o.description}".rstrip(": ") for o in problem.objectives)


def _examples(problem: Problem, request: Request) -> str:
    if not problem.is_by_example:
        return ""
    return "\n".join(
        f"{problem.objectives[row].name}: "
        f"{showing.shown_call(problem.entry, problem.train[row].inputs)} == {problem.train[row].output!r}"
        for row in request.rows
    )
