"""An interrupt in a notebook, whose main thread runs an event loop, stops a search that can be resumed."""

import subprocess
import sys
from pathlib import Path

CELL = '''
import _thread
import asyncio
import threading
import time

import evovpo

STORE = "x.db"
ROWS = [((text,), text.upper()) for text in ("ab", "cd", "ef")]
calls = 0


def propose(messages, n):
    """Interrupt the main thread at the third call, as the button of a notebook does, and never answer it."""
    global calls
    calls += 1
    if calls == 3:
        _thread.interrupt_main()
        time.sleep(10_000)
    return [f"```python\\ndef solve(x):\\n    return x + '{calls}'\\n```"] * n


async def cell():
    settings = {"search.rollouts": 4}
    evovpo.evolve(examples=ROWS, proposer=propose, evaluations=1_000_000, store=STORE, settings=settings)


loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(cell())
except KeyboardInterrupt as stopped:
    print(str(stopped).replace(evovpo.list_runs(STORE)[0].run, "RUN"))
finally:
    loop.close()
[row] = evovpo.list_runs(STORE)
print(row.status, [thread.name for thread in threading.enumerate() if not thread.daemon])
right = "```python\\ndef solve(x):\\n    return x.upper()\\n```"
more = row.evaluations + 1  # fewer than with the prompt under way
print(evovpo.resume(proposer=lambda messages, n: [right] * n, store=STORE, evaluations=more).ending)
'''


def test_an_interrupt_stops_a_search_that_can_be_resumed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CELL], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.stdout.splitlines() == [
        "stopped; to continue: evovpo.resume('RUN', store='sqlite:///x.db'), with the same proposer, score "
        "and inputs, if any",
        "interrupted ['MainThread']",
        "solved",
    ], done.stderr
    assert done.stderr == ""
