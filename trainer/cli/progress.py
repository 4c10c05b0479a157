"""Progress bars of the trainer's commands."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evovpo.reports.live import WorkBar

if TYPE_CHECKING:
    from evovpo.runs.driver import Progress as SearchProgress
    from evovpo.runs.stored import Outcome
    from evovpo.types import Problem, TrainingStep
    from trainer.loop.loop import Loop
    from trainer.loop.retrain import RetrainResult
    from trainer.loop.training_plan import TrainingPlan
    from trainer.loop.turns import LoopWatch


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the output of libraries off stdout, where it would break progress bars and JSON output.

    TRL's usage reports are also switched off, unless HF_HUB_DISABLE_TELEMETRY=0 is set.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from transformers.utils import logging

    logging.disable_progress_bar()
    with contextlib.redirect_stdout(sys.stderr):
        yield


class TrainingBar(WorkBar):
    def stepped(self, step: TrainingStep) -> None:
        figures = f"set score {step.set_score:.3f}  KL {step.kl:.4f}  entropy {step.entropy:.3f}"
        self._bars.update(self._work, advance=1, figures=figures)

    def guarded(self, done: int, total: int) -> None:
        self.show("comparing with the parent", done, total)


class LoopBar(TrainingBar):
    """Progress bar of `evovpo loop`. When a search or training ends, a line is printed."""

    def __init__(self, plan: Loop, rounds: int) -> None:
        super().__init__()
        self._plan, self._rounds, self._name, self._begun = plan, rounds, "", 0

    def watch(self) -> LoopWatch:
        from trainer.loop.turns import LoopWatch

        return LoopWatch(
            searching=self._searching,
            told=self._told,
            searched=self._searched,
            planned=self._planned,
            stepped=self.stepped,
            probed=self.guarded,
            trained=self._trained,
            not_trained=lambda reason: self.line(f"not trained: {reason}"),
            measured=lambda name, done, total: self.show(f"before and after: {name}", done, total),
        )

    def _searching(self, round_number: int, index: int, problem: Problem) -> None:
        self._name, self._begun = f"round {round_number}/{self._rounds}, searches", index
        self.show(self._name, index, len(self._plan.searched), problem.id)

    def _told(self, progress: SearchProgress) -> None:
        search, best = progress.search.standing, progress.search.standing.best
        done = f"{search.problem.id}: {search.proposed} of {search.config.evaluations} evaluations"
        found = "" if best is None else f"best mean reward {best.evaluation.mean_reward:.2f}"
        figures = ", ".join(filter(None, (done, found, progress.waits)))
        self.show(self._name, self._begun, len(self._plan.searched), figures)

    def _searched(self, outcome: Outcome) -> None:
        solved = "solved" if outcome.solved else f"best mean reward {outcome.best_mean_reward:.2f}"
        said = f"{solved} after {outcome.evaluations} evaluations, {outcome.seconds:.0f} s"
        problem = self._plan.problem_of(outcome.run)  # several searches may run at once
        self.line(f"{problem.id}: {said}")

    def _planned(self, plan: TrainingPlan, done: int) -> None:
        from trainer.reports.training import plan_line

        self.line(f"training: {plan_line(plan)}")
        self.show("training", done, len(plan.steps))

    def _trained(self, result: RetrainResult) -> None:
        verdict = result.probe.get("verdict") if isinstance(result.probe, dict) else None
        reason = f", {verdict['reason']}" if isinstance(verdict, dict) else ""
        self.line(f"policy version {result.policy_version}: {result.steps} steps{reason}")
