"""Language models that score programs in addition to an evaluator (OpenEvolve's `use_llm_feedback`)."""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evovpo.analysis.scores import COMBINED, number
from evovpo.config import Config, ModelConfig
from evovpo.errors import EvovpoError
from evovpo.judging.evaluator import Judge
from evovpo.problem.openevolve.evaluator import MESSAGE_CHARACTERS
from evovpo.problem.openevolve.metrics import read_rewards
from evovpo.prompts.replies import without_reasoning
from evovpo.proposers import Proposer
from evovpo.types import Evaluation, Message, Problem, Program, Prompt, Sampling, Status

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelJudge:
    """A thread-safe judge that adds scores from language models to the evaluation by a wrapped judge.

    As in OpenEvolve 0.4.0 (`Evaluator.evaluate_program`), every model returns named scores. Let a be the
    weighted mean of the models' scores for one name. The metric `llm_NAME` is a times the setting `weight`.
    Let m be the mean of a over all names. Then `llm_average` is m times `weight`, and a `combined_score` c
    becomes 0.7 c + 0.3 m.
    """

    judge: Judge
    problem: Problem
    config: Config
    ticket: Prompt
    """Prompt under which the requests are stored."""
    ask: Callable[[ModelConfig], Proposer]

    def evaluate(self, program: Program) -> Evaluation:
        """Return the evaluation by the wrapped judge. If the program ran, the models' scores are added."""
        found, folder = self.judge.evaluate(program), self.problem.evaluator
        if found.status is not Status.OK or folder is None:
            return found
        told = self.config.evaluator.judges
        models = [ModelConfig(**table) for table in told["models"]]
        answers = asyncio.run(self._answers(models, _question(program, told["prompt"])))
        whole = sum(model.weight for model, _ in answers)
        scores: dict[str, float] = {}
        said = [found.feedback] if found.feedback else []
        for model, answer in answers:
            for name, value in answer.items():
                score = number(value)
                if score is None:
                    said.append(f"{name}: {value}"[:MESSAGE_CHARACTERS])
                else:
                    scores[name] = scores.get(name, 0.0) + score * model.weight / whole
        if not scores:
            return found
        mean = sum(scores.values()) / len(scores)
        named = {f"llm_{name}": score for name, score in scores.items()} | {"llm_average": mean}
        metrics = dict(found.metrics or ()) | {name: score * told["weight"] for name, score in named.items()}
        combined = number(metrics.get(COMBINED))
        if combined is not None:
            metrics[COMBINED] = combined * 0.7 + mean * 0.3
        rewards, _ = read_rewards(folder, metrics)
        return replace(found, metrics=tuple(metrics.items()), rewards=rewards, feedback="\n".join(said))

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        return self.judge.evaluate_heldout(program)

    async def _answers(
        self, models: list[ModelConfig], question: tuple[Message, ...]
    ) -> list[tuple[ModelConfig, dict[str, Any]]]:
        sampling = Sampling(self.config.sampling.temperature, self.config.sampling.max_tokens or 4096)
        found = []
        for model in models:
            proposer = self.ask(model)
            try:
                (reply,) = await proposer.propose(replace(self.ticket, messages=question), [0], sampling)
                text = without_reasoning(reply.text)
                found.append((model, json.loads(text[text.find("{") : text.rfind("}") + 1])))
            except (EvovpoError, ValueError, RecursionError) as error:
                _log.warning("%s gives no scores and is left out of a judgement: %s", model.name, error)
            finally:
                await proposer.aclose()
        return found


def _question(program: Program, settings: dict[str, Any]) -> tuple[Message, ...]:
    from openevolve.config import PromptConfig
    from openevolve.prompt.sampler import PromptSampler

    sampler = PromptSampler(PromptConfig(**settings))
    sampler.set_templates("evaluator_system_message", "evaluation")
    made = sampler.build_prompt(current_program=program.source)
    return Message("system", made["system"]), Message("user", made["user"])
