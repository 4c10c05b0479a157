"""HTML of a run for notebooks: the best program, its rewards, and the progress curve."""

from collections.abc import Mapping, Sequence
from html import escape

from evovpo.analysis.scores import combined_curve
from evovpo.runs.stored import Outcome, RunView
from evovpo.types import RunStatus

_WIDTH, _HEIGHT = 360, 90
_MOST_BARS = 24


def ending(outcome: Outcome) -> str:
    """Return how a run ended: its status, and the result of its best program on held-out rows."""
    status = "not solved" if outcome.status == RunStatus.EXHAUSTED else outcome.status
    passed, total = outcome.heldout_passed, outcome.heldout_total
    return f"{status}, right on {passed} of {total} held-out rows" if total else status


def program_html(source: str, numbers: Mapping[str, object]) -> str:
    shown = sorted(numbers.items(), key=lambda item: item[1] == 1.0)[:_MOST_BARS]
    cells = (f"<tr><td>{escape(name)}</td><td>{escape(_number(value))}</td></tr>" for name, value in shown)
    more = f"<tr><td>and {len(numbers) - _MOST_BARS} more</td></tr>" * (len(numbers) > _MOST_BARS)
    return f"<pre style='font-family: monospace'>{escape(source)}</pre><table>{''.join(cells)}{more}</table>"


def curve_of(view: RunView) -> tuple[tuple[int, float], ...]:
    """Return (evaluations, best score so far) for each improvement, and for the end of the run."""
    means = [(point.evaluations, point.best_mean_reward) for point in view.summary.curve]
    scores = [(point.evaluations, point.combined or 0.0) for point in combined_curve(view.scores)]
    scores += [(view.summary.proposed, score) for _, score in scores[-1:]]
    return tuple(scores or means)


def curve_html(curve: Sequence[tuple[int, float]], name: str) -> str:
    """Return an SVG curve of the best score over evaluations, or an empty text for fewer than two points."""
    if len(curve) < 2:
        return ""
    last, low, high = max(x for x, _ in curve) or 1, min(y for _, y in curve), max(y for _, y in curve)
    span = (high - low) or 1.0
    places = [(x * _WIDTH / last, _HEIGHT * (1 - (y - low) / span)) for x, y in curve]
    steps = " ".join(f"H{x:.1f} V{y:.1f}" for x, y in places[1:])
    first = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    label = f"best {name}, {_number(low)} to {_number(high)} in {last} evaluations"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT + 4}" viewBox="-2 -2 {_WIDTH + 4} {_HEIGHT + 4}" role="img">'
        f'<title>{escape(label)}</title><path d="{first} {steps}" fill="none" stroke="#1f5fa8"/>'
        f"</svg><div>{escape(label)}</div>"
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
