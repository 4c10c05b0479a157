"""Starts `server` or `watcher`, as the first argument says. Run by path to avoid importing evovpo."""

import importlib
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
main = importlib.import_module(f"forkserver.{sys.argv[1]}").main
del sys.path[0]
main(sys.argv[2:])
