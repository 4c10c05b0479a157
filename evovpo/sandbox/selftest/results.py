"""Attacks on the reader of results: floods, what is no JSON, and forgeries."""

from evovpo.sandbox.selftest.attack import Attack, attack
from evovpo.types import Status


def output() -> list[Attack]:
    """Return programs that write without end."""
    return [
        attack(
            "prints 1 GB",
            """
            import os
            def f(x):
                written = 0
                for _ in range(1024):
                    try: written += os.write(1, b'x' * (1 << 20))
                    except OSError: pass
                return [] if written <= 2 << 20 else [written]
            """,
        ),
        attack("returns 64 MB", "def f(x): return 'x' * (64 << 20)", Status.OUTPUT_LIMIT, Status.MEMORY),
        attack(
            "nests 100,000 lists",
            "def f(x):\n    o = []\n    for _ in range(100000): o = [o]\n    return o",
            Status.BAD_OUTPUT,
        ),
    ]


def results() -> list[Attack]:
    """Return attacks on the reader of results; those that write bytes know the result file's number."""
    raw = {
        "nesting, raw": "b'[' * 500000",
        "1e999, raw": """b'{"i": 0, "out": 1e999}\\n{"done": true}\\n'""",
        "a million digits, raw": """b'{"i": 0, "out":' + b'9' * 900000 + b'}\\n{"done": true}\\n'""",
        "half a surrogate pair, raw": """b'{"i": 0, "out": "\\\\ud800"}\\n{"done": true}\\n'""",
        "a case that is not there": """b'{"i": 7, "out": 1}\\n{"done": true}\\n'""",
        "verdict instead of result": """b'{"status": "ok", "rewards": [1]}\\n'""",
        "pickle": "pickle.dumps(P())",
    }
    return [
        *(
            attack(
                name,
                f"""
                import os, pickle
                class P:
                    def __reduce__(self): return os.system, ('true',)
                def f(x):
                    os.write(4, {data})
                    os._exit(0)
                """,
                Status.BAD_OUTPUT,
            )
            for name, data in raw.items()
        ),
        attack("NaN", "def f(x): return float('nan')", Status.BAD_OUTPUT),
        attack("integer of 4,000 digits", "def f(x): return 10 ** 4000", Status.BAD_OUTPUT),
        attack("half a surrogate pair", "def f(x): return '\\ud800'", Status.BAD_OUTPUT),
        attack(
            "object equal to everything",
            """
            class E:
                __eq__ = lambda self, other: True
                __hash__ = lambda self: 0
            def f(x): return E()
            """,
            Status.BAD_OUTPUT,
        ),
        attack(
            "verdict to every descriptor",
            """
            import os
            def f(x):
                for fd in range(64):
                    try: os.write(fd, b'R{"score": 1, "status": "ok"}\\n')
                    except OSError: pass
                os._exit(0)
            """,
            Status.BAD_OUTPUT,
        ),
        attack(
            "patches json and builtins",
            """
            import json, builtins
            json.dumps = json.JSONEncoder.encode = lambda *a, **k: '{"done": true}'
            builtins.abs = lambda *a: 0
            def f(x): return []
            """,
            Status.OK,
            Status.BAD_OUTPUT,
        ),
    ]
