"""Starts the fork-server; run by path, because importing evovpo is what it must not do."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from forkserver import server  # type: ignore[import-not-found]  # noqa: E402  # found by the line above

del sys.path[0]
server.main(sys.argv[1:])
