"""Contexts, streams and events."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import anabranch
from conftest import is_deleted


def test_contexts(device, context):
    assert device.context() == context
    assert hash(device.context()) == hash(context)
    other = device.create_context()
    assert other != context and other.id != context.id
    assert other.device == device
    free, total = context.memory_info()
    assert 0 < free <= total
    assert "Context" in repr(context)


def test_streams_have_properties(context, device):
    stream = context.create_stream(name="mine")
    assert stream.name == "mine"
    assert (stream.context, stream.device) == (context, device)
    assert stream.is_non_blocking and not context.create_stream(non_blocking=False).is_non_blocking
    assert stream.query()
    assert f"Stream {stream.id}" in repr(stream)
    least, greatest = device.stream_priority_range
    assert context.create_stream(priority=greatest).priority == greatest
    assert context.create_stream(priority=greatest - 100).priority == greatest
    assert context.create_stream().priority == least == 0


def test_default_streams(context):
    assert context.legacy_stream() == context.legacy_stream()
    assert context.legacy_stream() != context.per_thread_stream()
    assert context.legacy_stream().query()


def test_equality_and_hash(context):
    first, second = context.create_stream(), context.create_stream()
    assert first == first and first != second and first != 3
    assert len({first, second, first}) == 2
    event = context.create_event()
    assert event == event and event != context.create_event() and event != first
    assert {event: 1}[event] == 1


def test_weak_references(context):
    stream, event = context.create_stream(), context.create_event()
    references = [weakref.ref(stream), weakref.ref(event), weakref.ref(context), weakref.ref(stream.allocate(1))]
    assert references[0]() is stream and references[1]() is event
    del stream, event
    gc.collect()
    assert [reference() for reference in references] == [None, None, context, None]


def test_closed_objects_are_refused(context):
    stream, event, buffer = context.create_stream(), context.create_event(), context.create_stream().allocate(4)
    for closed in (stream, event, buffer):
        closed.close()
        closed.close()
        assert "closed" in repr(closed)
    calls = [
        stream.query,
        stream.synchronize,
        stream.record,
        event.query,
        event.synchronize,
        lambda: context.create_stream().wait(event),
        lambda: context.create_stream().wait(stream),
        lambda: context.create_stream().download(buffer),
        lambda: stream.__enter__(),
    ]
    for call in calls:
        with pytest.raises(anabranch.AnabranchError, match="is closed") as caught:
            call()
        assert caught.value.name == "CUDA_ERROR_INVALID_HANDLE"


def test_close_lets_work_run(context, gate):
    stream, other = context.create_stream(), context.create_stream()
    buffer = other.allocate(4, "int32")
    other.synchronize()
    gate.hold(stream)
    stream.fill(buffer, 3)
    stream.close()
    gate.open()
    assert other.download(buffer).tolist() == [3] * 4


def test_with_closes(context):
    with context.create_event() as event:
        assert event.query()
    with pytest.raises(anabranch.AnabranchError):
        event.query()


def test_events_follow_work(context, gate):
    stream = context.create_stream()
    event = context.create_event()
    assert event.query()
    gate.hold(stream)
    assert stream.record(event) is event
    assert not event.query() and not stream.query()
    gate.open()
    event.synchronize()
    assert event.query()


def test_a_stream_waits_for_an_event(context, gate):
    first, second = context.create_stream(), context.create_stream()
    gate.hold(first)
    second.wait(first.record())
    assert not second.query()
    gate.open()
    second.synchronize()
    assert first.query()


def test_an_event_is_recorded_and_waited_for_by_its_methods(context, gate):
    first, second = context.create_stream(), context.create_stream()
    event = context.create_event(timing=False)
    gate.hold(first)
    event.record(first)
    event.wait(second)
    assert not second.query()
    gate.open()
    second.synchronize()


def test_a_stream_waits_for_a_stream(context, gate):
    first, second = context.create_stream(), context.create_stream()
    gate.hold(first)
    second.wait(first)
    assert not second.query()
    gate.open()
    second.synchronize()


def test_elapsed_time(stream):
    start, end = stream.record(), stream.record()
    end.synchronize()
    assert end - start == end.elapsed_since(start) >= 0.0
    assert start.is_timing
    untimed = stream.record(timing=False)
    stream.synchronize()
    assert not untimed.is_timing
    with pytest.raises(anabranch.AnabranchError) as caught:
        untimed.elapsed_since(start)
    assert caught.value.name == "CUDA_ERROR_INVALID_HANDLE"


def test_elapsed_time_of_pending_work(stream, gate):
    start = stream.record()
    gate.hold(stream)
    end = stream.record()
    with pytest.raises(anabranch.AnabranchError) as caught:
        end.elapsed_since(start)
    assert caught.value.name == "CUDA_ERROR_NOT_READY"


def test_waiting_releases_the_interpreter(context, gate):
    stream = context.create_stream()
    gate.hold(stream)
    waiting = [threading.Thread(target=call) for call in (stream.synchronize, context.synchronize, stream.record().synchronize)]
    for thread in waiting:
        thread.start()
    # This thread goes on while they wait, or else the gate would never open.
    gate.open()
    for thread in waiting:
        thread.join()


def test_wrong_types(stream):
    for wrong in (None, "stream", 1.5, object(), 3):
        with pytest.raises(TypeError):
            stream.wait(wrong)
        with pytest.raises(TypeError):
            stream.context.stream_from(wrong)
    with pytest.raises(TypeError):
        stream.record(3)
    with pytest.raises(TypeError):
        anabranch.Stream()


def test_foreign_contexts_are_refused(device, context, stream):
    other = device.create_context()
    buffer = other.create_stream().allocate(4)
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.fill(buffer, 1)
    assert caught.value.name == "CUDA_ERROR_INVALID_HANDLE"
    with pytest.raises(anabranch.AnabranchError):
        stream.record(other.create_event())


class Foreign:
    """A stream of another library."""

    def __init__(self, handle):
        self._handle = handle

    def __cuda_stream__(self):
        return (0, self._handle)


def test_streams_of_others(context, gate):
    ours = context.create_stream()
    theirs = Foreign(ours.handle)
    same = context.stream_from(theirs)
    assert same.handle == ours.handle and same.__cuda_stream__() == (0, ours.handle)
    gate.hold(same)
    assert not ours.query()
    third = context.create_stream()
    third.wait(theirs)
    assert not third.query()
    gate.open()
    third.synchronize()
    same.synchronize()
    same.close()
    ours.synchronize()


def test_events_of_several_processes_have_no_timing(context):
    with pytest.raises(anabranch.AnabranchError, match="timing=False") as caught:
        context.create_event(interprocess=True)
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"


def test_streams_of_others_are_kept(context):
    ours = context.create_stream()
    theirs = Foreign(ours.handle)
    reference = weakref.ref(theirs)
    same = context.stream_from(theirs)
    del theirs
    gc.collect()
    assert reference() is not None
    same.close()
    anabranch.devices()
    gc.collect()
    assert is_deleted(reference)


def test_a_newer_protocol_is_refused(context):
    class Newer:
        def __cuda_stream__(self):
            return (1, 0)

    with pytest.raises(anabranch.AnabranchError, match="version 1"):
        context.stream_from(Newer())
