"""Formats programs and evaluations for prompts: fences code, limits lengths, sanitizes untrusted text."""

import json
import re
from collections.abc import Sequence

from evovpo.analysis.scores import NO_SCORE, compared, score_name, score_of
from evovpo.prompts.bundles import header, is_bundle, unpack
from evovpo.types import Evaluation, Json, Problem, Status

FEEDBACK_CHARACTERS = 1500
_MOST_COMPONENTS = 64
_METRIC_CHARACTERS = 200
_BETTER = 8
_LINE_CHARACTERS = 300

_LANGUAGES = {
    ".py": "python", ".rs": "rust", ".r": "r", ".c": "c", ".h": "c", ".cpp": "cpp", ".cc": "cpp", ".go": "go",
    ".js": "javascript", ".ts": "typescript", ".java": "java", ".jl": "julia", ".sh": "bash", ".sql": "sql",
    ".md": "markdown", ".txt": "text", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml",
}  # fmt: skip
ALIASES = {
    "py": "python",
    "python3": "python",
    "rs": "rust",
    "c++": "cpp",
    "js": "javascript",
    "ts": "typescript",
}
"""Other name of a language in a code fence -> usual name."""

_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BACKTICKS = re.compile(r"`{3,}")


def language_of(suffix: str) -> str:
    """Return the language name for a code fence, given a file extension such as `.py`; `text` for folders."""
    return _LANGUAGES.get(suffix.lower(), suffix.lower().strip("./") or "text")


def suffix_of(language: str) -> str:
    """Return the usual file extension of a language, or `.txt` for an unknown language."""
    wanted = ALIASES.get(language, language)
    return next((suffix for suffix, name in _LANGUAGES.items() if name == wanted), ".txt")


def fenced(text: str, language: str) -> str:
    """Return a text as a code block, with a fence longer than any fence in the text."""
    runs = [len(found) for found in re.findall(r"`{3,}", text)]
    fence = "`" * max(3, 1 + max(runs, default=0))
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def shown_source(source: str, suffix: str) -> str:
    """Return a program as a code block; a bundle has a header line and a code block for each file."""
    if suffix == "/" and is_bundle(source):
        return "\n\n".join(
            f"{header(path)}\n{fenced(text, language_of('.' + path.rpartition('.')[2]))}"
            for path, text in unpack(source).items()
        )
    return fenced(source, language_of(suffix))


def harmless(text: str) -> str:
    """Return untrusted text without code fences, terminal control sequences and chat template markers."""
    text = _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text.replace("\r\n", "\n")))
    return _BACKTICKS.sub(lambda found: "'" * len(found[0]), text).replace("<|", "< |")


def capped(text: str, characters: int) -> str:
    """Return a text. If it is longer than `characters`, a note replaces the middle."""
    if len(text) <= characters:
        return text
    head = characters // 3
    cut = len(text) - characters
    return f"{text[:head]}\n[... {cut} characters left out ...]\n{text[len(text) - (characters - head) :]}"


def quoted(text: str, characters: int | None = None) -> str:
    """Return untrusted text, sanitized and optionally cut, as a code block; empty for blank text."""
    text = harmless(text).strip("\n")
    if characters is not None:
        text = capped(text, characters)
    return fenced(text, "text") if text.strip() else ""


def one_line(text: str) -> str:
    """Return untrusted text as one sanitized line. The middle of a long line is left out."""
    line = " ".join(harmless(text).split())
    if len(line) <= _LINE_CHARACTERS:
        return line
    half = _LINE_CHARACTERS // 2
    return f"{line[:half]} ... {line[-half:]}"


def number(value: float) -> str:
    return f"{value:.6g}"


