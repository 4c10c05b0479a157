"""Imports an OpenEvolve checkpoint as a stored run.

The stored run has the status `stopped` and cannot be replayed. Its evaluations are marked as low trust, which
means unverified, and belong to a problem version that is reserved for imports.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evovpo.config import Config
from evovpo.errors import ProblemError
from evovpo.judging.evaluator import FEEDBACK_CHARACTERS
from evovpo.problem.openevolve.checkpoint import Checkpoint, CheckpointProgram, read_checkpoint
from evovpo.problem.openevolve.loading import imported_version
from evovpo.problem.openevolve.metrics import learn, read_rewards
from evovpo.proposers import text_rollout
from evovpo.runs.request import RunRequest
from evovpo.store import Store
from evovpo.types import (
    Candidate,
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    JudgedCandidate,
    Objective,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Status,
    Tell,
    Trust,
    content_id,
)


@dataclass(slots=True)
class ImportResult:
    """Result of an import; `evovpo import-openevolve --json` prints these fields."""

    run: str
    is_new: bool
    """False if this checkpoint was imported before."""
    programs: int = 0
    copies: int = 0
    prompts: int = 0
    faults: tuple[str, ...] = ()


_Answer = tuple[Program, str, Evaluation]


def imported_problem(checkpoint: Checkpoint, project: Problem | None) -> Problem:
    """Return the problem of a checkpoint, with a version reserved for imports.

    Metrics and bounds come from `project` or, without a project, from the oldest program with numeric
    metrics. Raises `ProblemError` if no such program exists.
    """
    if project is not None:
        return dataclasses.replace(project, version=imported_version(project.version))
    metrics = next((found for one in checkpoint.programs if (found := learn(dict(one.metrics), {}, ()))), ())
    if not metrics:
        raise ProblemError(f"{checkpoint.folder}: expected a program with numbers as metrics, found none")
    first = checkpoint.programs[0].code
    return Problem(
        id=checkpoint.name,
        version=content_id("imported", repr(metrics), checkpoint.suffix, checkpoint.name, first),
        statement="A run of OpenEvolve, imported from its checkpoint.",
        entry="",
        parameters=(),
        objectives=tuple(Objective(metric.name) for metric in metrics),
        seeds=(Program(first),),
        suffix=checkpoint.suffix,
        evaluator=EvaluatorFolder("evaluator.py", EvaluatorMode.WHOLE, metrics, left_out=()),
    )


def bring_in(store: Store, folder: Path, named: RunRequest | None = None) -> ImportResult:
    """Store an OpenEvolve checkpoint as a run, unless it is stored. `named` can provide the problem."""
    checkpoint = read_checkpoint(folder)
    problem = imported_problem(checkpoint, None if named is None else named.problem)
    programs = [f"{program.id} {program.code}" for program in checkpoint.programs]
    run_id = content_id("openevolve", problem.version, *programs)[:12]
    stored = {row.run: row.status for row in store.runs()}
    found = ImportResult(run_id, stored.get(run_id) is not RunStatus.STOPPED, faults=checkpoint.faults)
    events = list(_Importer(checkpoint, problem, found).events())
    if found.is_new:
        store.add_problem(problem)
        if run_id not in stored:
            store.add_run(_run(store, checkpoint, problem, run_id, events))
        told = 0
        for event in events:
            if isinstance(event, Prompt):
                store.add_prompt(event)
            else:
                store.add_tell(run_id, event, told)
                told += 1
        store.set_run_status(run_id, RunStatus.STOPPED)
    return found


def _run(
    store: Store, checkpoint: Checkpoint, problem: Problem, run_id: str, events: Sequence[Prompt | Tell]
) -> Run:
    evaluations = max(1, sum(event.slots for event in events if isinstance(event, Prompt)))
    islands = 1 + max(program.island for program in checkpoint.programs)
    config = Config().changed(
        search={"islands": islands, "evaluations": evaluations},
        proposer={"name": "imported"},
        store={"url": store.name},
    )
    began = datetime.fromtimestamp(checkpoint.programs[0].timestamp, UTC).isoformat(timespec="seconds")
    identity = (run_id, problem.id, problem.version)
    return Run(*identity, 0, evaluations, config.to_json(), RunStatus.RUNNING, began)


@dataclass(slots=True)
class _Importer:
    checkpoint: Checkpoint
    problem: Problem
    found: ImportResult
    programs: dict[str, Program] = field(default_factory=dict)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    tells: int = 0
    sequence: int = 0

    def events(self) -> Iterator[Prompt | Tell]:
        known: set[str] = set()
        copies: set[str] = set()
        for evolved in self.checkpoint.programs:
            program = self.programs[evolved.id] = Program(evolved.code)
            # OpenEvolve puts an unmarked copy of the best program into an empty island.
            is_asked = evolved.messages or self.programs.get(evolved.parent or "") != program
            if program.id in known and (evolved.is_copy or not (evolved.iteration and is_asked)):
                copies.add(evolved.id)
            known.add(program.id)
        self.found.copies = len(copies)
        kept = [evolved for evolved in self.checkpoint.programs if evolved.id not in copies]
        self.found.programs = len(kept)
        seeds = [item for item in kept if not item.iteration and item.parent is None] or kept[:1]
        yield from self._ask_and_tell(seeds)
        for evolved in self.checkpoint.programs:
            if evolved.id in copies:
                yield from self._ask_and_tell([evolved], evolved.island)
            elif evolved not in seeds:
                yield from self._evolved(evolved)

    def _ask_and_tell(self, evolved: Sequence[CheckpointProgram], island: int = 0) -> Iterator[Prompt | Tell]:
        programs = tuple(self.programs[item.id] for item in evolved)
        parents = self._parents(evolved[0])
        prompt = self._ask(PromptKind.SEED, island=island, parents=parents, proposals=programs)
        yield prompt
        judged = zip(programs, evolved, strict=True)
        yield self._told(prompt, None, [(program, "", self._theirs(item)) for program, item in judged])

    def _parents(self, evolved: CheckpointProgram) -> tuple[Parent, ...]:
        parent = self.programs.get(evolved.parent or "")
        return (Parent(parent.id, ParentRole.PARENT),) if parent and parent.id in self.evaluations else ()

    def _evolved(self, evolved: CheckpointProgram) -> Iterator[Prompt | Tell]:
        parents = self._parents(evolved)
        self.found.prompts += bool(evolved.messages)
        shown = {"parents": parents, "messages": evolved.messages}
        prompt = self._ask(PromptKind.MUTATE, island=evolved.island, **shown)
        yield prompt
        # A checkpoint contains the text of a completion, but not its sampling settings.
        rollout = text_rollout(prompt, 0, evolved.response, Sampling())
        rollout = dataclasses.replace(rollout, finish_reason="unknown")
        answer = (self.programs[evolved.id], evolved.response, self._theirs(evolved))
        yield self._told(prompt, rollout, [answer])

    def _ask(self, kind: PromptKind, **fields: Any) -> Prompt:
        sequence, self.sequence = self.sequence, self.sequence + 1
        return Prompt(
            id=content_id(self.found.run, str(sequence)),
            run_id=self.found.run,
            sequence=sequence,
            tells_before=self.tells,
            kind=kind,
            **fields,
        )

    def _theirs(self, evolved: CheckpointProgram) -> Evaluation:
        problem, status = self.problem, evolved.status
        assert problem.evaluator is not None
        rewards, faults = read_rewards(problem.evaluator, dict(evolved.metrics))
        lines = [*(faults if status is Status.OK else (str(status),))]
        lines += [f"{name}: {text}" for name, text in evolved.artifacts]
        return Evaluation(
            program_id=self.programs[evolved.id].id,
            problem_version=problem.version,
            status=status,
            rewards=rewards if status is Status.OK else (0.0,) * len(problem.objectives),
            feedback="\n".join(lines)[:FEEDBACK_CHARACTERS],
            seconds=0.0,
            isolation="none",
            metrics=evolved.metrics,
            trust=Trust.LOW,
        )

    def _told(self, prompt: Prompt, rollout: Rollout | None, answers: Sequence[_Answer]) -> Tell:
        self.tells += 1
        judged = []
        for slot, (program, text, theirs) in enumerate(answers):
            known = self.evaluations.get(program.id)
            status = ParseStatus.PARSED if known is None else ParseStatus.DUPLICATE
            evaluation = self.evaluations.setdefault(program.id, theirs)
            candidate = Candidate(
                id=content_id(prompt.id if rollout is None else rollout.id, str(slot)),
                prompt_id=prompt.id,
                rollout_id=None if rollout is None else rollout.id,
                slot=slot,
                parse_status=status,
                program=program,
                parents=prompt.parents,
                text=text,
            )
            judged.append(JudgedCandidate(candidate, evaluation, False))
        return Tell(prompt.id, rollout, tuple(judged))
