"""Evaluates programs: the sandbox runs a program on the inputs, and this process scores the outputs."""

import contextlib
import itertools
import json
import logging
import math
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, SupportsFloat

from evovpo.config import Config
from evovpo.errors import ProblemError, SandboxError, nearest_hint
from evovpo.problem.examples import same_value
from evovpo.sandbox import Level, Result, Sandbox
from evovpo.types import Evaluation, Json, Objective, Problem, Program, Rewards, Status

FEEDBACK_CHARACTERS = 2000

OUTPUT_CHARACTERS = 200
"""Maximum JSON length of an output that is stored for prompts; a longer output is stored as `None`."""


_Cases = tuple[tuple[Json, ...], ...]
_log = logging.getLogger(__name__)
_scorer_numbers = itertools.count()


class ScorerError(ProblemError):
    """A scorer raised an exception on the outputs of a program."""


class Judge(Protocol):
    """Evaluates programs on one problem. All methods are thread-safe."""

    def evaluate(self, program: Program) -> Evaluation:
        """Return the evaluation of `program`."""

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        """Return for each held-out row or objective whether `program` is right. For reports only."""


class Scorer(NamedTuple):
    """The scorer of a problem: trusted code, loaded from `score.py` or given as a function."""

    cases: tuple[tuple[Json, ...], ...]
    score: Callable[[list[Any]], object]
    """Takes the outputs, one per case; returns {objective: reward} or the pair ({objective: reward}, text).
    The text describes the outputs, for prompts and reports. The result is not checked yet."""
    per_case: bool = False
    """If True (`per_case = True` in the file), a case that raises gets the output None, and the next case
    runs. If False, an exception ends the evaluation with zero rewards."""
    failed: Callable[[str], object] = lambda error: None
    """Takes the error text of a case that raised an exception; returns the output to score for this case."""
    heldout_cases: tuple[tuple[Json, ...], ...] = ()
    """Argument lists for reports only, from `heldout_cases()` of the file; scored by `heldout_score`."""
    heldout_score: Callable[[list[Any]], object] | None = None

    def answer(self, result: Result, name: str) -> tuple[object, str]:
        """Call `score`; return unchecked rewards and feedback. Raises `ProblemError` if `score` fails."""
        outputs: list[Any] = [
            output if error is None else self.failed(error)
            for output, error in zip(result.outputs, result.errors, strict=True)
        ]
        try:
            returned = self.score(outputs)
        except (Exception, SystemExit) as error:
            raise ScorerError(
                f"{name}: score(outputs) raised {_raised(error)}; outputs come from candidates and may be any"
                " JSON value (None, text, a list of another length): check them and give 0.0 for a bad one"
            ) from error
        feedback: object = ""
        if isinstance(returned, tuple) and len(returned) == 2:
            returned, feedback = returned
        if not isinstance(feedback, str):
            raise ProblemError(
                f"{name}: score(outputs): expected rewards, or a pair of rewards and a text,"
                f" found {feedback!r:.80} in place of the text; return one"
            )
        return returned, feedback


