"""Completion of work in tasks of asyncio."""

from __future__ import annotations

import asyncio
import threading

import pytest

import anabranch


def test_streams_and_events(stream, gate):
    async def main():
        gate.hold(stream)
        event, completion = stream.record(), stream.completed()
        assert "pending" in repr(completion)
        waiting = [asyncio.ensure_future(event.completed()), asyncio.ensure_future(completion)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        gate.open()
        assert await asyncio.gather(*waiting) == [None, None]
        await event
        assert stream.query()

    asyncio.run(main())


def test_uploads_and_downloads(stream):
    async def main():
        data = bytearray(b"abc")
        upload = stream.upload_async(data)
        data[:] = b"xyz"
        buffer = await upload
        assert isinstance(buffer, anabranch.Buffer)
        download = stream.download_async(buffer)
        stream.fill(buffer, 0)
        assert (await download).tobytes() == b"abc"
        numbers = await stream.upload_async([1, 2], "float32")
        assert (await stream.download_async(numbers[1:])).tolist() == [2.0]
        assert (await stream.download_async(numbers[2:])).tolist() == []

    asyncio.run(main())


def test_graphs(stream):
    buffer = stream.allocate(2)
    with stream.capture() as capture:
        stream.fill(buffer, 4)
    executable = capture.graph.instantiate()

    async def main():
        await executable.launch_async(stream)
        assert stream.query()

    asyncio.run(main())
    assert stream.download(buffer).tolist() == [4, 4]


def test_a_completion_is_awaited_once(stream):
    async def main():
        completion = stream.completed()
        await completion
        assert "awaited" in repr(completion)
        with pytest.raises(RuntimeError, match="once"):
            await completion

    asyncio.run(main())


def test_errors_are_raised(stream):
    async def main():
        stream.launch_host_func(lambda: 1 / 0)
        with pytest.raises(anabranch.AnabranchError) as caught:
            await stream.completed()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with stream.capture():
            with pytest.raises(anabranch.AnabranchError, match="CAPTURE_UNSUPPORTED"):
                await stream.completed()
        with pytest.raises(TypeError):
            stream.upload_async(object())

    asyncio.run(main())


def test_cancelling_only_stops_the_wait(stream, gate):
    async def main():
        gate.hold(stream)
        buffer = stream.allocate(1000)
        waits = [stream.completed(), stream.record().completed(), stream.download_async(buffer), stream.upload_async(bytes(1000))]
        for wait in waits:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.ensure_future(wait_for(wait)), 0.01)
        del waits
        stream.fill(buffer, 3)
        gate.open()
        assert (await stream.download_async(buffer)).tolist() == [3] * 1000

    async def wait_for(awaitable):
        return await awaitable

    asyncio.run(main())


def test_a_cancelled_wait_can_be_resumed(stream, gate):
    async def main():
        gate.hold(stream)
        completion = stream.completed()

        async def wait():
            await completion

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.01)
        gate.open()
        await completion

    asyncio.run(main())


def test_a_loop_that_is_closed_is_no_error(context, stream, gate, capfd):
    loop = asyncio.new_event_loop()
    gate.hold(stream)
    completion = stream.completed()

    async def wait():
        await completion

    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    assert not task.done()
    loop._ready.clear()
    loop.close()
    gate.open()
    stream.synchronize()
    context.synchronize()
    asyncio.run(asyncio.sleep(0))
    task._log_destroy_pending = False
    del task, completion
    assert "Traceback" not in capfd.readouterr().err


def test_a_completion_has_the_type_of_its_result():
    alias = anabranch.Completion[memoryview]
    assert (alias.__origin__, alias.__args__) == (anabranch.Completion, (memoryview,))


def test_no_thread_a_call(stream):
    async def main():
        await stream.completed()
        before = threads()
        for _ in range(100):
            stream.launch_host_func(int)
            await stream.completed()
        # The threads of the package wait for more, and two may be busy at the same time.
        assert threads() <= before + 10

    asyncio.run(main())


def threads():
    """The threads of the process, those that are not Python's too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


def test_many_tasks(context):
    streams = [context.create_stream() for _ in range(8)]

    async def work(number):
        stream = streams[number % len(streams)]
        buffer = await stream.upload_async([number] * 10, "int32")
        stream.fill(buffer[5:], -number)
        assert (await stream.download_async(buffer)).tolist() == [number] * 5 + [-number] * 5
        return number

    async def main():
        assert await asyncio.gather(*(work(number) for number in range(100))) == list(range(100))

    asyncio.run(main())


def test_several_loops(context):
    def run():
        async def main():
            stream = context.create_stream()
            for _ in range(20):
                stream.launch_host_func(int)
                await stream.record()

        asyncio.run(main())

    running = [threading.Thread(target=run) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def test_anyio(stream):
    anyio = pytest.importorskip("anyio")

    async def main():
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)

    async def wait():
        await stream.completed()

    anyio.run(main, backend="asyncio")


def test_of_several_tasks_one_gets_the_result(stream, gate):
    async def wait(completion):
        return await completion

    async def main():
        gate.hold(stream)
        completion = stream.completed()
        tasks = [asyncio.create_task(wait(completion)) for _ in range(3)]
        for _ in range(100):
            # Waits that end early leave nothing behind.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait(completion), 0)
        await asyncio.sleep(0)
        gate.open()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)

    results = asyncio.run(main())
    assert sorted(map(repr, results))[0] == "None"
    assert [type(result) for result in results].count(RuntimeError) == 2
