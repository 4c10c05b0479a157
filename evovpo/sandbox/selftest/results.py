"""Attacks on the reader of results: floods, what is no JSON, and forgeries."""

RESULTS = r"""
# prints 1 GB -> ok
import os
def f(x):
    written = 0
    for _ in range(1024):
        try: written += os.write(1, b'x' * (1 << 20))
        except OSError: pass
    return [] if written <= 2 << 20 else [written]
# returns 64 MB -> output_limit or memory
def f(x): return 'x' * (64 << 20)
# nests 100,000 lists -> bad_output
def f(x):
    o = []
    for _ in range(100000): o = [o]
    return o
# NaN -> bad_output
def f(x): return float('nan')
# integer of 4,000 digits -> bad_output
def f(x): return 10 ** 4000
# half a surrogate pair -> bad_output
def f(x): return '\ud800'
# object equal to everything -> bad_output
class E:
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 0
def f(x): return E()
# verdict to every descriptor -> bad_output
import os
def f(x):
    for fd in range(64):
        try: os.write(fd, b'R{"score": 1, "status": "ok"}\n')
        except OSError: pass
    os._exit(0)
# patches json and builtins -> ok or bad_output
import json, builtins
json.dumps = json.JSONEncoder.encode = lambda *a, **k: '{"done": true}'
builtins.abs = lambda *a: 0
def f(x): return []
"""
RAW = {
    "nesting, raw": "b'[' * 500000",
    "1e999, raw": r"""b'{"i": 0, "out": 1e999}\n{"done": true}\n'""",
    "a million digits, raw": r"""b'{"i": 0, "out":' + b'9' * 900000 + b'}\n{"done": true}\n'""",
    "half a surrogate pair, raw": r"""b'{"i": 0, "out": "\\ud800"}\n{"done": true}\n'""",
    "a case that is not there": r"""b'{"i": 7, "out": 1}\n{"done": true}\n'""",
    "verdict instead of result": r"""b'{"status": "ok", "rewards": [1]}\n'""",
    "pickle": "pickle.dumps(P())",
}
"""What attacks write to the result file, whose number they know."""
WRITING = """
# {} -> bad_output
import os, pickle
class P:
    def __reduce__(self): return os.system, ('true',)
def f(x):
    os.write(4, {})
    os._exit(0)
"""
RESULTS += "".join(WRITING.format(name, data) for name, data in RAW.items())