class Evaluator:
    """A thread-safe `Judge` of one problem. If `scorer` is None, the problem's own scorer is used, if any."""

    def __init__(self, problem: Problem, sandbox: Sandbox, scorer: Scorer | None = None) -> None:
        self._problem = problem
        self._sandbox = sandbox
        self._scorer = scorer
        self._scorer_lock = threading.Lock()
        self._has_raised = False
        if problem.is_by_example:
            self._cases = tuple(example.inputs for example in problem.train)
            self._labels = [f"{objective.name}: " for objective in problem.objectives]
        else:
            self._scorer = scorer or load_scorer(problem)
            self._cases = self._scorer.cases
            self._labels = [""] * len(self._cases)

    def evaluate(self, program: Program) -> Evaluation:
        """Return the evaluation of `program`.

        In a by-example problem, component i is 1.0 if row i's output is the expected value (`same_value`),
        else 0.0. If the program raises on every row, the status is `error`. If it fails in any way, all
        rewards are 0. If the sandbox fails, the status is `sandbox_error`, without rewards. Raises
        `ProblemError` if the scorer returns an invalid value, or raises on a starting program.
        """
        problem = self._problem
        result = self._sandbox.run(
            program.source,
            problem.entry,
            self._cases,
            problem.limits,
            per_case=self._scorer is None or self._scorer.per_case,
        )
        status, feedback = result.status, ""
        rewards: Rewards | None = (0.0,) * len(problem.objectives)
        outputs: tuple[Json, ...] | None = None
        if status is Status.SANDBOX_ERROR:
            rewards, feedback = None, result.detail
        elif status is not Status.OK:
            feedback = f"{status}: {result.detail}" if result.detail else str(status)
        else:
            errors = zip(self._labels, result.errors, strict=True)
            raised = [f"{label}{error}" for label, error in errors if error is not None]
            feedback = raised[0] if raised else ""
            if len(raised) == len(self._cases):
                status = Status.ERROR
            elif self._scorer is not None:
                with self._scorer_lock:  # scorers are rarely thread-safe
                    given, feedback = self._answer(self._scorer, result, program)
                rewards = checked_rewards(given, problem.objectives, f"{problem.scorer_path}: score(outputs)")
                if raised:
                    feedback = f"{feedback}\n{len(raised)} cases raise, the first: {raised[0]}".strip()
            else:
                rows = zip(problem.train, result.outputs, result.errors, strict=True)
                rewards = tuple(
                    0.0 if error is not None else float(same_value(output, row.output))
                    for row, output, error in rows
                )
                outputs = tuple(map(_kept_output, result.outputs))
        is_short = len(feedback) <= FEEDBACK_CHARACTERS
        return Evaluation(
            program_id=program.id,
            problem_version=problem.version,
            status=status,
            rewards=rewards,
            feedback=feedback if is_short else feedback[: FEEDBACK_CHARACTERS - 4] + " ...",
            seconds=result.wall_ms / 1000,
            isolation=result.isolation,
            outputs=outputs,
        )

    def _answer(self, scorer: Scorer, result: Result, program: Program) -> tuple[object, str]:
        try:
            return scorer.answer(result, str(self._problem.scorer_path))
        except ScorerError as error:
            if program in self._problem.seeds:
                raise
            if not self._has_raised:
                _log.warning("%s; such programs get zeros (this is said only once)", error)
            self._has_raised = True
            return {one.name: 0.0 for one in self._problem.objectives}, "the scorer cannot read these outputs"

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        """Return whether `program` is right: for each held-out row or, with a scorer, for each objective.

        For reports only. All values are False if `program` fails. Raises `SandboxError` if the sandbox fails.
        """
        scorer = self._scorer
        if scorer is not None and scorer.heldout_cases:
            score = scorer.heldout_score or scorer.score
            unseen = scorer._replace(cases=scorer.heldout_cases, score=score)
            judge = Evaluator(self._problem, self._sandbox, unseen)
        elif self._problem.heldout:
            judge = Evaluator(unseen_rows(self._problem), self._sandbox)
        else:
            return ()
        found = judge.evaluate(program)
        if found.rewards is None:
            raise SandboxError(f"the held-out rows of {self._problem.id} could not be run: {found.feedback}")
        return tuple(reward == 1.0 for reward in found.rewards)


def unseen_rows(problem: Problem) -> Problem:
    """Return a by-example problem whose training rows are the held-out rows of `problem`."""
    objectives = tuple(Objective(f"row-{number + 1}") for number in range(len(problem.heldout)))
    by_example = replace(problem, scorer_path=None, evaluator=None)  # a stored problem may name code as well
    return replace(by_example, train=problem.heldout, heldout=(), objectives=objectives)


def open_sandbox(problem: Problem, config: Config) -> Sandbox:
    """Return a started sandbox whose programs cannot read the problem's folder or the store's files.

    Raises `SandboxError` if the sandbox cannot start.
    """
    hidden = [] if problem.folder is None else [Path(problem.folder).resolve()]
    return Sandbox(
        workers=config.sandbox.workers,
        preload=() if problem.is_by_example else ("numpy",),
        minimum_level=Level(config.sandbox.minimum_level),
        hidden=[*hidden, *config.store.files],
    )


@contextlib.contextmanager
def open_evaluator(problem: Problem, config: Config, scorer: Scorer | None = None) -> Iterator[Judge]:
    """Yield a started evaluator for `problem`, and end its processes afterwards.

    Raises `ProblemError` if the problem cannot be loaded, and `SandboxError` if the sandbox cannot start.
    """
    if problem.evaluator is not None:
        from evovpo.problem.openevolve.evaluator import open_openevolve

        with open_openevolve(problem, config) as whole:
            yield whole
        return
    with open_sandbox(problem, config) as sandbox:
        yield Evaluator(problem, sandbox, scorer)


