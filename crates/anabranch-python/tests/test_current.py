"""The current stream."""

from __future__ import annotations

import asyncio
import threading

import pytest

import anabranch
from anabranch import current, current_stream

hypothesis = pytest.importorskip("hypothesis")
strategies = hypothesis.strategies


def test_a_stream_is_current_within_with(context):
    first, second = context.create_stream(), context.create_stream()
    assert current_stream() is None
    with first as entered:
        assert entered is first and current_stream() is first
        with second:
            assert current_stream() is second
        assert current_stream() is first
        with pytest.raises(KeyError), second:
            raise KeyError
        assert current_stream() is first
    assert current_stream() is None
    # It was not closed.
    first.synchronize()


def test_each_context_has_its_own(device, context):
    other = device.create_context()
    first, second = context.create_stream(), other.create_stream()
    with first, second:
        assert current_stream() is second
        assert current_stream(context) is first
        assert current_stream(other) is second
    assert current_stream(context) is None


def test_each_thread_has_its_own(stream):
    seen = []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(current_stream()))
        thread.start()
        thread.join()
    # From Python 3.14 on, threads may begin with a copy of the context of whoever starts them.
    assert seen[0] in (None, stream)


def test_each_task_has_its_own(context):
    streams = [context.create_stream() for _ in range(4)]

    async def work(stream):
        for _ in range(5):
            with stream:
                await asyncio.sleep(0)
                assert current_stream() is stream
                await stream.completed()
                assert current_stream() is stream
            await asyncio.sleep(0)
            assert current_stream() is outer

    async def main():
        await asyncio.gather(*map(work, streams))

    with context.create_stream() as outer:
        asyncio.run(main())
        assert current_stream() is outer


def test_streams_left_out_of_order(context):
    first, second = context.create_stream(), context.create_stream()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert current_stream() is second
    second.__exit__(None, None, None)
    assert current_stream() is None
    second.__exit__(None, None, None)


@hypothesis.given(strategies.lists(strategies.tuples(strategies.booleans(), strategies.integers(0, 2)), max_size=30))
@hypothesis.settings(max_examples=50, deadline=None, database=None)
def test_the_last_that_is_entered_is_current(steps):
    context = anabranch.device("host").context()
    streams, model = [context.create_stream() for _ in range(3)], []
    for enters, index in steps:
        if enters:
            streams[index].__enter__()
            model.append(index)
        elif index in model:
            streams[index].__exit__(None, None, None)
            del model[len(model) - 1 - model[::-1].index(index)]
        assert current_stream() is (streams[model[-1]] if model else None)
    for index in model:
        streams[index].__exit__(None, None, None)
    assert current_stream() is None


def test_calls_without_a_stream(stream, module):
    with stream:
        numbers = current.upload([1, 2, 3], "uint32")
        target = current.allocate(3, "uint32")
        current.copy(target, numbers)
        current.fill(target[:1], 9)
        current.launch(module.kernel("add"), (1, 32), target, 1, 3)
        assert current.download(target).tolist() == [10, 3, 4]
        current.copy_from_host(target, [7, 7, 7])
        found = bytearray(12)
        current.copy_to_host(found, target)
        assert found == bytes([7, 0, 0, 0] * 3)
        event = current.record()
        assert current.record(event) is event
        with stream.capture() as capture:
            current.fill(target, 2)
        current.launch_graph(capture.graph.instantiate())
        current.synchronize()
        assert event.query() and current.download(target).tolist() == [2, 2, 2]


def test_without_a_current_stream(stream, device):
    buffer = stream.allocate(1)
    calls = [
        lambda: current.allocate(3),
        lambda: current.download(buffer),
        lambda: current.fill(buffer, 1),
        current.record,
        current.synchronize,
    ]
    for call in calls:
        with pytest.raises(anabranch.AnabranchError, match="is current") as caught:
            call()
        assert caught.value.name == "CUDA_ERROR_ILLEGAL_STATE"
    with device.create_context().create_stream(), pytest.raises(anabranch.AnabranchError):
        current.fill(buffer, 1)
