"""Reports of batches and studies: what the page shows of them while they run, and a batch's as files.

A report is a name, how much of it has ended, sentences, and parts in their order: tables, charts, heat maps.
Names of problems, sources and objectives are untrusted text, and stand in values alone, as everywhere here.
"""

import contextlib
import csv
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from evovpo.errors import ConfigError, EvovpoError, StoreError
from evovpo.experiments.batch import Arm, read_batch
from evovpo.experiments.results import CellResult, Results, read_results, verdict
from evovpo.files import write_errors
from evovpo.page.export import document, packed
from evovpo.page.read_api import Record
from evovpo.reports.batch_tables import HeatMap, arm_rows, csv_tables, read_heat_map, short_label
from evovpo.reports.pictures import MOST_BANDS, KCurve
from evovpo.reports.text import counted, reward_text
from evovpo.store import Store

_REST = 50
"""How many times as long as it took to make a report the page rests before it makes it again."""
_ARMS = (
    "Solved: a program has every component at full reward; memorised: that, but not on held-out rows. "
    "Intervals: 95 % bootstrap intervals in which problems and seeds are drawn anew; with one seed they say "
    "nothing of others. They rest on the problems for which every seed of the arm has ended. Only here: "
    "solved by this arm with some seed, and by no other with any."
)
_MAPS = (
    "Below, a row is a reward vector that some program of any run has, the best mean on top. Where two rows "
    "are light in different columns, joining two programs has something to gain."
)


class LiveReport:
    """A report that is made anew while the page is open, and takes at most a fiftieth of the time."""

    def __init__(self, make: Callable[[], Record]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Record = {}
        self.rests_until = 0.0
        """By `time.monotonic`."""

    def record(self) -> Record:
        """Return the report as of a moment ago. Raises StoreError where it cannot be made now."""
        with self._lock:
            began = time.monotonic()
            if began >= self.rests_until:
                try:
                    self._made = self._make()
                except EvovpoError as error:
                    raise StoreError(f"the report cannot be made now: {error}") from error
                self.rests_until = time.monotonic() + _REST * (time.monotonic() - began)
            return self._made


def report(name: str, ended: tuple[int, int], sentences: Sequence[str], parts: Iterable[Record]) -> Record:
    """Return a report as the page reads it."""
    return {"name": name, "ended": list(ended), "sentences": list(sentences), "parts": list(parts)}


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> Record:
    """Return a table of texts; what stands between ** is bold."""
    return {"kind": "table", "title": title, "columns": columns, "rows": list(rows), "note": note}


def chart(title: str, against: str, curves: Sequence[KCurve]) -> Record:
    """Return lines against one axis; few of them have their intervals as bands."""
    series = [
        {
            "name": label,
            "points": [(k, interval.mean) for k, interval in zip(ks, intervals, strict=True)],
            "band": [(k, one.low, one.high) for k, one in zip(ks, intervals, strict=True)]
            if len(curves) <= MOST_BANDS
            else [],
        }
        for label, ks, intervals in curves
    ]
    return {"kind": "chart", "title": title, "against": against, "series": series}


def batch_report(name: str, store_url: str | None, limit: int | None = None) -> Record:
    """Return the report of a batch file or a suite, of what its store holds now."""
    with Store.open(store_url, create=False) as store:
        results = read_results(read_batch(name, limit), store)
        return batch_record(results, _heat_maps(store, results))


def batch_record(results: Results, maps: Iterable[HeatMap]) -> Record:
    """Return the report of a batch."""
    batch, (columns, *rows) = results.batch, arm_rows(results)
    parts = [table("Arms", columns, rows, _ARMS)]
    for name, title in (("solved", "Share of problems solved"), ("best", "Best mean reward so far")):
        curves = [
            KCurve(short_label(one.arm, batch), one.evaluations[1:], getattr(one, name)[1:])
            for one in results.curves
        ]
        parts += [chart(title, "evaluations", curves)] * bool(curves)
    columns = ("problem", *(short_label(arm, batch) for arm in batch.arms))
    parts.append(table("Problems", columns, _problem_rows(results), _MAPS))
    ended = sum(one.is_finished for one in results.cells)
    parts += map(_map_part, maps)
    return report(batch.name, (ended, len(results.cells)), verdict(results), parts)


def write_report(store: Store, results: Results, folder: Path) -> tuple[Path, list[Path]]:
    """Write a page and CSV files into `folder`, made if need be, and return them.

    Raises `ConfigError` if the store has no run of the batch or fewer than the report that stands there, and
    if the files cannot be written.
    """
    begun, before = sum(one.status is not None for one in results.cells), 0
    with contextlib.suppress(OSError), (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        before = sum(bool(row.get("status")) for row in csv.DictReader(file))
    if begun < max(1, before):
        raise ConfigError(
            f"{store.name} has {begun} runs of {results.batch.name}, the report in {folder} {before}; give "
            "the --store that has more, or another --out"
        )
    maps = list(_heat_maps(store, results))
    tables = []
    with write_errors(f"{folder}: the report", "give another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns, rows in csv_tables(results, maps):
            tables.append(folder / name)
            with tables[-1].open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([columns, *rows])
        page = folder / "report.html"
        answers = {"/api/report": {"report": batch_record(results, maps)}}
        page.write_text(document(["report"], [packed(answers)]), encoding="utf-8")
    return page, tables


def _heat_maps(store: Store, results: Results) -> Iterator[HeatMap]:
    return filter(None, (read_heat_map(store, results, problem) for problem in results.problems))


def _problem_rows(results: Results) -> Iterator[list[str]]:
    """Yield of each problem, by arm, in how many seeds it was solved, or else the best mean reward."""
    found: dict[tuple[str, Arm], list[CellResult]] = defaultdict(list)
    for one in results.cells:
        found[one.cell.problem_id, one.cell.arm].append(one)
    for problem in results.problems:
        yield [problem, *(_problem_cell(found[problem, arm]) for arm in results.batch.arms)]


def _problem_cell(found: Sequence[CellResult]) -> str:
    solved = sum(one.solved for one in found)
    best = reward_text(max(one.best_mean_reward for one in found))
    text = f"**solved {solved} of {len(found)}**" if solved else f"best {best}"
    if memorised := sum(one.solved and one.solved_heldout is False for one in found):
        text += f", {memorised} of these memorised"
    return text + ", not ended" * (not all(one.is_finished for one in found))


def _map_part(found: HeatMap) -> Record:
    rows = f"{counted(found.vectors, 'vector')} of {found.judged} different programs"
    if found.vectors > len(found.programs):
        rows = f"the best {len(found.programs)} of {rows}"
    return {
        "kind": "map",
        "title": f"Rewards by component: {found.problem}",
        "components": found.components,
        "rows": [
            {"alike": alike, "values": values}
            for alike, values in zip(found.alike, found.rewards_N_D.tolist(), strict=True)
        ],
        "note": f"{rows[0].upper()}{rows[1:]}.",
        "best": found.programs[0][1],
    }
