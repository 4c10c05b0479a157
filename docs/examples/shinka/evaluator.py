"""The evaluator for a task of ShinkaEvolve: copy it beside the task's evaluate.py."""

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

from evaluate import main


def evaluate(program_path: str) -> SimpleNamespace:
    """Return the numbers that evaluate.py writes for a program, and its feedback; incorrect programs fail."""
    with tempfile.TemporaryDirectory() as folder:
        main(program_path, folder)
        correct, metrics = (
            json.loads(Path(folder, name).read_text()) for name in ("correct.json", "metrics.json")
        )
    if not correct["correct"]:
        raise ValueError(correct["error"] or "the program is not correct")
    numbers = {"combined_score": metrics["combined_score"], **metrics.get("public", {})}
    return SimpleNamespace(metrics=numbers, artifacts={"feedback": metrics.get("text_feedback", "")})
