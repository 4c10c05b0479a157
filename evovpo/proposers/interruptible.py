"""Waiting that an interrupt ends at once, also during a blocking call."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Like `asyncio.run`, but the loop notices exceptions set in its thread within half a second."""

    async def watched() -> _T:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_later(0.5, wake)

        wake()
        return await work

    return asyncio.run(watched())


async def in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """Like `asyncio.to_thread`, but after an interrupt nothing waits for the end of the call."""
    future = Future[tuple[Any, BaseException | None]]()
    future.set_running_or_notify_cancel()

    def call() -> None:
        try:
            future.set_result((function(*arguments), None))
        except BaseException as error:
            future.set_result((None, error))  # asyncio may replace it

    threading.Thread(target=call, daemon=True).start()
    result, error = await asyncio.wrap_future(future)
    if error is not None:
        raise error
    value: _T = result
    return value
