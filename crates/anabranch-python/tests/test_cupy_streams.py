"""Streams, events and graphs of `anabranch.cupy.cuda`."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import threading
import types

import pytest

import anabranch
from anabranch.cupy import cuda


class Gate:
    """Keeps the work of a stream pending until it is opened."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def hold(self, stream):
        stream.launch_host_func(lambda _: self._event.wait(), None)

    def open(self):
        self._event.set()


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def stream():
    return cuda.Stream(non_blocking=True)


class Foreign:
    """A stream of another library."""

    def __init__(self, described):
        self.described = described

    def __cuda_stream__(self):
        return self.described


def refused(status, call, *arguments):
    with pytest.raises(cuda.runtime.CUDARuntimeError) as caught:
        call(*arguments)
    assert caught.value.status == status
    return str(caught.value)


def test_default_streams():
    assert (cuda.Stream.null.ptr, cuda.Stream.ptds.ptr) == (0, 2)
    assert repr(cuda.Stream.null) == "<Stream 0 (device -1)>"
    assert repr(cuda.Stream.ptds) == "<Stream 2 (device -1)>"
    assert cuda.Stream(null=True) == cuda.Stream.null != cuda.Stream.ptds == cuda.Stream(ptds=True)
    assert cuda.Stream(null=True, ptds=True) == cuda.Stream.null
    for default in (cuda.Stream.null, cuda.Stream.ptds):
        default.synchronize()
        assert default.done and not default.is_capturing() and not default.is_non_blocking
        assert default.priority == 0
        assert default.__cuda_stream__() == (0, default.ptr)
        event = default.record()
        event.synchronize()
        assert event.done


def test_each_thread_has_its_default_stream(gate):
    done = []
    gate.hold(cuda.Stream.ptds)
    thread = threading.Thread(target=lambda: done.append(cuda.Stream.ptds.done))
    thread.start()
    thread.join()
    assert done == [True] and not cuda.Stream.ptds.done
    gate.open()
    cuda.Stream.ptds.synchronize()


def test_the_legacy_stream_waits_for_others(gate):
    blocking, other = cuda.Stream(), cuda.Stream(non_blocking=True)
    gate.hold(blocking)
    event = cuda.Stream.null.record()
    assert not event.done and other.done
    gate.open()
    event.synchronize()


def test_a_new_stream(stream, device):
    assert stream.device_id == cuda.get_device_id()
    assert stream.ptr > 2 and stream.is_non_blocking and stream.priority == 0
    assert repr(stream) == f"<Stream {stream.ptr} (device {stream.device_id})>"
    assert stream.__cuda_stream__() == (0, stream.ptr)
    assert not cuda.Stream().is_non_blocking
    _, most_urgent = device.stream_priority_range
    assert cuda.Stream(priority=-100).priority == most_urgent
    assert cuda.Stream(False, True, False, 0).is_non_blocking


def test_equality_and_hash(stream):
    external = cuda.Stream.from_external(stream)
    assert stream == external and hash(stream) == hash(external) and len({stream, external}) == 1
    assert stream != cuda.Stream() and stream != stream.ptr and stream != "stream"
    for compare in ("__lt__", "__le__", "__gt__", "__ge__"):
        assert getattr(stream, compare)(external) is NotImplemented
    with pytest.raises(TypeError):
        assert stream < external


def test_work_in_order(stream, gate):
    seen = []
    other = cuda.Stream(non_blocking=True)
    gate.hold(stream)
    stream.launch_host_func(seen.append, 1)
    event = stream.record()
    assert isinstance(event, cuda.Event)
    other.wait_event(event)
    other.launch_host_func(seen.append, 2)
    assert not stream.done and not event.done and not other.done and seen == []
    gate.open()
    other.synchronize()
    assert seen == [1, 2]
    event.synchronize()
    assert event.done
    stream.synchronize()
    assert stream.done


def test_callbacks(stream):
    seen = []
    stream.add_callback(lambda *arguments: seen.append(arguments), "data")
    stream.synchronize()
    assert seen == [(stream, 0, "data")] and seen[0][0] is stream


def test_what_functions_raise_is_said(stream, monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: said.append((hook.exc_type, hook.object)))

    def fail(*_):
        raise KeyError

    stream.launch_host_func(fail, None)
    stream.add_callback(fail, None)
    stream.synchronize()
    assert said == [(KeyError, fail)] * 2


