"""Extracts programs from the answers of an instruction model: whole programs, files or edits."""

import ast
import functools
import re
import warnings
from collections.abc import Mapping

from evovpo.errors import AnswerError
from evovpo.prompts import program_text
from evovpo.prompts.blocks import keep_fixed, layout
from evovpo.prompts.bundles import check_path, is_bundle, pack, unpack
from evovpo.prompts.diff import apply_edits, read_edits
from evovpo.prompts.replies import Block, blocks
from evovpo.types import Problem, Program

_ALONE = ""
_CUT = "the token limit cut the reply off within its code block"


def read_rewrite(
    problem: Problem, text: str, base: Program | None, is_cut: bool, has_blocks: bool = True
) -> Program:
    """Return the program in the code blocks of an answer; `base` is the program to rewrite, if any.

    `is_cut` is true if the token limit ended the answer. If `has_blocks` is true, only lines in EVOLVE-BLOCKs
    may change. Raises `AnswerError` or `BundleError` if there is no valid program.
    """
    found = blocks(text)
    if problem.suffix == "/":
        return _folder_program(problem, found, base, is_cut, has_blocks)
    language = program_text.language_of(problem.suffix)
    if not found:
        # Text without a fence is code only if it defines Python names, so that a refusal is not a program.
        if language != "python" or not _has_definitions(text, problem.entry):
            raise AnswerError("the reply has no code block")
        found = [Block(text, language, True, "")]
    aliases = program_text.ALIASES
    named = [block for block in found if aliases.get(block.language, block.language) == language]
    programs: list[Program] = []
    faults: list[AnswerError] = []
    old = {} if base is None else files_of(problem, base)
    for block in named or found:
        try:
            programs.append(_whole_program(problem, block, old, is_cut and block is found[-1], has_blocks))
        except AnswerError as error:
            faults.append(error)
    if not programs:
        raise faults[0]
    is_free = not problem.entry or language != "python"
    fitting = (read for read in programs if is_free or _has_definitions(read.source, problem.entry))
    return next(fitting, programs[0])


def read_diff(
    problem: Problem, text: str, base: Program | None, is_cut: bool, has_blocks: bool = True
) -> Program:
    """Return `base` after the edits in an answer. `read_rewrite` reads an answer with only code blocks."""
    if base is None:
        raise AnswerError("there is no program that edits could apply to")
    if "<<<" not in text and blocks(text):
        return read_rewrite(problem, text, base, is_cut, has_blocks)
    try:
        edits = read_edits(text)
    except AnswerError as error:
        raise AnswerError(f"{error}{' (the token limit cut the reply off)' * is_cut}") from error
    old = files_of(problem, base)
    edited = apply_edits(old, edits)
    changed = {path: text for path, text in edited.items() if text != old[path]}
    return _checked(problem, changed, old, has_blocks)


def _whole_program(
    problem: Problem, block: Block, old: Mapping[str, str], is_cut: bool, has_blocks: bool
) -> Program:
    if not block.is_closed and is_cut and program_text.language_of(problem.suffix) != "python":
        raise AnswerError(_CUT)
    source = _without_blank_edges(block.text)
    if not source.strip():
        raise AnswerError("the code block is empty")
    return _checked(problem, {_ALONE: source}, old, has_blocks)


def _folder_program(
    problem: Problem, found: list[Block], base: Program | None, is_cut: bool, has_blocks: bool
) -> Program:
    old = {} if base is None else files_of(problem, base)
    new: dict[str, str] = {}
    for block in found:
        if not block.is_closed and is_cut:
            raise AnswerError(_CUT)
        if is_bundle(block.text):
            given = unpack(block.text)
        elif block.path:
            check_path(block.path)
            given = {block.path: _without_blank_edges(block.text)}
        else:
            given = {}
        twice = sorted(set(given) & set(new))
        if twice:
            raise AnswerError(f"the file {twice[0]!r} is given twice")
        new |= given
    if not new:
        raise AnswerError("no code block in the reply stands under a line '=== FILE: PATH ==='")
    same = {path for path in new.keys() & old.keys() if new[path].rstrip() == old[path].rstrip()}
    changed = {path: text for path, text in new.items() if path not in same}
    return _checked(problem, changed, old, has_blocks)


def _checked(
    problem: Problem, changed: Mapping[str, str], old: Mapping[str, str], has_blocks: bool
) -> Program:
    has_markers = has_blocks and any(map(layout, old.values()))
    files = dict(old)
    for path, source in changed.items():
        place = f"{path}: " if path else ""
        if has_markers and layout(old.get(path, "")) is None:
            raise AnswerError(f"it changed the file {path!r}, which has no EVOLVE-BLOCK")
        try:
            source.encode("utf-8")
            files[path] = keep_fixed(old[path], source) if has_markers else source
        except UnicodeEncodeError as error:
            raise AnswerError(f"{place}it has characters that are no text (lone surrogates)") from error
        except AnswerError as error:
            raise AnswerError(f"{place}{error}") from error
    return Program(pack(files) if problem.suffix == "/" else files[_ALONE])


def files_of(problem: Problem, program: Program) -> dict[str, str]:
    """Return the files of a program as {path: text}. In a single-file program, the path is empty."""
    return unpack(program.source) if problem.suffix == "/" else {_ALONE: program.source}


def _without_blank_edges(text: str) -> str:
    return re.sub(r"\A(?:[^\S\n]*\n)+", "", text).rstrip() + "\n"


@functools.lru_cache(maxsize=64)
def defined_names(source: str | bytes) -> frozenset[str] | None:
    """Return the names defined at the top level of Python code, or None if the code is invalid."""
    try:
        with warnings.catch_warnings():
            # Invalid string escapes in a program are not our concern.
            warnings.simplefilter("ignore")
            body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
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
    names = defined_names(source) or frozenset()
    return entry in names if entry else bool(names)
