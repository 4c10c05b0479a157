"""Starts the fork-server; run by path, because importing evovpo is what it must not do."""

import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from forkserver import server  # type: ignore[import-not-found]  # found by the line above

del sys.path[0]
server.main(sys.argv[1:])
