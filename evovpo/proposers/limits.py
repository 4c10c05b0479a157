"""Limits on the connections to model servers, on spending, and on refused requests."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from evovpo.config import BudgetConfig, ProposerConfig
from evovpo.errors import BudgetError, ConfigError, EvovpoError, ServerError
from evovpo.types import Prompt

_REFUSED_AT_FIRST, _REFUSED_IN_A_ROW = 3, 20
"""Numbers of consecutive refused prompts that end a run: before the server's first answer, and later."""
_OTHER_FILES = 256


def make_room(connections: int) -> None:
    """Allow this process to open `connections` sockets. Raises `ConfigError` if the system refuses."""
    wanted = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ConfigError(
            f"proposer.concurrency is {connections}, for which a process needs {wanted} open files; it may "
            f"have {hard} here: lower it, or raise the limit (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Spending(NamedTuple):
    tokens: int = 0
    money: float = 0.0


class Budget:
    """The spending limit of each run; `before(run_id)` returns the stored spending of a run."""

    def __init__(
        self, limit: BudgetConfig, before: Callable[[str], Spending] = lambda run_id: Spending()
    ) -> None:
        self.limit = limit
        self.is_limited = bool(limit.tokens or limit.money)
        self._before = before
        self._spent: dict[str, Spending] = {}

    def add(self, run_id: str, tokens: int, money: float | None) -> None:
        if self.is_limited:
            spent = self._so_far(run_id)
            self._spent[run_id] = Spending(spent.tokens + tokens, spent.money + (money or 0.0))

    def check(self, run_id: str) -> None:
        """Raise `BudgetError` if a run has used up its tokens or money."""
        if not self.is_limited:
            return
        spent = self._so_far(run_id)
        tokens, money = self.limit.tokens, self.limit.money
        if tokens is not None and tokens <= spent.tokens:
            raise BudgetError(f"run {run_id} has used {spent.tokens} of {tokens} tokens")
        if money is not None and money <= spent.money:
            raise BudgetError(f"run {run_id} has spent {spent.money:g} of {money:g}")

    def _so_far(self, run_id: str) -> Spending:
        # The stored spending also contains requests to models that judge the run's programs.
        before, own = self._before(run_id), self._spent.get(run_id, Spending())
        return Spending(max(before.tokens, own.tokens), max(before.money, own.money))


@dataclass(eq=False, slots=True)
class PendingPrompt:
    prompt: Prompt
    name: str
    load: Callable[[], Awaitable[None]] | None = None
    is_admitted: bool = False
    """True once the prompt passed the budget check; later requests for the prompt are not checked."""


class Gate:
    """Limits on concurrency and budget, shared by the requests of all models."""

    def __init__(self, settings: ProposerConfig, budget: Budget) -> None:
        make_room(settings.concurrency)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self.budget = budget

    @contextlib.asynccontextmanager
    async def slot(self, ticket: PendingPrompt) -> AsyncIterator[None]:
        """Wait until a request may be sent. Raises `BudgetError` if no budget is left for a new prompt."""
        async with self._slots:
            if not ticket.is_admitted:
                self.budget.check(ticket.prompt.run_id)
                ticket.is_admitted = True
            yield


class RefusedError(ServerError):
    """Error for a request that the server refuses at every attempt; `reason` is stored with the rollout."""

    def __init__(self, reason: str, error: EvovpoError) -> None:
        super().__init__(str(error))
        self.reason = reason
        self.error = error
        """Error to raise instead if the server has not answered any request before."""


class Refusals:
    """Counts refused prompts, to detect a server that refuses every prompt."""

    def __init__(self) -> None:
        self._has_answered = False
        self._in_a_row = 0

    def answered(self) -> None:
        self._has_answered, self._in_a_row = True, 0

    def accept(self, refused: RefusedError) -> None:
        """Count a refused prompt. Raises `ServerError` if too many prompts in a row are refused.

        If the server has never answered a prompt, `refused.error` is raised instead, after fewer refusals.
        """
        self._in_a_row += 1
        if not self._has_answered and self._in_a_row >= _REFUSED_AT_FIRST:
            raise refused.error from refused
        if self._in_a_row >= _REFUSED_IN_A_ROW:
            raise ServerError(
                f"the last {self._in_a_row} prompts were refused, this one with: {refused}; see the server's "
                "log, then resume the run"
            ) from refused