def test_functions_must_not_call_the_module(stream):
    errors = []

    def call(_):
        try:
            cuda.Stream.null.synchronize()
        except cuda.runtime.CUDARuntimeError as error:
            errors.append(str(error))

    stream.launch_host_func(call, None)
    stream.synchronize()
    assert errors == ["cudaErrorNotPermitted: operation not permitted"]


def test_events(stream, gate):
    with pytest.raises(ValueError, match="^Timing must be disabled for interprocess events$"):
        cuda.Event(interprocess=True)
    start, end = cuda.Event(), cuda.Event(block=True)
    assert start.done and start.ptr != end.ptr and start != end
    start.record(stream)
    gate.hold(stream)
    assert stream.record(end) is end
    assert "cudaErrorNotReady" in refused(600, cuda.get_elapsed_time, start, end)
    gate.open()
    end.synchronize()
    assert cuda.get_elapsed_time(start, end) >= 0
    untimed = cuda.Event(disable_timing=True)
    untimed.record(stream)
    untimed.synchronize()
    refused(400, cuda.get_elapsed_time, start, untimed)
    with stream:
        untimed.record()
    stream.synchronize()


def test_streams_and_events_of_others(stream, context):
    seen = []
    external = cuda.Stream.from_external(Foreign((0, stream.ptr)))
    assert external == stream and external.device_id == -1
    external.launch_host_func(seen.append, 1)
    external.synchronize()
    ours = cuda.Stream.from_external(context.create_stream())
    ours.launch_host_func(seen.append, 2)
    ours.wait_event(context.create_event())
    context.create_stream().wait(ours)
    ours.record(context.create_event())
    ours.synchronize()
    assert seen == [1, 2]
    for other in (Foreign((0, stream.ptr)), Foreign((0, 0)), context.create_stream()):
        cuda.Event().record(other)
        memory = cuda.MemoryAsync(4, other)
        cuda.MemoryPointer(memory, 0).memset_async(0, 4, other)
        del memory


def test_whoever_uses_a_stream_keeps_it(context):
    from anabranch import cuda_core

    cuda_core.Device().set_current()
    stream = cuda.Stream()
    native = stream.anabranch_stream
    others = [cuda.Stream.from_external(stream), cuda.Stream.from_external(native), cuda_core.Device().create_stream(stream)]
    direct = context.stream_from(stream)
    # Another stream begins, and the former one would end.
    stream.__init__()
    assert stream.anabranch_stream != native
    assert all(other.anabranch_stream == native for other in others) and direct == native
    for other in others:
        other.anabranch_stream.synchronize()
    assert cuda.Stream.null.anabranch_stream.handle == context.legacy_stream().handle


def test_done_raises_what_is_reported_once(stream):
    def fail():
        raise ValueError("the answer")

    stream.anabranch_stream.launch_host_func(fail)
    event = stream.record()
    with pytest.raises(cuda.runtime.CUDARuntimeError) as caught:
        while not stream.done:
            pass
    assert isinstance(caught.value.__cause__.__cause__, ValueError)
    assert event.done and stream.done


def test_streams_and_events_of_cupy(stream, monkeypatch):
    # Old ones do not have the method of the protocol.
    class Original:
        def __init__(self, ptr):
            self.ptr = ptr

    original = types.ModuleType("cupy.cuda.stream")
    original._BaseStream, original.Event = type("_BaseStream", (Original,), {}), type("Event", (Original,), {})
    monkeypatch.setitem(sys.modules, original.__name__, original)
    event = cuda.Event()
    stream.record(original.Event(event.ptr))
    stream.wait_event(original.Event(event.ptr))
    assert cuda.get_elapsed_time(original.Event(event.ptr), event) == 0
    memory = cuda.alloc(4)
    for ptr in (stream.ptr, 0):
        event.record(original._BaseStream(ptr))
        memory.memset_async(0, 4, original._BaseStream(ptr))
    stream.synchronize()
    with pytest.raises(TypeError):
        stream.wait_event(original._BaseStream(stream.ptr))
    with pytest.raises(TypeError):
        event.record(original.Event(event.ptr))


