"""Chooses programs of searches to imitate (targets), and makes their prompts in the search's format.

A target is the best program of a run under a random weighting of the rewards, w ~ Dirichlet(alpha). Many
weightings spread the targets over the Pareto front. Prompts show only rows on which the target is right. If a
target is a join (two programs, its sides, combined by a branch), programs for both sides are targets too.
Held-out rows are never read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple

import numpy as np

from evovpo.analysis.grouping import grouped
from evovpo.config import Config, StoreConfig
from evovpo.judging.evaluator import open_evaluator
from evovpo.problem.folder import with_folder_grouping
from evovpo.prompts.request import PromptFormat, PromptRequest, ShownProgram, choose_rows
from evovpo.runs.choices import choose_format
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    Message,
    ParentRole,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Sampling,
    content_id,
)
from trainer.config import TrainConfig
from trainer.learning.packing import TrainingRow
from trainer.objectives import draw_weights

SIDE = "side of a join"
SOURCES = {
    PromptKind.SEED: "imported",
    PromptKind.ROOT: "sampled",
    PromptKind.MUTATE: "mutated",
    PromptKind.CROSSOVER: "crossed",
    PromptKind.REPAIR: "repaired",
    PromptKind.JOIN: "joined",
    PromptKind.SHORTEN: "shortened",
}
"""Source of a program, by the kind of the prompt that made it. Starting programs have no source."""
_PROMPTS_PER_TARGET = 8
_PARENT_SHARE = 1 / 3
_FEWEST_TO_SPLIT = 8
_FEWEST_RIGHT_ROWS = 2


class LeftOutReason(StrEnum):
    """The reason why a program that is best under some weighting is not a target."""

    WRONG = "wrong on validation rows"
    TWICE = "found by another run"
    FEW_ROWS = "right on fewer than two rows"
    UNWRITABLE = "not in the model's language"
    TOO_LONG = "too long for the model"


class FoundProgram(NamedTuple):
    program: Program
    evaluation: Evaluation
    source: str
    """A value of `SOURCES`, or `SIDE`; empty for a starting program of the problem."""
    made_of: tuple[str, ...]
    """Ids of the program's parents; for a join, ids of its two sides."""

    def right(self) -> list[int]:
        """Return the indices of the objectives for which the program has the full reward."""
        return [row for row, reward in enumerate(self.evaluation.rewards or ()) if reward >= 1.0]


class ImitationTarget(NamedTuple):
    run_id: str
    program_id: str
    source: str
    rows: tuple[TrainingRow, ...]
    """One row per prompt: the prompt, and a completion that writes this program."""


class Targets(NamedTuple):
    """The imitation targets of a training, and the number of programs left out for each reason."""

    found: tuple[ImitationTarget, ...]
    left_out: Mapping[LeftOutReason, int]

    def by_source(self) -> dict[str, int]:
        return dict(Counter(target.source for target in self.found))

    def __str__(self) -> str:
        sources = ", ".join(f"{count} {source}" for source, count in self.by_source().items())
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        return f"{len(self.found)} programs to imitate ({sources or 'none'}; left out: {left_out or 'none'})"


def text_row(prompt: Sequence[int], completion: Sequence[int]) -> TrainingRow:
    """Return a prompt and its completion as a training row, with zero log-probabilities and advantages."""
    tokens = len(completion)
    return TrainingRow(tuple(prompt), tuple(completion), (0.0,) * tokens, np.zeros(tokens))


def read_targets(store: Store, run_ids: Sequence[str], config: TrainConfig, tokenizer: Any) -> Targets:
    """Return the imitation targets in stored runs. A program is a target at most once for each problem.

    Raises `SandboxError` if the sandbox fails on validation rows.
    """
    found: list[ImitationTarget] = []
    left_out: Counter[LeftOutReason] = Counter()
    taught: set[tuple[str, str]] = set()
    for run_id in run_ids:
        run = store.run(run_id)
        problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
        held = finds(store, run_id, problem)
        rng = np.random.default_rng([config.run.seed, 2, int(content_id(run_id), 16)])
        chosen = choose(problem, held, config, rng)
        teachable = confirmed(problem, chosen, held, store)
        left_out[LeftOutReason.WRONG] += len(chosen) - sum(find in teachable for find in chosen)
        writer = _Writer(problem, Config.from_json(run.config_json), tokenizer, held)
        for find in teachable:
            is_new = (problem.version, find.program.id) not in taught
            taught.add((problem.version, find.program.id))
            target = writer.target(run_id, find, rng) if is_new else LeftOutReason.TWICE
            if isinstance(target, ImitationTarget):
                found.append(target)
            else:
                left_out[target] += 1
    return Targets(tuple(found), +left_out)


