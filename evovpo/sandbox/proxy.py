"""Runs an evaluator whose candidate is in another process: it calls the candidate's functions from afar.

The evaluator gets, at the program's path, a stub with functions of the same names. What passes between
the two is JSON and arrays of numbers; so a candidate cannot reach the evaluator, and the score is the
evaluator's own. Not for evaluators that read the program's text, start it themselves, or want its
classes or constants.
"""

import ast
import dataclasses
import socket

from evovpo.errors import ConfigError
from evovpo.sandbox.evaluators import WholeJob, WholeSandbox, check_job
from evovpo.sandbox.forkserver import calls
from evovpo.sandbox.result import WholeResult
from evovpo.sandbox.watched import EvaluatorServer
from evovpo.types import Limits, Status

START_SECONDS = 60.0
"""Added to a candidate's wall-clock limit: it waits while the evaluator starts, whose limit ends both."""


class ProxySandbox(WholeSandbox):
    """As `WholeSandbox`, with the candidate alone in a process of its own; the result can be trusted.

    The candidate's process is that of `Sandbox`: it reads only Python and writes nothing. The evaluator's
    is that of `WholeSandbox`, and what is opened is opened for it alone. Each has the limits for itself.
    """

    _has_candidates = True

    def run(self, job: WholeJob, limits: Limits = Limits()) -> WholeResult:  # noqa: B008  # frozen
        """Return what the evaluator says of the candidate.

        What the evaluator returned stands, even if the candidate ended in between. Where it raised, the
        status is how the candidate ended, if not well, and else `error`. Raises as `WholeSandbox.run`,
        and `ConfigError` for a program of several files or none.
        """
        check_job(job, self._folder)
        if len(job.files) != 1 or not job.entry:
            raise ConfigError(
                f"proxy mode takes programs of one file, found {len(job.files)}"
                f"{'' if job.entry else ' and no entry'}; set the evaluator's mode to whole"
            )
        code = job.files[job.entry]
        try:
            stub = stub_of(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            detail = f"{type(error).__name__}: {error}"
            return WholeResult(Status.ERROR, detail=detail, isolation=self.level)
        stubbed = dataclasses.replace(job, files={job.entry: stub})
        return self.try_free(lambda server: self._attempt_both(server, code, stubbed, limits), self._failure)

    def _attempt_both(self, server: EvaluatorServer, code: str, job: WholeJob, limits: Limits) -> WholeResult:
        candidates = dataclasses.replace(limits, wall_seconds=limits.wall_seconds + START_SECONDS)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                server.candidate.serve(code, candidates, theirs)
            try:
                result = self._attempt(server, job, limits, ours)
            finally:
                candidate = server.candidate.finish(limits)
        log = f"{result.log}{candidate.log}"[: limits.log_bytes]
        result = dataclasses.replace(result, log=log, cpu_ms=result.cpu_ms + candidate.cpu_ms)
        is_evaluators_word = result.status in (Status.OK, Status.SANDBOX_ERROR)
        if candidate.status is Status.OK or (
            is_evaluators_word and candidate.status is not Status.SANDBOX_ERROR
        ):
            return result
        detail = f"the candidate: {candidate.detail}\n{result.detail}".strip()
        return dataclasses.replace(result, status=candidate.status, detail=detail)


def stub_of(code: str) -> str:
    """Return the text of a module that has the top-level functions of `code` and calls it for each.

    Raises SyntaxError where `code` is not Python, and ValueError where it defines no such function.
    """
    found = [node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    names = [name for name in dict.fromkeys(found) if not name.startswith("__")]
    if not names:
        raise ValueError("the program defines no function at its top level, and proxy mode offers no more")
    functions = "".join(
        f"def {name}(*arguments, **keywords):\n    return _calls.call({name!r}, arguments, keywords)\n\n\n"
        for name in names
    )
    return f'''"""Stands for a candidate in another process: its functions, for JSON and arrays of numbers."""

import {calls.MODULE} as _calls

_calls.connect()


{functions}def __getattr__(name):
    raise AttributeError(
        f"the candidate is in another process, which offers only functions; {{name!r}} is none: "
        "set the evaluator's mode to whole"
    )
'''