def wrong_objects():
    """What takes a stream or an event, by the name of the argument, and objects with ``ptr`` that are neither."""
    stream, event, memory = cuda.Stream(), cuda.Event(), cuda.alloc(64)
    stream.begin_capture()
    graph = stream.end_capture()

    class Pointer:
        ptr = stream.ptr

    managed = cuda.ManagedMemory(8)
    takes_stream = (
        event.record,
        graph.launch,
        graph.upload,
        managed.prefetch,
        lambda other: cuda.MemoryAsync(8, other),
        lambda other: memory.memset_async(0, 8, other),
        lambda other: memory.copy_from_device_async(memory, 8, other),
        lambda other: memory.copy_from_host_async(memory.ptr, 8, other),
        lambda other: memory.copy_to_host_async(memory.ptr, 8, other),
        lambda other: memory.copy_from_async(memory, 8, other),
    )
    for call in takes_stream:
        for other in (event, graph, memory, memory.mem, cuda.alloc_pinned_memory(8), Pointer(), stream.ptr, "stream"):
            yield call, "stream", "Stream", other
    others = (stream, graph, memory, memory.mem, Pointer(), event.ptr, "event")
    for other in others:
        yield stream.wait_event, "event", "Event", other
        yield stream.record, "event", "Event", other
        yield lambda other: cuda.get_elapsed_time(other, event), "start_event", "Event", other
        yield lambda other: cuda.get_elapsed_time(event, other), "end_event", "Event", other
    yield stream.wait_event, "event", "Event", None


def test_objects_of_other_classes_are_refused():
    for call, name, expected, other in wrong_objects():
        start = f"Argument '{name}' has incorrect type (expected cupy.cuda.stream.{expected}, got "
        with pytest.raises(TypeError, match=re.escape(start)):
            call(other)
    cuda.Device().synchronize()


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ((1, 7), "__cuda_stream__() returned unsupported version 1, only version 0 is supported"),
        ((0,), "__cuda_stream__() must return a 2-tuple of (version, stream_ptr)"),
        ((0, 7, 8), "__cuda_stream__() must return a 2-tuple of (version, stream_ptr)"),
        (5, "__cuda_stream__() must return a 2-tuple of (version, stream_ptr)"),
        ((0, "x"), "__cuda_stream__() must return (int, int), got (int, str)"),
        (("a", 1), "__cuda_stream__() must return (int, int), got (str, int)"),
    ],
)
def test_descriptions_that_are_refused(described, message):
    with pytest.raises(TypeError) as caught:
        cuda.Stream.from_external(Foreign(described))
    assert str(caught.value) == message


def test_what_is_no_stream():
    with pytest.raises(TypeError) as caught:
        cuda.Stream.from_external(3)
    assert str(caught.value) == (
        "Object of type int does not implement the CUDA stream protocol (__cuda_stream__ method)"
    )
    assert repr(cuda.Stream.from_external(Foreign([0, 7]))) == "<Stream 7 (device -1)>"
    for number in (-1, 3, 7):
        refused(400, cuda.Stream.from_external(Foreign((0, number))).synchronize)
        refused(400, cuda.Event().record, Foreign((0, number)))
        refused(400, cuda.MemoryAsync, 4, Foreign((0, number)))


def test_external_stream_is_deprecated(stream):
    with pytest.warns(DeprecationWarning) as caught:
        external = cuda.ExternalStream(stream.ptr)
    assert str(caught[0].message) == (
        "ExternalStream is deprecated. Use Stream.from_external() instead to interoperate with external streams that "
        "implement the CUDA stream protocol."
    )
    assert caught[0].filename == __file__
    assert repr(external) == f"<ExternalStream {stream.ptr} (device -1)>"
    assert external == stream and external.is_non_blocking and not isinstance(external, cuda.Stream)
    external.synchronize()
    # Any object is taken, and only a number can be used.
    for ptr in (None, "5", 2.0, stream):
        with pytest.deprecated_call():
            external = cuda.ExternalStream(ptr)
        assert external.ptr is ptr and repr(external) == f"<ExternalStream {ptr} (device -1)>"
        for call in (external.synchronize, external.begin_capture, lambda: cuda.alloc(4).memset_async(0, 4, external)):
            with pytest.raises(TypeError, match="^an integer is required$"):
                call()