def finds(store: Store, run_id: str, problem: Problem) -> dict[str, FoundProgram]:
    """Return the judged programs of a run by id, in the order in which they were found."""
    own = {seed.id for seed in problem.seeds}
    kinds: dict[str, PromptKind] = {}
    held: dict[str, FoundProgram] = {}
    for event in store.history(run_id):
        if isinstance(event, Prompt):
            kinds[event.id] = event.kind
            continue
        for candidate, evaluation in ((one.candidate, one.evaluation) for one in event.judged):
            program = candidate.program
            if program is None or evaluation is None or evaluation.rewards is None or program.id in held:
                continue
            source = "" if program.id in own else SOURCES[kinds[event.prompt_id]]
            made_of = (p.program_id for p in candidate.parents if p.role is not ParentRole.INSPIRATION)
            held[program.id] = FoundProgram(program, evaluation, source, tuple(made_of))
    return held


def choose(
    problem: Problem, held: Mapping[str, FoundProgram], config: TrainConfig, rng: np.random.Generator
) -> list[FoundProgram]:
    """Return the programs that are best under a random weighting, except starting programs."""
    everything = sorted(held.values(), key=lambda find: len(find.program.source))
    if not everything:
        return []
    vectors = np.array([find.evaluation.rewards for find in everything])
    columns = grouped(problem, vectors) if problem.groups else vectors[:, choosing_rows(problem)]
    weights = draw_weights(columns.shape[1], config.objective, rng)
    best = np.round(columns @ weights.T, 9).argmax(axis=0)
    return [everything[place] for place in sorted(set(best.tolist())) if everything[place].source]


def with_validation(problem: Problem) -> Problem:
    """Return a copy of a problem in which a quarter of the training rows are validation rows.

    Problems with a scorer, grouped objectives, validation rows or fewer than eight training rows are
    unchanged.
    """
    kept = choosing_rows(problem)
    if len(problem.train) < _FEWEST_TO_SPLIT or len(kept) == len(problem.train):
        return problem
    return replace(
        problem,
        version=content_id("without validation rows", problem.version),
        train=tuple(problem.train[row] for row in kept),
        objectives=tuple(problem.objectives[row] for row in kept),
        validation=tuple(row for place, row in enumerate(problem.train) if place not in kept),
    )


