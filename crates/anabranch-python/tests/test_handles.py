"""Handles of the driver, in both directions."""

import gc
import weakref

import pytest

import anabranch
from conftest import is_deleted


class Owner:
    """Whoever owns what a handle stands for."""


def test_a_stream_by_its_handle(context, gate):
    ours = context.create_stream()
    owner = Owner()
    reference = weakref.ref(owner)
    same = context.stream_from_handle(ours.handle, owner)
    del owner
    assert same.handle == ours.handle
    gate.hold(ours)
    assert not same.query()
    gate.open()
    same.synchronize()
    assert reference() is not None
    same.close()
    del same
    gc.collect()
    assert is_deleted(reference)


def test_default_streams_have_handles(context):
    assert context.stream_from_handle(context.legacy_stream().handle).query()
    assert context.stream_from_handle(context.per_thread_stream().handle).query()


def test_an_event_by_its_handle(context, stream, gate):
    event = context.create_event()
    same = context.event_from_handle(event.handle, event)
    gate.hold(stream)
    event.record(stream)
    assert not same.query()
    gate.open()
    same.synchronize()
    assert event.query()
    with pytest.raises(anabranch.AnabranchError) as caught:
        context.event_from_handle(0)
    assert caught.value.name == "CUDA_ERROR_INVALID_HANDLE"


def test_objects_have_handles(context, module, stream):
    with stream.capture() as capture:
        stream.launch_host_func(int)
    executable = capture.graph.instantiate()
    for named in (context, module, module.kernel("add"), capture.graph, executable, stream, context.create_event()):
        assert named.handle != 0


def test_an_event_is_described_for_other_processes(context):
    try:
        event = context.create_event(timing=False, interprocess=True)
    except anabranch.AnabranchError as error:
        # The software device has no events for other processes.
        assert (context.device.backend, error.name) == ("host", "CUDA_ERROR_NOT_SUPPORTED")
    else:
        assert len(event.interprocess_handle()) == 64
    with pytest.raises(anabranch.AnabranchError):
        context.create_event().interprocess_handle()
    with pytest.raises((TypeError, ValueError)):
        context.open_event(b"too short")


def test_events_know_how_they_wait(context):
    assert context.create_event(blocking_sync=True).is_blocking_sync
    assert not context.create_event().is_blocking_sync


def test_a_capture_in_two_calls(context, stream):
    buffer = stream.allocate(4)
    assert stream.capture_status == "none"
    stream.begin_capture("relaxed")
    assert stream.capture_status == "active"
    stream.fill(buffer, 7)
    graph = stream.end_capture()
    assert stream.capture_status == "none"
    assert graph.node_count == 1
    graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [7] * 4
    with pytest.raises(anabranch.AnabranchError):
        stream.end_capture()


def test_an_invalidated_capture_is_ended(context, stream):
    stream.begin_capture()
    with pytest.raises(anabranch.AnabranchError):
        stream.synchronize()
    assert stream.capture_status == "invalidated"
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.end_capture()
    assert caught.value.name == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    assert stream.capture_status == "none"


def test_a_kernel_says_what_it_needs(module):
    attributes = module.kernel("add").attributes
    assert attributes["max_threads_per_block"] > 0
    assert attributes["static_shared_bytes"] == 0
    with pytest.raises(anabranch.AnabranchError):
        module.variable("nothing")


def test_a_stream_of_ours_is_shared(context, device):
    for _ in range(200):
        stream = context.create_stream()
        same = context.stream_from(stream)
        assert same == stream
        buffer = stream.allocate(4)
        stream.close()
        same.fill(buffer, 2)
        assert same.download(buffer).tolist() == [2] * 4
    with pytest.raises(anabranch.AnabranchError):
        device.create_context().stream_from(same)
