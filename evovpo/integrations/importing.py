"""A checkpoint of OpenEvolve, and the model calls that our client logged for it, as a stored run.

The run is finished (`stopped`) and cannot be replayed: a checkpoint does not hold why OpenEvolve chose what
it showed. Judgements that OpenEvolve made are of low trust and keep to a problem version of their own.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.config import StoreConfig
from evovpo.errors import ProblemError
from evovpo.integrations.openevolve import CALLS, HANDED, foreign_run
from evovpo.judging.evaluator import FEEDBACK_CHARACTERS, Judge, open_evaluator
from evovpo.problem.openevolve.checkpoint import Checkpoint, Evolved, read_checkpoint
from evovpo.problem.openevolve.loading import imported_version
from evovpo.problem.openevolve.metrics import learn, read_rewards
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.proposers import rollout_id, text_rollout
from evovpo.runs.request import RunRequest
from evovpo.store import Store
from evovpo.types import (
    Candidate,
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    Judged,
    Objective,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    RunStatus,
    Sampling,
    Status,
    Tell,
    Trust,
    content_id,
)


@dataclass(slots=True)
class Imported:
    """What an import brought in; `evovpo import-openevolve --json` prints these fields."""

    run: str
    is_new: bool
    """False where this checkpoint was imported before: nothing was changed."""
    programs: int = 0
    copies: int = 0
    """Further programs that are copies of these, stored as such on their islands."""
    migrants: int = 0
    """Programs of the checkpoint that migration brought to their islands."""
    parents_gone: int = 0
    """Programs whose parent is not in the checkpoint."""
    prompts: int = 0
    """Programs with the prompt that they came from."""
    joined: int = 0
    """Of these, with the logged call: token ids and log-probabilities where the server gave them."""
    judged: int = 0
    """Further answers of those calls that were run here, so that groups are complete."""
    unclaimed: int = 0
    """Logged calls that no program of the checkpoint came from."""
    faults: tuple[str, ...] = ()
    """Files that were left out, each with why."""


class _Logged(NamedTuple):
    prompt: Prompt
    tells: list[Tell]


_Answer = tuple[Program | None, str, Evaluation | None]
"""Program, text and OpenEvolve's judgement; without one, a program is judged here."""


