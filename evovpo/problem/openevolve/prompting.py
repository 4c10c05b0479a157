"""Prompts made by OpenEvolve's own prompt sampler, for projects with their own templates."""

import dataclasses
import random
from collections.abc import Mapping
from typing import Any, ClassVar

from evovpo.config import PromptConfig
from evovpo.errors import ConfigError
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.program_text import FEEDBACK_CHARACTERS, capped, harmless, language_of
from evovpo.prompts.request import PromptRequest, ShownProgram
from evovpo.types import Message, Problem, PromptKind


class OpenEvolvePrompts:
    """The prompt format of OpenEvolve projects with their own templates.

    OpenEvolve makes the prompts that ask for one improvement of one program; evovpo makes all other prompts.
    In OpenEvolve's prompts, the placeholder `{changes}` always becomes "Unknown changes".
    """

    ways: ClassVar[Mapping[str, float]] = {}

    def __init__(self, ours: DiffFormat | RewriteFormat, settings: PromptConfig) -> None:
        from openevolve.config import PromptConfig as TheirConfig
        from openevolve.prompt.sampler import PromptSampler

        self._config: Any = TheirConfig(**(settings.openevolve or {}))
        self._sampler = PromptSampler(self._config)
        self._ours = ours
        self.reply_tokens, self.max_rows = ours.reply_tokens, ours.max_rows
        self.rollouts = ours.rollouts
        self.others = self._config.num_top_programs + self._config.num_diverse_programs
        self.can_show, self.reply, self.answers = ours.can_show, ours.reply, ours.answers

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return a system and a user message. Raises `ConfigError` if a template cannot be filled."""
        parent, config = request.parent, self._config
        if parent is None or request.kind is not PromptKind.MUTATE or request.answers != 1:
            return self._ours.messages(problem, request)
        draw = random.Random(request.draw)
        drawn = {name: [draw.choice(texts)] for name, texts in config.template_variations.items() if texts}
        self._sampler.config = dataclasses.replace(config, template_variations=drawn)
        told = {"feedback": parent.evaluation.feedback}
        told |= {f"an earlier answer, {one.reason[:300]}": one.text for one in request.attempts}
        most = FEEDBACK_CHARACTERS
        artifacts = {harmless(key): capped(harmless(text), most) for key, text in told.items() if text}
        others = [_record(shown) for shown in request.inspirations]
        top = others[: config.num_top_programs]
        try:
            made = self._sampler.build_prompt(
                current_program=parent.program.source,
                parent_program=parent.program.source,
                program_metrics=_record(parent)["metrics"],
                previous_programs=top,
                top_programs=top,
                inspirations=others[len(top) :],
                language=language_of(problem.suffix),
                diff_based_evolution=isinstance(self._ours, DiffFormat),
                program_artifacts=artifacts,
                feature_dimensions=[one.name.partition(":")[2] or "complexity" for one in problem.features],
            )
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"{config.template_dir}: a template there cannot be filled ({error!r}); expected places of "
                "OpenEvolve, such as {metrics}, or of template_variations, other braces doubled; correct it"
            ) from error
        return Message("system", made["system"]), Message("user", made["user"])


def _record(shown: ShownProgram) -> dict[str, Any]:
    metrics = dict(shown.evaluation.metrics or ())
    return {"id": shown.program.id, "code": shown.program.source, "metrics": metrics}
