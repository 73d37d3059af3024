"""Waiting for completions in tasks of asyncio, and of anyio on asyncio."""

from __future__ import annotations

import asyncio

# `typing` would take half of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._anabranch import Completion


def _wake(future: asyncio.Future[None]) -> None:
    # The task may have been cancelled.
    if not future.done():
        future.set_result(None)


async def wait(completion: Completion[Any]) -> Any:
    """The result of a completion. Cancelling the task only stops the wait."""
    loop = asyncio.get_running_loop()
    while True:
        future = loop.create_future()

        def wake(future: asyncio.Future[None] = future) -> None:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:
                # The loop is closed, and nobody waits any more.
                pass

        if completion._poll(wake):
            return completion._result()
        try:
            await future
        finally:
            completion._forget(wake)
