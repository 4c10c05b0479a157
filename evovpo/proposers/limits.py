"""How fast a server may be asked, and how much may be spent on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from evovpo.errors import BudgetError


class Spent(NamedTuple):
    """What requests took so far."""

    tokens: int = 0
    """Of prompts and replies."""
    money: float = 0.0

    def plus(self, tokens: int | None, money: float | None) -> Spent:
        """Return the sum; none counts as nothing."""
        return Spent(self.tokens + (tokens or 0), self.money + (money or 0.0))


class Budget:
    """What the requests of each run may spend; 0 is no limit.

    `before` returns what a run spent in earlier processes.
    """

    def __init__(self, limit: Spent, before: Callable[[str], Spent] = lambda run_id: Spent()) -> None:
        self.limit = limit
        self._before = before
        self._spent: dict[str, Spent] = {}

    @property
    def is_limited(self) -> bool:
        """True if there is anything to count."""
        return self.limit != Spent()

    def spent(self, run_id: str) -> Spent:
        """Return what a run spent so far."""
        if run_id not in self._spent:
            self._spent[run_id] = self._before(run_id)
        return self._spent[run_id]

    def add(self, run_id: str, tokens: int | None, money: float | None) -> None:
        """Take note of what a request took."""
        if self.is_limited:
            self._spent[run_id] = self.spent(run_id).plus(tokens, money)

    def check(self, run_id: str) -> None:
        """Raise `BudgetError` if a run has used its tokens or its money."""
        if not self.is_limited:
            return
        spent = self.spent(run_id)
        if 0 < self.limit.tokens <= spent.tokens:
            raise BudgetError(
                f"run {run_id} has used {spent.tokens} of {self.limit.tokens} tokens; to go on, start "
                "another run with a larger budget.tokens"
            )
        if 0 < self.limit.money <= spent.money:
            raise BudgetError(
                f"run {run_id} has spent {spent.money:g} of {self.limit.money:g}; to go on, start another "
                "run with a larger budget.money"
            )


class Bucket:
    """At most `per_minute` units a minute, in the long run and, but for one burst, in every minute.

    The burst is what `burst_seconds` bring, or one unit if that is more. 0 is no limit. A larger amount than
    the burst is let through when the bucket is full, and the debt is waited off by those who come after.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        burst_seconds: float = 1.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rate = per_minute / 60
        self._burst = max(self._rate * burst_seconds, 1.0)
        self._level = self._burst
        self._now, self._sleep = now, sleep
        self._at = now()
        self._turn = asyncio.Lock()

    async def take(self, amount: float = 1.0) -> None:
        """Wait, in the order of the calls, until the amount may be used."""
        if not self._rate:
            return
        async with self._turn:
            while True:
                now = self._now()
                self._level = min(self._level + (now - self._at) * self._rate, self._burst)
                self._at = now
                missing = min(amount, self._burst) - self._level
                if missing <= 1e-9:
                    break
                await self._sleep(missing / self._rate)
            self._level -= amount

    def give_back(self, amount: float) -> None:
        """Return what was taken and not used; a negative amount takes more, without waiting."""
        if self._rate:
            self._level += amount
