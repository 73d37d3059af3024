"""Streams and events of `anabranch.warp`."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle

import pytest
from conftest import KERNELS
from warp_support import wp

import anabranch

__all__ = ["wp"]


def test_streams(wp):
    stream = wp.Stream("cuda:0")
    assert stream.device is wp.get_device("cuda:0") and stream.owner and stream.is_blocking
    assert stream.is_complete and not stream.is_capturing
    assert stream.cuda_stream == stream.anabranch_stream.handle != 0
    assert stream.__cuda_stream__() == (0, stream.cuda_stream)
    assert wp.Stream().device is wp.get_device()
    assert len({stream, stream, wp.Stream()}) == 2


def test_streams_are_not_copied(wp):
    stream = wp.Stream()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            duplicate(stream)
    assert stream.is_complete


@pytest.mark.parametrize(("priority", "expected"), [(0, 0), (-1, -1), (-5, -1), (3, 0), (True, 0)])
def test_priorities_are_clamped(wp, priority, expected):
    assert wp.Stream(priority=priority).priority == expected


@pytest.mark.parametrize("priority", ["0", None, 0.0, [0]])
def test_priorities_are_integers(wp, priority):
    with pytest.raises(TypeError) as caught:
        wp.Stream(priority=priority)
    assert str(caught.value) == "Stream priority must be an integer."


def test_arguments_that_are_refused(wp):
    with pytest.raises(TypeError, match="Stream has no argument 'cuda_steam'"):
        wp.Stream(cuda_steam=1)
    with pytest.raises(TypeError, match="cuda_stream is a handle"):
        wp.Stream(cuda_stream="1")
    with pytest.raises(TypeError, match="cuda_event is a handle"):
        wp.Event(cuda_event=1.5)
    with pytest.raises(OverflowError):
        wp.Stream(cuda_stream=-1)
    with pytest.raises(TypeError):
        wp.get_stream().wait_event()
    # A stream is no event, though the package's own streams wait for streams, too.
    for wrong in (5, wp.Stream()):
        with pytest.raises(AttributeError, match="no attribute 'anabranch_event'"):
            wp.get_stream().wait_event(wrong)


def test_streams_of_other_libraries(wp, gate):
    theirs = wp.get_device().anabranch_context.create_stream()
    for handle in (theirs.handle, ctypes.c_void_p(theirs.handle)):
        stream = wp.Stream("cuda:0", cuda_stream=handle)
        assert stream.cuda_stream == theirs.handle and not stream.owner and not stream.is_blocking
        assert stream.anabranch_stream == theirs
    gate.hold(theirs)
    assert not stream.is_complete
    gate.open()
    wp.synchronize_stream(stream)
    del stream
    gc.collect()
    # It was not destroyed.
    theirs.synchronize()


def test_a_stream_goes_there_and_back(wp):
    stream = wp.Stream()
    assert stream.device.anabranch_context.stream_from(stream) == stream.anabranch_stream
    again = wp.Stream(stream.device, cuda_stream=stream.__cuda_stream__()[1])
    assert again.anabranch_stream == stream.anabranch_stream
    theirs = wp.record_event()
    event = wp.Event(cuda_event=theirs.cuda_event)
    wp.synchronize_event(event)
    assert not event.owner and theirs.is_complete
    for null in (0, ctypes.c_void_p(None)):
        with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_HANDLE"):
            wp.Event(cuda_event=null)


@pytest.mark.parametrize("handle", [None, 0, ctypes.c_void_p(None)])
def test_the_null_stream(wp, handle):
    null = wp.Stream(cuda_stream=handle)
    assert null.cuda_stream is None and null.__cuda_stream__() == (0, 0) and null.is_blocking
    assert null.anabranch_stream == wp.get_device().anabranch_context.legacy_stream()
    assert wp.get_device().null_stream.cuda_stream is None
    null.record_event()
    wp.synchronize_stream(null)


def test_streams_are_ordered_with_the_null_stream(wp, gate):
    stream = wp.Stream()
    gate.hold(stream.anabranch_stream)
    event = wp.get_device().null_stream.record_event()
    assert not event.is_complete
    gate.open()
    wp.synchronize_event(event)


def test_events(wp, gate):
    stream, event = wp.Stream(), wp.Event()
    assert event.is_complete and event.owner and not event.enable_timing
    assert event.cuda_event == event.anabranch_event.handle
    gate.hold(stream.anabranch_stream)
    assert stream.record_event(event) is event
    assert not event.is_complete and not stream.is_complete
    new = stream.record_event()
    assert new.device is stream.device and not new.enable_timing
    gate.open()
    wp.synchronize_event(new)
    assert event.is_complete
    assert [getattr(wp.Event.Flags, name) for name in ("DEFAULT", "BLOCKING_SYNC", "DISABLE_TIMING", "INTERPROCESS")] == [
        0,
        1,
        2,
        4,
    ]


def test_waits(wp, gate):
    first, second, third = wp.Stream(), wp.Stream(), wp.Stream()
    gate.hold(first.anabranch_stream)
    second.wait_event(first.record_event())
    third.wait_stream(second)
    assert not second.is_complete and not third.is_complete
    assert not second.cached_event.is_complete and second.cached_event is second.cached_event
    mine = wp.Event()
    third.wait_stream(first, event=mine)
    assert not mine.is_complete
    gate.open()
    wp.synchronize()
    assert third.is_complete and mine.is_complete and second.cached_event.is_complete


def test_calls_without_a_stream_use_the_current_one(wp, gate):
    other = wp.Stream()
    gate.hold(other.anabranch_stream)
    wp.wait_event(other.record_event())
    event = wp.record_event()
    assert not event.is_complete and not wp.get_stream().is_complete
    with wp.ScopedStream(wp.Stream(), sync_enter=False) as stream:
        assert wp.record_event().is_complete
        wp.wait_stream(other)
        assert not stream.is_complete
        mine = wp.Event()
        assert wp.record_event(mine) is mine and not mine.is_complete
    gate.open()
    wp.synchronize_device()
    assert event.is_complete


def test_events_of_other_devices(wp):
    other = wp.map_cuda_device("other", wp.get_device().anabranch_device.create_context())
    with pytest.raises(RuntimeError) as caught:
        wp.get_stream().record_event(wp.Event(other))
    assert str(caught.value) == "Event from device other cannot be recorded on stream from device cuda:0"
    # Waiting for one is possible.
    wp.get_stream().wait_event(wp.Stream(other).record_event())
    wp.get_stream().wait_stream(wp.Stream(other))
    wp.synchronize()


def test_elapsed_time(wp, gate):
    start, end = wp.Event(enable_timing=True), wp.Event(enable_timing=True)
    wp.record_event(start)
    gate.hold(wp.get_stream().anabranch_stream)
    wp.record_event(end)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_NOT_READY"):
        wp.get_event_elapsed_time(start, end, synchronize=False)
    gate.open()
    assert wp.get_event_elapsed_time(start, end) >= 0
    with pytest.raises(RuntimeError):
        wp.get_event_elapsed_time(wp.record_event(), end)
    with pytest.raises(RuntimeError):
        wp.get_event_elapsed_time(start, wp.Event(enable_timing=True))
    with pytest.raises(ValueError) as caught:
        wp.Event(enable_timing=True, interprocess=True)
    assert str(caught.value) == "The combination of 'enable_timing=True' and 'interprocess=True' is not allowed."


def test_set_stream(wp, gate):
    device, former = wp.get_device(), wp.get_stream()
    assert wp.get_stream(device) is wp.get_stream("cuda:0") is device.stream
    first, second, third = wp.Stream(), wp.Stream(), wp.Stream()
    gate.hold(former.anabranch_stream)
    wp.set_stream(first)
    assert wp.get_stream() is first and first.is_complete
    wp.set_stream(former)
    wp.set_stream(first, device, sync=True)
    assert not first.is_complete
    device.set_stream(second, sync=False)
    assert second.is_complete
    device.set_stream(first)
    device.stream = third
    assert wp.get_stream() is third and not third.is_complete
    device.set_stream(third)
    gate.open()
    wp.synchronize_device(device)
    # Nothing waits for the null stream, nor it for anything, but by itself.
    wp.set_stream(device.null_stream, sync=True)
    wp.set_stream(former, sync=True)
    with pytest.raises(AttributeError):
        wp.set_stream(5)
    assert wp.get_stream() is former


def test_synchronize(wp, gate):
    stream = wp.Stream()
    gate.hold(stream.anabranch_stream)
    gate.open()
    wp.synchronize()
    assert stream.is_complete
    for call in (wp.synchronize_stream, wp.synchronize_device):
        call()
        call("cuda:0")
        call(wp.get_device())
    wp.synchronize_stream(stream)


def test_errors_of_work_are_raised(wp):
    def fail():
        raise KeyError("mine")

    stream = wp.Stream()
    stream.anabranch_stream.launch_host_func(fail)
    with pytest.raises(RuntimeError, match="Failed to synchronize stream on device cuda:0: .*KeyError") as caught:
        wp.synchronize_stream(stream)
    assert isinstance(caught.value, anabranch.AnabranchError)
    wp.synchronize_stream(stream)


def test_interprocess_events(wp):
    device = wp.get_device()
    if not device.is_ipc_supported:
        with pytest.raises(RuntimeError, match="Device cuda:0 does not support IPC."):
            wp.Event().ipc_handle()
        with pytest.raises(RuntimeError, match="IPC is not supported on device cuda:0."):
            wp.event_from_ipc_handle(bytes(64))
        with pytest.raises(RuntimeError, match="Failed to create event on device cuda:0"):
            wp.Event(interprocess=True)
        return
    handle = wp.Event(interprocess=True).ipc_handle()
    assert len(handle) == 64 and any(handle)
    # The process that has the event cannot open it.
    with pytest.raises(RuntimeError):
        wp.event_from_ipc_handle(handle)


def test_events_that_are_not_for_other_processes(wp, monkeypatch):
    warnings = []

    class Collector:
        def debug(self, message): ...
        def info(self, message): ...
        def error(self, message): ...

        def warning(self, message, category=None, stacklevel=1):
            warnings.append(message)

    monkeypatch.setattr(wp.get_device(), "is_ipc_supported", True)
    with wp.ScopedLogger(Collector()):
        assert wp.Event().ipc_handle() == bytes(64)
    assert warnings == ["IPC event handle appears to be invalid. Was interprocess=True used?"]
    with pytest.raises(RuntimeError):
        wp.event_from_ipc_handle(bytes(64))


LOST = """
import os
os.environ["ANABRANCH_DEVICE"] = os.environ["ANABRANCH_TEST_DEVICE"]
import anabranch
import anabranch.warp as wp

wp.config.log_level = wp.LOG_WARNING
wp.init()
add = wp.get_device().anabranch_context.load_module(open("KERNELS").read()).kernel("add")
wp.launch(add, 1, [anabranch.Scalar(8, "uint64"), 1, 1])
expected = [
    (wp.synchronize_stream, "Failed to synchronize stream on device cuda:0: "),
    (wp.synchronize_device, "Failed to synchronize device cuda:0: "),
    (wp.synchronize, "Failed to synchronize device cuda:0: "),
    (wp.Stream, "Failed to create stream on device cuda:0: "),
    (wp.Event, "Failed to create event on device cuda:0: "),
    (wp.capture_begin, ""),
    (wp.record_event, ""),
]
for call, message in expected:
    try:
        call()
    except RuntimeError as error:
        assert str(error).startswith(message), error
        assert error.status == 700, error
    else:
        raise AssertionError(call)
assert not wp.get_stream().is_capturing
"""


def test_a_lost_context(run_python):
    result = run_python(LOST.replace("KERNELS", str(KERNELS)))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
