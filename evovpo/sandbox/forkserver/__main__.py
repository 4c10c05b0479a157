"""Starts one of the stand-alone programs; run by path, because importing evovpo is what it must not do."""

import importlib
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
main = importlib.import_module(f"forkserver.{sys.argv[1]}").main
del sys.path[0]
main(sys.argv[2:])
