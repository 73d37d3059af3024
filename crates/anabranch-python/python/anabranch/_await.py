"""Waiting for completions in tasks of asyncio and of trio, and so of anyio."""

from __future__ import annotations

import asyncio
import sys

# `typing` would take half of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._anabranch import Completion


def _wake(future: asyncio.Future[None]) -> None:
    # The task may have been cancelled.
    if not future.done():
        future.set_result(None)


def _running_trio() -> Any:
    """The module `trio`, if one of its tasks is running."""
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        # A task of asyncio may run inside of trio. Inside of asyncio, trio runs outside of its tasks.
        if asyncio.current_task() is not None:
            return None
    except RuntimeError:
        pass
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return None
    return trio


async def wait(completion: Completion[Any]) -> Any:
    """The result of a completion. Cancelling the task only stops the wait."""
    trio = _running_trio()
    if trio is not None:
        return await _wait_in_trio(trio, completion)
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


async def _wait_in_trio(trio: Any, completion: Completion[Any]) -> Any:
    token = trio.lowlevel.current_trio_token()
    # Other tasks run, and the task can be cancelled, whether or not the work is complete.
    await trio.lowlevel.checkpoint()
    while True:
        ready = trio.Event()

        def wake(ready: Any = ready) -> None:
            try:
                token.run_sync_soon(ready.set)
            except trio.RunFinishedError:
                # Nobody waits any more.
                pass

        if completion._poll(wake):
            return completion._result()
        try:
            await ready.wait()
        finally:
            completion._forget(wake)
