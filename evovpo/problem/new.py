"""Makes a new problem folder, which works as it is: a copy of one of those in `starters`."""

import shutil
from pathlib import Path
from typing import Literal

from evovpo.errors import ProblemError, nearest_hint

_STARTERS = Path(__file__).parent / "starters"


def new_problem(folder: Path | str, kind: Literal["examples", "score"] = "examples") -> Path:
    """Write a working problem to start from into `folder` and return its path.

    The folder is made if it is missing. Raises `ProblemError`, having written nothing, if it holds
    anything already or cannot be made.
    """
    path, kinds = Path(folder), sorted(starter.name for starter in _STARTERS.iterdir())
    if kind not in kinds:
        raise ProblemError(f"kind of problem: found {kind!r}; {nearest_hint(kind, kinds)}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ProblemError(
                f"{path}: expected a new or empty folder, found files in it; choose another name"
            )
        for file in (_STARTERS / kind).glob("*.*"):
            shutil.copyfile(file, path / file.name)
    except OSError as error:
        raise ProblemError(
            f"{path}: the folder cannot be written: {error.strerror}; choose another place"
        ) from error
    return path
