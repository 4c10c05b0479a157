"""The best program of a run, which can be called, also on the rows of a table."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evovpo.api.frames import frame_rows, is_frame, plain
from evovpo.api.interrupts import short_errors
from evovpo.api.notebook import program_html
from evovpo.errors import ProblemError
from evovpo.problem.importers.tables import parameter_names, texts_of, unlike_examples
from evovpo.runs.apply import run_rows
from evovpo.runs.stored import RunView, to_run
from evovpo.store import Store
from evovpo.types import Json, Program


@dataclass(frozen=True)
class Best:
    """The best program of a run; `id` and `source` are empty if none was judged."""

    id: str
    source: str
    rewards: dict[str, float] = field(repr=False)
    """Component -> reward in [0, 1], scaled where the evaluator's number is no reward (see `metrics`)."""
    mean_reward: float
    metrics: dict[str, Json]
    """Raw metrics, if the evaluator returns any."""
    entry: str
    """Name of the function that the program defines; empty if an OpenEvolve evaluator runs the program."""
    _view: RunView = field(repr=False, compare=False)
    _store: str = field(repr=False, compare=False)

    @short_errors
    def __call__(self, *arguments: Any, **named: Any) -> Json:
        """Run the program in the sandbox, and return its output. Values are converted as in a DataFrame.

        Raises `ProblemError` if the program fails, is not a function, or has other parameters.
        """
        values = self._arguments(arguments, named)
        [(output, error)] = self._run([values], workers=1)
        if error is not None:
            raise ProblemError(f"{self.entry}({', '.join(map(repr, values))}): {error}")
        return output

    @short_errors
    def apply(self, rows: Any) -> list[Json]:
        """Run the program on each row in one sandbox, and return the outputs in order.

        `rows` is a list of argument tuples (bare values if there is one argument) or dictionaries, or a
        DataFrame with a column for each parameter, found by name. The output is None where the program fails.
        Warnings count such rows and rows like no example, and say if the program is wrong on examples.
        Raises `ProblemError` if the program is not a function, or if arguments or columns are missing.
        """
        outcome = self._view.outcome(0.0)
        if self._view.problem.is_by_example and not outcome.is_right:
            right = f"{outcome.train_passed} of {outcome.train_total} training"
            if outcome.heldout_total:
                right += f" and {outcome.heldout_passed} of {outcome.heldout_total} held-out"
            warnings.warn(f"{self.entry} is right on {right} rows: do not trust all outputs", stacklevel=3)
        if isinstance(rows, str | Mapping):
            raise ProblemError(f"rows: expected a list or DataFrame of rows, found {rows!r:.80}")
        if hasattr(rows, "to_list"):  # a Series
            rows = rows.to_list()
        if is_frame(rows):
            table, columns = frame_rows(rows, "rows"), parameter_names(map(str, rows.columns)).items()
            wanted = self._view.problem.parameters
            used = [(name, column) for name, column in columns if name in wanted]
            if len(used) < len(wanted):
                names = ", ".join(map(str, rows.columns))
                raise ProblemError(f"rows: expected columns for {', '.join(wanted)}, found {names}; add them")
            listed = [self._arguments((), {name: row[column] for name, column in used}) for row in table]
        else:
            listed = [
                self._arguments((), row)
                if isinstance(row, dict)
                else self._arguments(row if isinstance(row, list) else [row], {})
                for row in map(plain, rows)
            ]
        is_trusted = self._view.problem.is_by_example and outcome.is_right
        if is_trusted and (new := [*filter(None, unlike_examples(self._view.problem, listed))]):
            said = f"{len(new)} of {len(listed)} rows are like no example, the first: {new[0]:.100}"
            warnings.warn(f"{said}; check their outputs, or give examples of such rows", stacklevel=3)
        found = self._run(listed)
        errors = [error for _, error in found if error is not None]
        if errors:
            said = f"{self.entry} failed on {len(errors)} of {len(found)} rows, the first: {errors[0]}"
            warnings.warn(f"{said}; their outputs are None", stacklevel=3)
        return [output for output, _ in found]

    def _run(self, rows: list[list[Json]], **sandbox: Any) -> list[tuple[Json, str | None]]:
        problem, config = to_run(self._view, self._store)
        config = config.changed(sandbox=sandbox)
        return run_rows(problem, Program(self.source), config, rows, lambda count: None)

    def _arguments(self, given: Any, named: Mapping[str, Any]) -> list[Json]:
        if not self.entry or self._view.problem.evaluator is not None:
            raise ProblemError("the best program is no function: its evaluator runs it; save best.source")
        texts, found = texts_of(self._view.problem), given if isinstance(given, list | tuple) else ()
        values = {**dict(zip(texts, found, strict=False)), **named}
        if values.keys() != texts.keys() or len(found) + len(named) != len(texts):
            seen = f"the names {', '.join(named)}" if named else f"{given!r:.80}"
            raise ProblemError(
                f"{self.entry}: expected values for {', '.join(texts)}, found {seen}; give each"
            )
        return [plain(values[name], "" if is_text else None) for name, is_text in texts.items()]

    def _repr_html_(self) -> str:
        return program_html(self.source, self.metrics or self.rewards)


def best_of(view: RunView, store: Store) -> Best:
    judged, program, names = view.evaluation, view.best, [one.name for one in view.problem.objectives]
    rewards = dict(zip(names, (judged and judged.rewards) or (0.0,) * len(names), strict=True))
    mean_reward, metrics = (judged.mean_reward, dict(judged.metrics or ())) if judged else (0.0, {})
    known = (program.id, program.source) if program else ("", "")
    return Best(*known, rewards, mean_reward, metrics, view.problem.entry, view, store.name)