def choosing_rows(problem: Problem) -> list[int]:
    """Return the indices of the objectives by which targets are chosen: a random three quarters of all.

    If the problem has a scorer, grouped objectives or validation rows, the result has all objectives.
    """
    rows = list(range(len(problem.objectives)))
    if not problem.is_by_example or problem.validation or problem.groups:
        return rows
    kept = Random(f"validation:{problem.version}").sample(rows, len(rows) - len(rows) // 4)
    return sorted(kept)


def confirmed(
    problem: Problem, chosen: Sequence[FoundProgram], held: Mapping[str, FoundProgram], store: Store
) -> list[FoundProgram]:
    """Return the `chosen` programs that validation rows confirm, and one program per side of each join.

    A program that is right on all `choosing_rows` must be right on every validation row. Any other program
    must be right on at least one, unless there are fewer than two validation rows. A join combines two
    programs, its sides, by a branch. The program for a side is the shortest in `held` that is right on the
    same rows as the side, or more; if this is a starting program, it is left out.
    """
    chooses = choosing_rows(problem)
    unseen: list[list[bool]] = [[] for _ in chosen]
    if problem.validation and chosen:
        config = Config(store=StoreConfig(url=store.name))
        # A stored problem may also name code to run.
        own = replace(problem, heldout=problem.validation, scorer_path=None, evaluator=None)
        with open_evaluator(own, config) as judge:
            unseen = [list(judge.evaluate_heldout(find.program)) for find in chosen]
    kept: dict[str, FoundProgram] = {}
    for find, right_there in zip(chosen, unseen, strict=True):
        right = find.right()
        right_there += [row in right for row in range(len(problem.objectives)) if row not in chooses]
        must = all if set(chooses) <= set(right) else any
        if len(right_there) < (1 if must is all else _FEWEST_RIGHT_ROWS) or must(right_there):
            kept[find.program.id] = find
    joins = [find for find in kept.values() if find.source == SOURCES[PromptKind.JOIN]]
    for side in (held[made_of] for find in joins for made_of in find.made_of):
        # A side may have branches that its rows do not need.
        rights = [find for find in held.values() if set(side.right()) <= set(find.right())]
        plain = min(rights, key=lambda find: len(find.program.source))
        if plain.source:
            kept.setdefault(plain.program.id, plain._replace(source=SIDE))
    return list(kept.values())


class _Writer:
    def __init__(
        self, problem: Problem, config: Config, tokenizer: Any, held: Mapping[str, FoundProgram]
    ) -> None:
        self._problem, self._tokenizer, self._held = problem, tokenizer, held
        self._format: PromptFormat = choose_format(problem, config)
        self._is_chat = config.proposer.name == "openai" and config.proposer.endpoint == "chat"
        self._longest = config.sampling.max_tokens or self._format.reply_tokens

    def target(
        self, run_id: str, find: FoundProgram, rng: np.random.Generator
    ) -> ImitationTarget | LeftOutReason:
        rows = find.right() if self._problem.is_by_example else []
        if self._problem.is_by_example and len(rows) < _FEWEST_RIGHT_ROWS:
            return LeftOutReason.FEW_ROWS
        made = [self._row(find, rows, rng) for _ in range(_PROMPTS_PER_TARGET)]
        if None in made:
            return LeftOutReason.UNWRITABLE
        room = self._tokenizer.model_max_length
        fitting = tuple(
            row
            for row in made
            if row and len(row.completion_ids) <= min(self._longest, room - len(row.prompt_ids))
        )
        return (
            ImitationTarget(run_id, find.program.id, find.source, fitting)
            if fitting
            else LeftOutReason.TOO_LONG
        )

    def _row(self, find: FoundProgram, rows: Sequence[int], rng: np.random.Generator) -> TrainingRow | None:
        problem, made_by = self._problem, self._format
        origins = [self._held[one] for one in find.made_of if one in self._held]
        parents = [one for one in origins if made_by.can_show(problem, one.program, ParentRole.PARENT)]
        parent = None
        if parents and rng.random() < _PARENT_SHARE:
            origin = parents[int(rng.integers(len(parents)))]
            parent = ShownProgram(origin.program, origin.evaluation)
        text = self._text(find.program, None if parent is None else parent.program)
        if not text:
            return None
        shown = choose_rows(len(problem.train), made_by.max_rows, rng, only=rows)
        kind = PromptKind.ROOT if parent is None else PromptKind.MUTATE
        request = PromptRequest(1, kind, parent, rows=shown, draw=int(rng.integers(2**31)))
        completion = list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        end = self._tokenizer.eos_token_id
        completion += [end] * (completion[-1] != end)
        return text_row(self._encode(made_by.messages(problem, request)), completion)

    def _text(self, program: Program, base: Program | None) -> str:
        text = self._format.reply(self._problem, [program], base)
        rollout = Rollout("", "", 0, 0, text, None, None, None, Sampling(), "stop", 0.0)
        (read,) = self._format.answers(self._problem, rollout, 1, base)
        is_same = read.program is not None and read.program.source.strip() == program.source.strip()
        return text if is_same else ""

    def _encode(self, messages: Sequence[Message]) -> list[int]:
        if self._is_chat:
            turns = [{"role": message.role, "content": message.content} for message in messages]
            made = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
            return list(self._tokenizer(made, add_special_tokens=False)["input_ids"])
        return list(self._tokenizer("".join(message.content for message in messages))["input_ids"])
