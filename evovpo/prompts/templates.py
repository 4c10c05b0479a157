"""Prompt templates: text files with placeholders. Files in a user's folder override the packaged files.

A placeholder is a known name in braces, such as `{statement}`. `{{statement}}` stands for the literal text
`{statement}`; all other braces are plain text. Inserted texts are not searched for placeholders. A paragraph
(lines between blank lines) is left out if it has placeholders and all inserted texts are empty.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evovpo.errors import ConfigError, nearest_hint
from evovpo.files import write_errors

_PACKAGED = Path(__file__).parent / "templates"

PROMPT_PLACES = (
    "statement", "signature", "objectives", "score", "examples", "start", "parent",
    "rewards", "feedback", "better", "partner", "partner_rewards", "partner_feedback", "partner_better",
    "inspirations", "changes", "attempts", "answer",
)  # fmt: skip
_ANSWER_PLACES = ("language", "fence", "program")

PLACES: Mapping[str, tuple[str, ...]] = {
    "system": ("statement", "language"),
    **dict.fromkeys(("root", "mutate", "crossover", "repair"), PROMPT_PLACES),
    "output": ("text",),
    "inspiration": ("number", "program", "rewards", "better", "feedback"),
    "attempt": ("number", "reason", "text"),
    **dict.fromkeys(("answer_rewrite", "answer_rewrite_files"), _ANSWER_PLACES),
    **dict.fromkeys(("answer_diff", "answer_diff_files", "blocks"), _ANSWER_PLACES),
    "chain": ("count", "first", "second"),
}
"""Name of a template -> placeholders that it may contain."""

_PLACE = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")
_PARAGRAPHS = re.compile(r"\n(?:[ \t]*\n)+")


@dataclass(frozen=True)
class Templates:
    """The checked texts of all templates by name, as returned by `load_templates`."""

    texts: Mapping[str, str]

    def fill(self, name: str, values: Mapping[str, str]) -> str:
        """Return template `name` after replacing its placeholders by `values`. Missing values are empty."""
        paragraphs = (_filled(paragraph, values) for paragraph in _PARAGRAPHS.split(self.texts[name].strip()))
        return "\n\n".join(text for text in paragraphs if text is not None)


def load_templates(folder: str | None = None) -> Templates:
    """Return the packaged templates. Templates of the same names in `folder`, if given, override them.

    Raises a `ConfigError` that lists all errors: missing folder, unknown file names or placeholders.
    """
    texts = dict(_packaged())
    if not folder:
        return Templates(texts)
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise ConfigError(
            f"prompt.templates: expected a folder, found {folder!r}, which is none; "
            "`evovpo check --write-prompts FOLDER` makes one"
        )
    faults: list[str] = []
    for file in sorted(path.iterdir()):
        if file.name.startswith("."):
            continue
        if file.suffix != ".txt" or file.stem not in PLACES:
            known = ", ".join(f"{name}.txt" for name in PLACES)
            hint = nearest_hint(file.name, [f"{name}.txt" for name in PLACES])
            faults.append(f"{file}: expected a template ({known}); {hint}")
            continue
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            faults.append(
                f"{file}: expected UTF-8 text, but it cannot be read ({error}); mend it or remove it"
            )
            continue
        faults += [f"{file}: {fault}" for fault in _unknown_places(file.stem, text)]
        texts[file.stem] = text
    if faults:
        raise ConfigError("\n".join(faults))
    return Templates(texts)


def write_templates(folder: Path) -> list[Path]:
    """Write the packaged templates into `folder`, and return the new files.

    Raises `ConfigError` if writing fails or a template exists already. No existing template is overwritten.
    """
    files = {folder / f"{name}.txt": text for name, text in _packaged().items()}
    there = [file.name for file in files if file.exists()]
    if there:
        raise ConfigError(
            f"{folder}: expected a folder without templates, found {', '.join(there)}; name another folder"
        )
    with write_errors(f"{folder}: the templates"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
    return list(files)


@functools.cache
def _packaged() -> Mapping[str, str]:
    return {name: (_PACKAGED / f"{name}.txt").read_text(encoding="utf-8") for name in PLACES}


def _unknown_places(name: str, text: str) -> list[str]:
    known = PLACES[name]
    return [
        f"unknown place {{{found[2]}}}; known: {', '.join(f'{{{place}}}' for place in known)}; double the "
        "braces of one that is plain text"
        for found in _PLACE.finditer(text)
        if found[2] is not None and found[2] not in known
    ]


def _filled(paragraph: str, values: Mapping[str, str]) -> str | None:
    places = [found[2] for found in _PLACE.finditer(paragraph) if found[2] is not None]
    if places and not any(values.get(place) for place in places):
        return None
    return _PLACE.sub(lambda one: f"{{{one[1]}}}" if one[2] is None else values.get(one[2], ""), paragraph)