def imported_problem(checkpoint: Checkpoint, project: Problem | None) -> Problem:
    """Return the problem that the judgements of a checkpoint are kept under.

    Its metrics and bounds are those of `project`, or learned from the oldest program with numbers. The
    version is one that no search judges under, so that none takes these judgements for its own. Raises
    `ProblemError` if no program has a number.
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


def import_checkpoint(
    store: Store, checkpoint: Checkpoint, problem: Problem, judge: Judge | None = None
) -> Imported:
    """Store a checkpoint as a run of `problem` (see `imported_problem`); doing it twice changes nothing.

    Calls that `evovpo.integrations.openevolve` logged in the same store are joined by the answer that
    OpenEvolve was handed. With a `judge` their other answers are run too, and a prompt's whole group is
    stored; without one, only the answer that OpenEvolve judged.
    """
    programs = [f"{program.id} {program.code}" for program in checkpoint.programs]
    run_id = content_id("openevolve", problem.version, *programs)[:12]
    stored = {row.run: row.status for row in store.runs()}
    found = Imported(run_id, stored.get(run_id) is not RunStatus.STOPPED, faults=checkpoint.faults)
    judge = judge if found.is_new else None
    events = list(_Importer(checkpoint, problem, _logged_calls(store), judge, found).events())
    if found.is_new:
        store.add_problem(problem)
        if run_id not in stored:
            proposed = sum(event.slots for event in events if isinstance(event, Prompt))
            began = datetime.fromtimestamp(checkpoint.programs[0].timestamp, UTC)
            islands = 1 + max(program.island for program in checkpoint.programs)
            store.add_run(foreign_run(store, run_id, problem, began, islands, max(1, proposed)))
        told = 0
        for event in events:
            if isinstance(event, Prompt):
                store.add_prompt(event)
            else:
                store.add_tell(run_id, event, told)
                told += 1
        store.set_run_status(run_id, RunStatus.STOPPED)
    return found


def bring_in(store: Store, folder: Path, named: RunRequest | None = None) -> Imported:
    """Store the checkpoint in `folder`; `named` is its problem, whose evaluator then judges further answers.

    Raises `ProblemError` for a folder that holds none, or of whose programs none has a number.
    """
    checkpoint = read_checkpoint(folder)
    problem = imported_problem(checkpoint, None if named is None else named.problem)
    if named is None:
        return import_checkpoint(store, checkpoint, problem)
    with open_evaluator(problem, named.config.changed(store=StoreConfig(url=store.name))) as judge:
        return import_checkpoint(store, checkpoint, problem, judge)


def _logged_calls(store: Store) -> dict[str, list[_Logged]]:
    """Return the logged calls by the answer that OpenEvolve was handed, in the order of the calls."""
    found: dict[str, list[_Logged]] = {}
    for run in store.runs_in_full():
        calls: dict[str, _Logged] = {}
        for event in store.history(run.id) if run.problem_id == CALLS.id else ():
            if isinstance(event, Prompt):
                calls[event.id] = _Logged(event, [])
                continue
            calls[event.prompt_id].tells.append(event)
            for judged in event.judged:
                if judged.candidate.reason == HANDED:
                    found.setdefault(judged.candidate.text, []).append(calls[event.prompt_id])
    return found


@dataclass(slots=True)
class _Importer:
    """Turns the programs of one checkpoint into asks and tells, counting in `found` what it finds."""

    checkpoint: Checkpoint
    problem: Problem
    logged: dict[str, list[_Logged]]
    judge: Judge | None
    found: Imported
    programs: dict[str, Program] = field(default_factory=dict)
    """By the id that OpenEvolve gave."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    """By our program id: the judgement that was told first."""
    tells: int = 0
    sequence: int = 0

    def events(self) -> Iterator[Prompt | Tell]:
        """Yield the asks, each followed by its tells."""
        known: set[str] = set()
        copies: set[str] = set()
        for evolved in self.checkpoint.programs:
            program = self.programs[evolved.id] = Program(evolved.code)
            # Into an empty island OpenEvolve puts a copy of the best program, without saying so.
            is_asked = evolved.messages or self.programs.get(evolved.parent or "") != program
            if program.id in known and (evolved.is_copy or not (evolved.iteration and is_asked)):
                copies.add(evolved.id)
            known.add(program.id)
        self.found.copies = len(copies)
        self.found.migrants = sum(evolved.is_copy for evolved in self.checkpoint.programs)
        kept = [evolved for evolved in self.checkpoint.programs if evolved.id not in copies]
        self.found.programs = len(kept)
        seeds = [item for item in kept if not item.iteration and item.parent is None] or kept[:1]
        yield from self._as_it_is(seeds)
        for evolved in self.checkpoint.programs:
            if evolved.id in copies:
                yield from self._as_it_is([evolved], evolved.island)
            elif evolved not in seeds:
                yield from self._evolved(evolved)
        self.found.unclaimed = sum(map(len, self.logged.values()))

    def _as_it_is(self, evolved: Sequence[Evolved], island: int = 0) -> Iterator[Prompt | Tell]:
        """Yield the ask and the tell of programs that no model wrote: the starting ones, or a copy."""
        programs = tuple(self.programs[item.id] for item in evolved)
        source = self._parent(evolved[0])
        parents = () if source is None else (Parent(source.id, ParentRole.PARENT),)
        prompt = self._ask(PromptKind.SEED, island=island, parents=parents, proposals=programs)
        yield prompt
        judged = zip(programs, evolved, strict=True)
        yield self._told(prompt, None, [(program, "", self._theirs(item)) for program, item in judged])

    def _parent(self, evolved: Evolved) -> Program | None:
        """Return the parent of a program if it was told before it."""
        parent = self.programs.get(evolved.parent or "")
        return parent if parent is not None and parent.id in self.evaluations else None

    def _evolved(self, evolved: Evolved) -> Iterator[Prompt | Tell]:
        parent = self._parent(evolved)
        self.found.parents_gone += parent is None
        self.found.prompts += bool(evolved.messages)
        calls = self.logged.get(evolved.response)
        call = calls.pop(0) if calls else None
        self.found.joined += call is not None
        asked: dict[str, Any] = {"messages": evolved.messages}
        if call is not None:
            kept = ("messages", "seed") if self.judge is None else ("messages", "seed", "rollouts", "answers")
            asked = {name: getattr(call.prompt, name) for name in kept}
        parents = () if parent is None else (Parent(parent.id, ParentRole.PARENT),)
        prompt = self._ask(PromptKind.MUTATE, island=evolved.island, parents=parents, **asked)
        yield prompt
        program, theirs = self.programs[evolved.id], self._theirs(evolved)
        if call is None:
            # A checkpoint has the text of a completion, and nothing of how it was sampled.
            rollout = text_rollout(prompt, 0, evolved.response, Sampling())
            rollout = dataclasses.replace(rollout, finish_reason="unknown")
            yield self._told(prompt, rollout, [(program, evolved.response, theirs)])
            return
        for tell in call.tells:
            assert tell.rollout is not None
            answers: list[_Answer] = []
            for candidate in (item.candidate for item in tell.judged):
                if candidate.reason == HANDED:
                    answers.append((program, candidate.text, theirs))
                elif self.judge is not None:
                    answers.append(self._other(tell.rollout, candidate.text, parent))
            if answers:
                index = 0 if self.judge is None else tell.rollout.index
                id_ = rollout_id(prompt.id, index)
                rollout = dataclasses.replace(tell.rollout, id=id_, prompt_id=prompt.id, index=index)
                yield self._told(prompt, rollout, answers)

    def _other(self, rollout: Rollout, text: str, parent: Program | None) -> _Answer:
        """Return an answer that OpenEvolve was not handed, read as edits or as a whole program."""
        reader = DiffFormat() if "<<<<<<< SEARCH" in text else RewriteFormat()
        read = reader.answers(self.problem, dataclasses.replace(rollout, text=text), 1, parent)[0]
        return read.program, text, None

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

    def _theirs(self, evolved: Evolved) -> Evaluation:
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
        """Return a tell whose answers are judged: by OpenEvolve, by the judge here, or without a program."""
        self.tells += 1
        judged = []
        for slot, (program, text, theirs) in enumerate(answers):
            status, evaluation, executed = ParseStatus.UNPARSED, None, False
            if program is not None:
                evaluation = self.evaluations.get(program.id)
                status = ParseStatus.PARSED if evaluation is None else ParseStatus.DUPLICATE
                executed = evaluation is None and theirs is None
                if executed:
                    assert self.judge is not None
                    theirs = self.judge.evaluate(program)
                    self.found.judged += 1
                evaluation = evaluation or theirs
                assert evaluation is not None
                self.evaluations[program.id] = evaluation
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
            judged.append(Judged(candidate, evaluation, executed))
        return Tell(prompt.id, rollout, tuple(judged))