def shown_rewards(problem: Problem, evaluation: Evaluation) -> str:
    """Return the results of an evaluation as text: any failure, the rewards or the score, and the metrics."""
    parts: list[str] = []
    if evaluation.status is not Status.OK:
        parts.append(f"It failed with status {evaluation.status}.")
    rewards = evaluation.rewards
    score = score_of(problem, evaluation)
    left_out = None if problem.evaluator is None else problem.evaluator.left_out
    ranked_by = score_name(dict(evaluation.metrics or ()), left_out)
    if score is not None:
        parts.append("It has no score." if score == NO_SCORE else f"{ranked_by} = {score:.10g}.")
    elif rewards is None:
        parts.append("Rewards: none.")
    else:
        named = [f"{o.name} {number(r)}" for o, r in zip(problem.objectives, rewards, strict=True)]
        if problem.is_by_example:
            parts.append(f"It passes {evaluation.passed} of {len(rewards)} examples.")
        parts.append(f"Rewards: {_listed(named)}.")
    wanted = () if problem.evaluator is None else problem.evaluator.metrics
    lower = {metric.name for metric in wanted if metric.lower_is_better}
    sign = " " if score is None else " = "
    plain = [
        f"{name}{sign}{number(value) if isinstance(value, float) else json.dumps(value)}"
        + " (lower is better)" * (name in lower)
        for name, value in evaluation.metrics or ()
        if isinstance(value, bool | int | float) and _is_safe(name) and (score is None or name != ranked_by)
    ]
    if plain:
        parts.append(f"As measured: {_listed(plain)}.")
    return "\n".join(parts)


def shown_feedback(problem: Problem, evaluation: Evaluation, rows: Sequence[int], characters: int) -> str:
    """Return a code block with untrusted texts: wrong outputs of `rows`, feedback and text metrics."""
    parts = _failed_rows(problem, evaluation, rows)
    if evaluation.feedback.strip():
        parts.append(evaluation.feedback)
    for name, value in evaluation.metrics or ():
        if not isinstance(value, bool | int | float) or not _is_safe(name):
            text = value if isinstance(value, str) else json.dumps(value)
            parts.append(f"{name[:_METRIC_CHARACTERS]}: {capped(text, _METRIC_CHARACTERS)}")
    return quoted("\n".join(parts), characters)


def better_at(problem: Problem, ours: Evaluation, theirs: Evaluation) -> str:
    """Return a text that lists the components in which `ours` is better, with the largest gain first."""
    pairs = zip(problem.objectives, compared(problem, ours), compared(problem, theirs), strict=False)
    gains = [(own - other, objective.name, own, other) for objective, own, other in pairs if own > other]
    gains.sort(key=lambda gain: -gain[0])
    named = [f"{name} ({number(own)} against {number(other)})" for _, name, own, other in gains[:_BETTER]]
    if len(gains) > _BETTER:
        named.append(f"{len(gains) - _BETTER} more")
    return ", ".join(named)


def shown_call(entry: str, inputs: Sequence[Json]) -> str:
    return f"{entry}({', '.join(repr(value) for value in inputs)})"


def _failed_rows(problem: Problem, evaluation: Evaluation, rows: Sequence[int]) -> list[str]:
    if not problem.is_by_example or evaluation.outputs is None or evaluation.rewards is None:
        return []
    lines = []
    for row in rows:
        if evaluation.rewards[row] < 1.0:
            example, got = problem.train[row], evaluation.outputs[row]
            gave = (
                "gave nothing that was kept"
                if got is None
                else f"gave {capped(repr(got), _METRIC_CHARACTERS)}"
            )
            call = shown_call(problem.entry, example.inputs)
            lines.append(f"{problem.objectives[row].name}: {call} {gave}, expected {example.output!r}")
    return lines


def _listed(named: Sequence[str]) -> str:
    if not named:
        return "none"
    more = [f"and {len(named) - _MOST_COMPONENTS} more"] if len(named) > _MOST_COMPONENTS else []
    return ", ".join([*named[:_MOST_COMPONENTS], *more])


def _is_safe(name: str) -> bool:
    return len(name) <= 64 and name.isprintable() and harmless(name) == name
