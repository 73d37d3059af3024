"""Completion of work in tasks of trio."""

from __future__ import annotations

import asyncio

import pytest

import anabranch

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")


def test_streams_and_events(stream, gate):
    done = []

    async def wait(awaitable):
        done.append(await awaitable)

    async def main():
        gate.hold(stream)
        event, completion = stream.record(), stream.completed()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, event.completed())
            nursery.start_soon(wait, completion)
            nursery.start_soon(wait, event)
            await trio.testing.wait_all_tasks_blocked()
            assert not done
            gate.open()
        assert done == [None, None, None] and stream.query()

    trio.run(main)


def test_uploads_downloads_and_graphs(stream):
    async def main():
        buffer = await stream.upload_async(b"abc")
        assert isinstance(buffer, anabranch.Buffer)
        assert (await stream.download_async(buffer)).tobytes() == b"abc"
        with stream.capture() as capture:
            stream.fill(buffer, 7)
        await capture.graph.instantiate().launch_async(stream)
        assert (await stream.download_async(buffer)).tolist() == [7, 7, 7]

    trio.run(main)


def test_cancelling_stops_the_wait_only(stream, gate):
    async def main():
        gate.hold(stream)
        completion = stream.completed()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def wait():
                    await completion

                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught and "pending" in repr(completion)
        gate.open()
        await completion
        with pytest.raises(RuntimeError, match="once"):
            await completion

    trio.run(main)


def test_waits_can_be_cancelled_even_if_nothing_is_left_to_wait_for(stream):
    async def main():
        completion = stream.completed()
        with trio.CancelScope() as scope:
            scope.cancel()
            await completion
        assert scope.cancelled_caught
        await completion

    trio.run(main)


def test_errors_are_raised(stream):
    async def main():
        stream.launch_host_func(lambda: 1 / 0)
        with pytest.raises(anabranch.AnabranchError) as caught:
            await stream.completed()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    trio.run(main)


def test_work_that_ends_after_the_run(stream, gate):
    async def main():
        gate.hold(stream)
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.completed()
        with trio.move_on_after(0):
            await stream.completed()

    trio.run(main)
    gate.open()
    stream.synchronize()


def test_anyio(stream):
    anyio = pytest.importorskip("anyio")

    async def wait():
        await stream.completed()

    async def main():
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)

    anyio.run(main, backend="trio")
    anyio.run(main, backend="asyncio")


def test_trio_as_a_guest_of_asyncio(stream):
    async def guest():
        await stream.completed()
        return 7

    async def main():
        loop, done = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        trio.lowlevel.start_guest_run(
            guest,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=done.set_result,
        )
        await stream.completed()
        return (await done).unwrap()

    assert asyncio.run(main()) == 7


def test_without_any_loop(stream):
    coroutine = stream.completed().__await__()
    with pytest.raises(RuntimeError):
        next(coroutine)
