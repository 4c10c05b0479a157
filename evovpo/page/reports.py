"""Reports for the page. A report has a name, progress, sentences, and parts such as tables and charts."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from evovpo.errors import EvovpoError, StoreError
from evovpo.page.read_api import Record
from evovpo.reports.pictures import MOST_BANDS, KCurve

_REST = 50


class LiveReport:
    """A report that the function `make` computes again from time to time while the page is open."""

    def __init__(self, make: Callable[[], Record]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Record = {}
        self.rests_until = 0.0
        """Earliest time of the next update, in `time.monotonic`."""

    def record(self) -> Record:
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
    """Return a report as JSON for the page. `ended` is (number of ended runs, number of all runs)."""
    return {"name": name, "ended": list(ended), "sentences": list(sentences), "parts": list(parts)}


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> Record:
    return {"kind": "table", "title": title, "columns": columns, "rows": list(rows), "note": note}


def chart(title: str, against: str, curves: Sequence[KCurve]) -> Record:
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
