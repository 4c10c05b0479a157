"""Evaluates programs in the sandbox with an OpenEvolve evaluator, which imports and runs them."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evovpo.config import Config
from evovpo.errors import ProblemError
from evovpo.problem.openevolve.metrics import read_rewards
from evovpo.prompts.bundles import unpack
from evovpo.prompts.program_text import capped
from evovpo.sandbox import Level, ProxySandbox, WholeJob, WholeResult, WholeSandbox
from evovpo.sandbox.forkserver.strict_json import score_of
from evovpo.sandbox.openings import read_openings
from evovpo.types import Evaluation, EvaluatorFolder, EvaluatorMode, Problem, Program, Status

MESSAGE_CHARACTERS, _ARTIFACT_CHARACTERS, _LOG_CHARACTERS = 1500, 2000, 500
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})
"""Texts for non-finite numbers. Feedback does not quote a metric with such a text."""
_ERROR = re.compile("(?i)error|denied|not found")
_EVERY_STAGE = -1e308
STOPPED = "stopped at stage"
"""Beginning of the feedback on a program whose score in a stage was below the stage's threshold."""


@dataclass(frozen=True, slots=True)
class OpenEvolveEvaluator:
    """Evaluates programs with the evaluator of an OpenEvolve project; thread-safe."""

    problem: Problem
    sandbox: WholeSandbox | ProxySandbox
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for the project's function `evaluate`, in addition to the program path."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for the user on how programs are run; empty before the first run."""
        return self.sandbox.remarks

    @property
    def _folder(self) -> EvaluatorFolder:
        assert self.problem.evaluator is not None
        return self.problem.evaluator

    def evaluate(self, program: Program, every_stage: bool = False) -> Evaluation:
        """Return the evaluation of `program`: its raw metrics and its reward vector.

        With `every_stage`, all stages of the evaluator run, whatever the scores of earlier stages. A missing
        or non-finite metric has reward 0. If the program or the evaluator fails, all rewards are 0. If the
        sandbox fails, the status is `sandbox_error` and there are no rewards.
        """
        problem, thresholds = self.problem, self._folder.thresholds
        if every_stage:
            thresholds = (_EVERY_STAGE,) * len(thresholds)
        job = job_of(program, problem.suffix, self._folder.file, thresholds)
        if job is None:
            answer = WholeResult(Status.BAD_OUTPUT, detail="the program is not a folder of files")
        else:
            answer = self.sandbox.run(replace(job, arguments=self.arguments), problem.limits)
        vector, faults = read_rewards(self._folder, dict(answer.metrics))
        if 0 < answer.stopped <= len(thresholds):  # later stages did not run: missing metrics are no error
            score, least = score_of(dict(answer.metrics)), thresholds[answer.stopped - 1]
            faults = (f"{STOPPED} {answer.stopped}: its score {score:.6g} is below the threshold {least:g}",)
        rewards = {Status.OK: vector, Status.SANDBOX_ERROR: None}
        return Evaluation(
            program_id=program.id,
            problem_version=problem.version,
            status=answer.status,
            rewards=rewards.get(answer.status, (0.0,) * len(problem.objectives)),
            feedback=self._feedback(answer, faults),
            seconds=answer.wall_ms / 1000,
            isolation=answer.isolation,
            metrics=answer.metrics,
            trust=problem.trust,
        )

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        return ()

    def _feedback(self, answer: WholeResult, faults: Sequence[str]) -> str:
        detail = capped(answer.detail, MESSAGE_CHARACTERS)
        parts = [f"{answer.status}: {detail}" if detail else str(answer.status)]
        if answer.status is Status.OK:
            parts = [*faults]
            for name, value in answer.metrics:
                if isinstance(value, str) and value.lower() not in _NOT_FINITE:
                    parts.append(f"{name}: {value[:MESSAGE_CHARACTERS]}")
        if self._folder.artifacts:
            text = "\n".join(f"{name}: {text}" for name, text in answer.artifacts)
            parts += [capped(text, _ARTIFACT_CHARACTERS)] * bool(text)
        if log := answer.log.strip():
            if len(log) > _LOG_CHARACTERS:  # its end is kept
                log = "\n".join(sorted(log.splitlines(), key=lambda line: bool(_ERROR.search(line))))
            parts.append("printed:\n" + capped(log, _LOG_CHARACTERS))
        return "\n".join(parts)


def job_of(program: Program, suffix: str, evaluator: str, thresholds: Sequence[float]) -> WholeJob | None:
    """Return the sandbox job that evaluates a program with the functions in the file `evaluator`.

    If there are `thresholds`, the job calls the evaluator's stage functions, otherwise `evaluate`. Returns
    None if programs are folders (`suffix` is `/`), but this program is not a bundle of files.
    """
    name = f"program_{program.id}"
    if suffix == "/":
        try:
            files, entry = unpack(program.source), ""
        except ValueError:
            return None
    else:
        files, entry = {name + suffix: program.source}, name + suffix
    functions = tuple(f"evaluate_stage{stage}" for stage in range(1, len(thresholds) + 2))
    return WholeJob(files, entry, evaluator, functions if thresholds else ("evaluate",), tuple(thresholds))


@contextlib.contextmanager
def open_openevolve(problem: Problem, config: Config) -> Iterator[OpenEvolveEvaluator]:
    """Yield a started evaluator for `problem`. The evaluated programs cannot read the store's files.

    Raises `ProblemError` if the problem has no folder, `ConfigError` if permissions are invalid, and
    `SandboxError` if the sandbox does not start.
    """
    if problem.evaluator is None or problem.folder is None:
        raise ProblemError(f"problem '{problem.id}': expected the folder of its evaluator, found none")
    is_proxy = problem.evaluator.mode is EvaluatorMode.PROXY
    with (ProxySandbox if is_proxy else WholeSandbox)(
        problem.folder,
        workers=config.sandbox.workers,
        minimum_level=Level(config.sandbox.minimum_level),
        hidden=config.store.files,
        openings=read_openings(config.evaluator.allow, Path(problem.folder)),
    ) as sandbox:
        yield OpenEvolveEvaluator(problem, sandbox, config.evaluator.arguments)