def load_scorer(problem: Problem) -> Scorer:
    """Run the problem's `score.py` in this process, check it, and return its scorer.

    Raises `ProblemError` if the file fails, lacks `cases` or `score`, or returns invalid cases (inputs).
    """
    path = str(problem.scorer_path)
    name = f"evovpo_scorer_{next(_scorer_numbers)}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses in a scorer look up their module
    try:
        # An import would write and read byte code in the problem's folder. Python checks only size and whole
        # seconds of a file, so the byte code could be older than an edited scorer.
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise ProblemError(f"{path}: running the file raised {_raised(error)}; correct the scorer") from error
    optional = [key for key in ("heldout_cases", "heldout_score") if hasattr(module, key)]
    for key in ("cases", "score", *optional):
        function = getattr(module, key, None)
        if not callable(function):
            raise ProblemError(f"{path}: expected a function {key!r}, found {function!r:.80}; define it")
    cases, heldout = (
        _cases_of(module, key, problem.parameters, path) if hasattr(module, key) else ()
        for key in ("cases", "heldout_cases")
    )
    per_case = getattr(module, "per_case", False)
    if not isinstance(per_case, bool):
        raise ProblemError(f"{path}: per_case: expected True or False, found {per_case!r:.80}; correct it")
    heldout_score = getattr(module, "heldout_score", None)
    return Scorer(cases, module.score, per_case, heldout_cases=heldout, heldout_score=heldout_score)


def _cases_of(module: ModuleType, key: str, parameters: Sequence[str], path: str) -> _Cases:
    try:
        found = getattr(module, key)()
    except (Exception, SystemExit) as error:
        raise ProblemError(f"{path}: {key}() raised {_raised(error)}; correct the scorer") from error
    if not isinstance(found, list | tuple) or not found:
        raise ProblemError(
            f"{path}: {key}(): expected a list with at least one argument list, found {found!r:.80}"
        )
    for index, case in enumerate(found):
        if not isinstance(case, list | tuple) or len(case) != len(parameters):
            raise ProblemError(
                f"{path}: {key}()[{index}]: expected a list of {len(parameters)} arguments"
                f" ({', '.join(parameters)}), found {case!r:.80}; the arguments go into one list a case"
            )
    try:
        # A JSON copy, which is unaffected by later changes that the scorer makes to its own lists.
        copies = json.loads(json.dumps(found, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ProblemError(
            f"{path}: {key}(): expected values that JSON can hold ({error});"
            " turn arrays into lists, and leave out NaN and infinity"
        ) from error
    return tuple(tuple(case) for case in copies)


def checked_rewards(returned: object, objectives: Sequence[Objective], origin: str) -> Rewards:
    """Return a scorer's result as one reward per objective. Raises a `ProblemError` that lists all errors."""
    if not isinstance(returned, Mapping):
        raise ProblemError(
            f"{origin}: expected a dictionary from objective name to reward,"
            f" found {returned!r:.80}; return one"
        )
    names = [objective.name for objective in objectives]
    faults = [
        f"objective {name!r} is not declared ({nearest_hint(str(name), names)}); leave it out, or add an"
        " [[objectives]] entry"
        for name in returned
        if name not in names
    ]
    rewards: list[float] = []
    for name in names:
        if name not in returned:
            faults.append(f"objective {name!r} is missing; return a reward for it, 0.0 if there is none")
            continue
        value = returned[name]
        try:
            number = float(value) if isinstance(value, SupportsFloat) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if 0.0 <= number <= 1.0:
            rewards.append(abs(number))  # abs: -0.0 is 0.0
        else:
            faults.append(f"objective {name!r} returned {value!r:.80}; rewards lie in [0, 1]; rescale it")
    if faults:
        raise ProblemError(f"{origin}: " + "; ".join(faults))
    return tuple(rewards)


def _raised(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    line = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"{type(error).__name__}: {str(error)[:300]}{line}"


def _kept_output(output: Json) -> Json:
    try:
        text = json.dumps(output, ensure_ascii=False)
    except RecursionError:
        return None
    return output if len(text) <= OUTPUT_CHARACTERS else None