def test_graphs(stream):
    seen = []
    stream.begin_capture()
    assert stream.is_capturing()
    stream.launch_host_func(seen.append, "a")
    graph = stream.end_capture()
    assert not stream.is_capturing() and seen == []
    assert isinstance(graph, cuda.Graph) and graph.graph and graph.graphExec
    graph.upload(stream)
    graph.launch(stream=stream)
    with cuda.Stream() as other:
        graph.upload()
        graph.launch()
    other.synchronize()
    stream.synchronize()
    assert seen == ["a", "a"]
    assert graph.debug_dot_str().startswith("digraph") and graph.debug_dot_str(1)
    with pytest.raises(NotImplementedError) as caught:
        cuda.Graph()
    assert str(caught.value) == (
        "currently this class cannot be initiated by the user and must be created via stream capture"
    )


def test_a_capture_of_two_streams(stream):
    seen, other = [], cuda.Stream(non_blocking=True)
    stream.begin_capture(cuda.runtime.streamCaptureModeThreadLocal)
    other.wait_event(stream.record())
    other.launch_host_func(seen.append, 1)
    assert other.is_capturing()
    stream.wait_event(other.record())
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    assert seen == [1]


def test_captures_that_fail(stream):
    with pytest.raises(RuntimeError, match=r"^cannot capture on the default \(legacy\) stream$"):
        cuda.Stream.null.begin_capture()
    refused(1, stream.begin_capture, 9)
    assert refused(401, stream.end_capture).startswith("cudaErrorIllegalState: ")
    other = cuda.Stream(non_blocking=True)
    stream.begin_capture()
    other.wait_event(stream.record())
    other.launch_host_func(int, 0)
    message = refused(904, stream.end_capture)
    assert message == "cudaErrorStreamCaptureUnjoined: capturing stream has unjoined work"
    stream.begin_capture()
    message = refused(900, stream.synchronize)
    assert message == "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
    for call in (stream.is_capturing, lambda: stream.launch_host_func(int, 0)):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == "the stream was capturing, but an error has invalidated the capture sequence"
        assert type(caught.value) is RuntimeError
    refused(901, stream.end_capture)
    assert not stream.is_capturing() and stream.done


def test_a_graph_keeps_its_functions(stream):
    seen = []

    class Kept:
        def __call__(self, _):
            seen.append(1)

    stream.begin_capture()
    stream.launch_host_func(Kept(), None)
    graph = stream.end_capture()
    for _ in range(3):
        graph.launch(stream)
    del graph
    stream.synchronize()
    assert seen == [1] * 3


def test_errors_can_be_pickled():
    error = cuda.runtime.CUDARuntimeError(904)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status) == (type(error), str(error), 904)
    assert isinstance(error, RuntimeError) and not isinstance(error, anabranch.AnabranchError)
    unknown = cuda.runtime.CUDARuntimeError(12345)
    assert str(unknown) == "unrecognized error code: unrecognized error code"


def test_the_cause_of_an_error_says_more(stream):
    with pytest.raises(cuda.runtime.CUDARuntimeError) as caught:
        stream.end_capture()
    assert isinstance(caught.value.__cause__, anabranch.AnabranchError)
    assert caught.value.__cause__.status == caught.value.status


def test_waits_end_at_control_c(run_python):
    program = """
import os, signal, threading
from anabranch.cupy import cuda
stream = cuda.Stream(non_blocking=True)
started = threading.Event()
stream.launch_host_func(lambda _: (started.set(), threading.Event().wait()), None)
# A pipe, because interrupts inside of locks of `threading` become other errors.
reader, writer = os.pipe()
def interrupt():
    while os.read(reader, 1):
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
started.wait()
signal.signal(signal.SIGINT, signal.default_int_handler)
for wait in (stream.synchronize, stream.record().synchronize, cuda.Device().synchronize):
    try:
        # It may come before the wait.
        os.write(writer, b"x")
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
os._exit(0)
"""
    result = run_python(program)
    assert (result.returncode, result.stdout) == (0, "interrupted\n" * 3), result.stderr


def captured():
    stream = cuda.Stream()
    stream.begin_capture()
    return stream.end_capture()


@pytest.mark.parametrize(
    "make", [cuda.Stream, lambda: cuda.Stream.from_external(cuda.Stream()), cuda.Event, captured, cuda.Module]
)
def test_what_ends_with_its_object_is_not_copied(make):
    item = make()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=f"^objects of the class {type(item).__name__} can be neither copied nor pickled$"):
            duplicate(item)
    assert getattr(item, "done", True)
