"""Methods that are called often, of which the usual call does not go through PyO3: every other call does, and is no different."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import time
import types

import pytest

import anabranch

METHODS = [
    (anabranch.Event.record, "(self, /, stream)"),
    (anabranch.Event.wait, "(self, /, stream)"),
    (anabranch.Stream.record, "(self, /, event=None, *, timing=True, external=False)"),
    (anabranch.Stream.wait, "(self, /, target, *, external=False)"),
    (anabranch.ExecutableGraph.launch, "(self, /, stream)"),
]


@pytest.fixture
def executable(context, stream):
    with stream.capture() as capture:
        stream.fill(stream.allocate(4), 0)
    return capture.graph.instantiate()


@pytest.mark.parametrize("method, signature", METHODS, ids=lambda value: getattr(value, "__qualname__", ""))
def test_methods_describe_themselves(method, signature):
    assert isinstance(method, types.MethodDescriptorType)
    assert str(inspect.signature(method)) == signature
    assert method.__doc__ and method.__doc__[0].isupper() and "--" not in method.__doc__
    assert method.__qualname__ == f"{method.__objclass__.__name__}.{method.__name__}"


def test_arguments_have_names(context, stream, executable):
    event, other = context.create_event(), context.create_stream()
    assert event.record(stream=stream) is None and event.record(stream) is None
    assert event.wait(stream=other) is None and event.wait(other) is None
    assert stream.record(event) is event and stream.record(event=event) is event
    assert stream.record(event, timing=True, external=False) is event
    assert other.wait(target=event) is None and other.wait(event, external=False) is None and other.wait(event) is None
    assert executable.launch(stream=stream) is None and executable.launch(stream) is None
    made = stream.record(timing=False)
    assert made != event and not made.is_timing and other.wait(stream) is None
    other.synchronize()
    assert event.query() and made.query()
    assert [event.record(*[stream], **{}), anabranch.Event.record(event, stream)] == [None, None]
    bound = event.record
    assert bound(stream) is None


def test_wrong_arguments_are_refused(context, stream, executable):
    event = context.create_event()
    for method, own, wrong in [
        (event.record, stream, event),
        (event.wait, stream, 3),
        (stream.record, event, stream),
        (stream.wait, event, "event"),
        (executable.launch, stream, None),
    ]:
        with pytest.raises(TypeError):
            method(wrong)
        with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
            method(own, other=1)
        with pytest.raises(TypeError, match="positional argument"):
            method(own, own, own)
    for method in (event.record, event.wait, stream.wait, executable.launch):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            method()
    with pytest.raises(TypeError, match="external"):
        stream.wait(stream, external=True)
    for wrong in (stream, 3, None):
        with pytest.raises(TypeError):
            anabranch.Event.record(wrong, stream)
    with pytest.raises(TypeError):
        anabranch.Event.record()


def test_closed_objects_are_refused(context, executable):
    stream, closed_stream = context.create_stream(), context.create_stream()
    event, closed_event = context.create_event(), context.create_event()
    closed_stream.close()
    closed_event.close()
    for call in [
        lambda: event.record(closed_stream),
        lambda: closed_event.record(stream),
        lambda: event.wait(closed_stream),
        lambda: closed_event.wait(stream),
        lambda: stream.record(closed_event),
        lambda: closed_stream.record(event),
        lambda: stream.wait(closed_event),
        lambda: closed_stream.wait(event),
        lambda: executable.launch(closed_stream),
    ]:
        with pytest.raises(anabranch.AnabranchError, match="is closed") as caught:
            call()
        assert caught.value.status == 400
    executable.close()
    with pytest.raises(anabranch.AnabranchError, match="executable graph is closed"):
        executable.launch(stream)


def test_errors_are_those_of_the_library(device, context, stream, executable):
    event = device.create_context().create_event()
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.record(event)
    assert (caught.value.status, caught.value.operation) == (400, "recording an event")
    with pytest.raises(anabranch.AnabranchError) as again:
        stream.record(event, external=False)
    assert str(again.value) == str(caught.value)
    assert stream.record(context.create_event()).is_timing


def test_functions_of_a_stream_must_not_call_them(context, stream, executable):
    event, found = context.create_event(), []

    def call():
        for method, argument in [
            (event.record, stream),
            (event.wait, stream),
            (stream.record, event),
            (stream.wait, event),
            (executable.launch, stream),
        ]:
            try:
                method(argument)
            except anabranch.AnabranchError as error:
                found.append(error.status)

    stream.launch_host_func(call)
    stream.synchronize()
    assert found == [800] * 5


def test_objects_are_closed_by_other_threads_meanwhile(context):
    """Each call is made, or refused because an object is closed."""
    stream, events = context.create_stream(), [context.create_event(timing=False) for _ in range(300)]
    refused = []

    def record():
        for event in events:
            try:
                stream.record(event)
                event.record(stream)
            except anabranch.AnabranchError as error:
                refused.append(error.status)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=record) for _ in range(3)]
        for thread in threads:
            thread.start()
        for event in reversed(events):
            event.close()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert set(refused) <= {400}
    stream.synchronize()


def test_calls_keep_nothing(context, stream):
    event = context.create_event()
    gc.collect()
    counts = [sys.getrefcount(one) for one in (event, stream, None)]
    for _ in range(5000):
        event.record(stream)
        stream.record(event)
        stream.wait(event)
        stream.wait(target=event)
    gc.collect()
    after = [sys.getrefcount(one) for one in (event, stream, None)]
    assert counts[:2] == after[:2] and abs(counts[2] - after[2]) < 5000


def test_other_threads_run_while_a_call_waits(context, stream, gate):
    """A call that waits in the driver does so without the interpreter, which the function that it waits for needs."""
    event, ticks = context.create_event(), []
    gate.hold(stream)

    def tick():
        # The stream is full by then: there is room for a thousand entries on a GPU.
        time.sleep(0.2)
        ticks.append(event.query())
        gate.open()

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(3000):
        stream.record(event)
        stream.wait(event)
    thread.join()
    stream.synchronize()
    assert len(ticks) == 1
