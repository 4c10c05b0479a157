"""A checkpoint of OpenEvolve, and the model calls that our client logged for it, as a stored run.

The run is finished (`stopped`) and cannot be replayed: a checkpoint does not hold why OpenEvolve chose what
it showed. Judgements that OpenEvolve made are of low trust and keep to a problem version of their own.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from evovpo.config import StoreConfig
from evovpo.errors import ProblemError
from evovpo.integrations.openevolve import CALLS, HANDED, logged_config, slot_texts
from evovpo.judging.evaluator import Judge, open_evaluator
from evovpo.problem.openevolve.checkpoint import Checkpoint, Evolved, read_checkpoint
from evovpo.problem.openevolve.metrics import learn, read_rewards
from evovpo.prompts import DiffFormat, RewriteFormat
from evovpo.proposers import rollout_id
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
    Run,
    RunStatus,
    Sampling,
    Status,
    Tell,
    Trust,
    content_id,
)

_FEEDBACK_CHARACTERS = 2000


class Imported(NamedTuple):
    """What an import brought in; `evovpo import-openevolve --json` prints these fields."""

    run: str
    is_new: bool
    """False where this checkpoint was imported before: nothing was changed."""
    programs: int
    copies: int
    """Programs left out because migration had copied them."""
    parents_gone: int
    """Programs whose parent is not in the checkpoint."""
    prompts: int
    """Programs with the prompt that they came from."""
    joined: int
    """Of these, with the logged call: token ids and log-probabilities where the server gave them."""
    judged: int
    """Further answers of those calls that were run here, so that groups are complete."""
    unclaimed: int
    """Logged calls that no program of the checkpoint came from."""
    faults: tuple[str, ...]
    """Files that were left out, each with why."""


class _Logged(NamedTuple):
    """One logged call: its ask and its replies."""

    prompt: Prompt
    tells: list[Tell]


def imported_problem(checkpoint: Checkpoint, project: Problem | None) -> Problem:
    """Return the problem that the judgements of a checkpoint are kept under.

    Its metrics and bounds are those of `project`, or learned from the oldest program with numbers. The
    version is one that no search judges under, so that none takes these judgements for its own. Raises
    `ProblemError` if no program has a number.
    """
    if project is not None:
        return dataclasses.replace(project, version=content_id("imported", project.version))
    metrics = next(
        (found for program in checkpoint.programs if (found := learn(dict(program.metrics), {}))), ()
    )
    if not metrics:
        raise ProblemError(f"{checkpoint.folder}: expected a program with numbers as metrics, found none")
    return Problem(
        id=checkpoint.name,
        version=content_id(
            "imported", repr(metrics), checkpoint.suffix, checkpoint.name, checkpoint.programs[0].code
        ),
        statement="A run of OpenEvolve, imported from its checkpoint.",
        entry="",
        parameters=(),
        objectives=tuple(Objective(metric.name) for metric in metrics),
        seeds=(Program(checkpoint.programs[0].code),),
        suffix=checkpoint.suffix,
        evaluator=EvaluatorFolder("evaluator.py", EvaluatorMode.WHOLE, metrics),
    )


def import_checkpoint(
    store: Store, checkpoint: Checkpoint, problem: Problem, judge: Judge | None = None
) -> Imported:
    """Store a checkpoint as a run of `problem` (see `imported_problem`); doing it twice changes nothing.

    Calls that `evovpo.integrations.openevolve` logged in the same store are joined by the answer that
    OpenEvolve was handed. With a `judge` their other answers are run too, and a prompt's whole group is
    stored; without one, only the answer that OpenEvolve judged.
    """
    run_id = content_id(
        "openevolve", problem.version, *(f"{program.id} {program.code}" for program in checkpoint.programs)
    )[:12]
    stored = {row.run: row.status for row in store.runs()}
    is_new = stored.get(run_id) is not RunStatus.STOPPED
    importer = _Importer(run_id, checkpoint, problem, _logged_calls(store), judge if is_new else None)
    events = list(importer.events())
    if is_new:
        store.add_problem(problem)
        if run_id not in stored:
            proposed = sum(event.slots for event in events if isinstance(event, Prompt))
            store.add_run(_run(run_id, checkpoint, problem, store, proposed))
        told = 0
        for event in events:
            if isinstance(event, Prompt):
                store.add_prompt(event)
            else:
                store.add_tell(run_id, event, told)
                told += 1
        store.set_run_status(run_id, RunStatus.STOPPED)
    return importer.result(is_new)


def bring_in(store: Store, folder: Path, named: RunRequest | None = None) -> Imported:
    """Store the checkpoint in `folder`; `named` is its problem, whose evaluator then judges further answers.

    Raises `ProblemError` for a folder that holds none, or of whose programs none has a number.
    """
    checkpoint = read_checkpoint(folder)
    problem = imported_problem(checkpoint, None if named is None else named.problem)
    if named is None:
        return import_checkpoint(store, checkpoint, problem)
    config = named.config.changed(store=StoreConfig(url=store.name))
    with open_evaluator(problem, config) as judge:
        return import_checkpoint(store, checkpoint, problem, judge)


def _run(run_id: str, checkpoint: Checkpoint, problem: Problem, store: Store, proposed: int) -> Run:
    began = datetime.fromtimestamp(checkpoint.programs[0].timestamp, UTC)
    islands = 1 + max(program.island for program in checkpoint.programs)
    return Run(
        id=run_id,
        problem_id=problem.id,
        problem_version=problem.version,
        seed=0,
        evaluations=max(1, proposed),
        config_json=logged_config(store, islands, max(1, proposed)),
        status=RunStatus.RUNNING,
        created_at=began.isoformat(timespec="seconds"),
    )


def _logged_calls(store: Store) -> dict[str, list[_Logged]]:
    """Return the logged calls by the answer that OpenEvolve was handed, in the order of the calls."""
    found: dict[str, list[_Logged]] = {}
    for run in store.runs_in_full():
        if run.problem_id != CALLS.id:
            continue
        calls: dict[str, _Logged] = {}
        for event in store.history(run.id):
            if isinstance(event, Prompt):
                calls[event.id] = _Logged(event, [])
            else:
                calls[event.prompt_id].tells.append(event)
        for call in calls.values():
            for tell in call.tells:
                for judged in tell.judged:
                    if judged.candidate.reason == HANDED:
                        found.setdefault(judged.candidate.text, []).append(call)
    return found


class _Importer:
    """Turns the programs of one checkpoint into asks and tells, counting what it finds."""

    def __init__(
        self,
        run_id: str,
        checkpoint: Checkpoint,
        problem: Problem,
        logged: dict[str, list[_Logged]],
        judge: Judge | None,
    ) -> None:
        self._run_id = run_id
        self._checkpoint = checkpoint
        self._problem = problem
        self._logged = logged
        self._judge = judge
        self._programs: dict[str, Program] = {}
        """By the id that OpenEvolve gave."""
        self._evaluations: dict[str, Evaluation] = {}
        """By our program id: the judgement that was told first."""
        self._tells = 0
        self._sequence = 0
        self._copies = self._gone = self._prompts = self._joined = self._judged = 0

    def result(self, is_new: bool) -> Imported:
        """Return the counts, after all events were taken."""
        return Imported(
            run=self._run_id,
            is_new=is_new,
            programs=len(self._checkpoint.programs) - self._copies,
            copies=self._copies,
            parents_gone=self._gone,
            prompts=self._prompts,
            joined=self._joined,
            judged=self._judged,
            unclaimed=sum(map(len, self._logged.values())),
            faults=self._checkpoint.faults,
        )

    def events(self) -> Iterator[Prompt | Tell]:
        """Yield the asks, each followed by its tells."""
        known: set[str] = set()
        kept: list[Evolved] = []
        for evolved in self._checkpoint.programs:
            program = Program(evolved.code)
            self._programs[evolved.id] = program
            is_copy = program.id in known and (evolved.is_copy or not evolved.iteration)
            self._copies += is_copy
            kept += [] if is_copy else [evolved]
            known.add(program.id)
        seeds = [item for item in kept if not item.iteration and item.parent is None] or kept[:1]
        yield from self._seeds(seeds)
        for evolved in kept:
            if evolved not in seeds:
                yield from self._evolved(evolved)

    def _seeds(self, seeds: Sequence[Evolved]) -> Iterator[Prompt | Tell]:
        programs = tuple(self._programs[seed.id] for seed in seeds)
        prompt = self._ask(PromptKind.SEED, 0, (), None, programs)
        judged = [
            self._slot(prompt, None, slot, program, "", self._theirs(seed))
            for slot, (seed, program) in enumerate(zip(seeds, programs, strict=True))
        ]
        yield prompt
        yield self._told(Tell(prompt.id, None, tuple(judged)))

    def _evolved(self, evolved: Evolved) -> Iterator[Prompt | Tell]:
        program = self._programs[evolved.id]
        parent = self._programs.get(evolved.parent or "")
        self._gone += parent is None
        self._prompts += bool(evolved.messages)
        parents = () if parent is None else (Parent(parent.id, ParentRole.PARENT),)
        calls = self._logged.get(evolved.response)
        call = calls.pop(0) if calls else None
        self._joined += call is not None
        prompt = self._ask(PromptKind.MUTATE, evolved.island, parents, (evolved, call))
        yield prompt
        if call is None:
            rollout = _unlogged(prompt, evolved)
            slot = self._slot(prompt, rollout, 0, program, evolved.response, self._theirs(evolved))
            yield self._told(Tell(prompt.id, rollout, (slot,)))
            return
        for tell in call.tells:
            handed = [item.candidate.slot for item in tell.judged if item.candidate.reason == HANDED]
            assert tell.rollout is not None
            if self._judge is None:
                if handed:
                    rollout = _renamed(tell.rollout, prompt, 0)
                    text = tell.judged[handed[0]].candidate.text
                    slot = self._slot(prompt, rollout, 0, program, text, self._theirs(evolved))
                    yield self._told(Tell(prompt.id, rollout, (slot,)))
                continue
            rollout = _renamed(tell.rollout, prompt, tell.rollout.index)
            slots = []
            texts = slot_texts(rollout.text, call.prompt.answers)
            for number, (text, read) in enumerate(
                zip(texts, self._read(rollout, texts, parent), strict=True)
            ):
                if number in handed:
                    slots.append(self._slot(prompt, rollout, number, program, text, self._theirs(evolved)))
                else:
                    slots.append(self._slot(prompt, rollout, number, read, text, None))
            yield self._told(Tell(prompt.id, rollout, tuple(slots)))

    def _read(self, rollout: Rollout, texts: Sequence[str], parent: Program | None) -> list[Program | None]:
        """Return the programs of a completion's answers, each read as edits or as a whole program."""
        found: list[Program | None] = []
        for text in texts:
            reader = DiffFormat() if "<<<<<<< SEARCH" in text else RewriteFormat()
            alone = dataclasses.replace(rollout, text=text)
            found.append(reader.answers(self._problem, alone, 1, parent)[0].program)
        return found

    def _ask(
        self,
        kind: PromptKind,
        island: int,
        parents: tuple[Parent, ...],
        source: tuple[Evolved, _Logged | None] | None,
        proposals: tuple[Program, ...] = (),
    ) -> Prompt:
        evolved, call = (None, None) if source is None else source
        is_group = call is not None and self._judge is not None
        sequence, self._sequence = self._sequence, self._sequence + 1
        return Prompt(
            id=content_id(self._run_id, str(sequence)),
            run_id=self._run_id,
            sequence=sequence,
            tells_before=self._tells,
            kind=kind,
            island=island,
            parents=parents,
            messages=call.prompt.messages if call else evolved.messages if evolved else (),
            rollouts=call.prompt.rollouts if call and is_group else 1,
            answers=call.prompt.answers if call and is_group else 1,
            seed=call.prompt.seed if call else 0,
            proposals=proposals,
        )

    def _told(self, tell: Tell) -> Tell:
        self._tells += 1
        return tell

    def _theirs(self, evolved: Evolved) -> Evaluation:
        """Return OpenEvolve's own judgement of a program."""
        problem, status = self._problem, evolved.status
        assert problem.evaluator is not None
        reading = read_rewards(problem.evaluator.metrics, dict(evolved.metrics))
        lines = [*(reading.faults if status is Status.OK else (str(status),))]
        lines += [f"{name}: {text}" for name, text in evolved.artifacts]
        return Evaluation(
            program_id=self._programs[evolved.id].id,
            problem_version=problem.version,
            status=status,
            rewards=reading.rewards if status is Status.OK else (0.0,) * len(problem.objectives),
            feedback="\n".join(lines)[:_FEEDBACK_CHARACTERS],
            seconds=0.0,
            isolation="none",
            metrics=evolved.metrics,
            trust=Trust.LOW,
        )

    def _slot(
        self,
        prompt: Prompt,
        rollout: Rollout | None,
        slot: int,
        program: Program | None,
        text: str,
        theirs: Evaluation | None,
    ) -> Judged:
        """Return a judged slot: by OpenEvolve, by the judge here, or without a program."""
        status, executed = ParseStatus.UNPARSED, False
        evaluation = None
        if program is not None:
            evaluation = self._evaluations.get(program.id)
            status = ParseStatus.PARSED if evaluation is None else ParseStatus.DUPLICATE
            if evaluation is None and theirs is None:
                assert self._judge is not None
                theirs = self._judge.evaluate(program)
                executed = True
                self._judged += 1
            evaluation = evaluation or theirs
            assert evaluation is not None
            self._evaluations[program.id] = evaluation
        owner = prompt.id if rollout is None else rollout.id
        candidate = Candidate(
            id=content_id(owner, str(slot)),
            prompt_id=prompt.id,
            rollout_id=None if rollout is None else rollout.id,
            slot=slot,
            parse_status=status,
            program=program,
            token_span=None,
            parents=prompt.parents,
            text=text,
        )
        return Judged(candidate, evaluation, executed)


def _unlogged(prompt: Prompt, evolved: Evolved) -> Rollout:
    """Return the completion as far as a checkpoint has it: its text, and nothing of how it was sampled."""
    return Rollout(
        id=rollout_id(prompt.id, 0),
        prompt_id=prompt.id,
        index=0,
        policy_version=0,
        text=evolved.response,
        token_ids=None,
        logprobs=None,
        prompt_token_ids=None,
        sampling=Sampling(),
        finish_reason="unknown",
        seconds=0.0,
    )


def _renamed(rollout: Rollout, prompt: Prompt, index: int) -> Rollout:
    """Return a logged completion as reply `index` of the imported prompt."""
    return dataclasses.replace(rollout, id=rollout_id(prompt.id, index), prompt_id=prompt.id, index=index)
