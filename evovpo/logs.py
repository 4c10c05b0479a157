"""Logs on standard error as JSON lines, for log collectors."""

import io
import json
import logging
import os
import re
import sys
from datetime import UTC, datetime

VARIABLE = "EVOVPO_LOG_JSON"
"""Set to 1 in the environment: this process writes JSON, and so do those that it starts."""
_log = logging.getLogger("evovpo")


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the object of one message."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, object] = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        said |= {"process": record.process, "message": record.getMessage()}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


class _Lines(io.TextIOBase):
    """Turns every line written to the stream into a log message."""

    _begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = re.split(r"[\r\n]", self._begun + text)
        for line in filter(str.strip, lines):
            _log.log(logging.ERROR if line.startswith("error:") else logging.INFO, "%s", line.rstrip())
        return len(text)


def as_json() -> None:
    """Write what goes to standard error from now on as objects: time, level, logger, process, message.

    Doing it twice changes nothing.
    """
    os.environ[VARIABLE] = "1"
    if isinstance(sys.stderr, _Lines):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_AsJson())
    logging.getLogger().addHandler(handler)
    _log.setLevel(logging.INFO)
    sys.stderr = _Lines()


def as_parent() -> None:
    """Do as the process that started this one does."""
    if os.environ.get(VARIABLE) == "1":
        as_json()
