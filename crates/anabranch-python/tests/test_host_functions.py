"""Functions of Python that run in stream order."""

from __future__ import annotations

import threading
import traceback
import weakref

import pytest

import anabranch
from conftest import is_deleted


def test_functions_run_in_order(stream, gate):
    seen = []
    gate.hold(stream)
    for number in range(5):
        stream.launch_host_func(seen.append, number)
    stream.launch_host_func(lambda *arguments, **keywords: seen.append((arguments, keywords)), 1, key=2)
    assert not seen
    gate.open()
    stream.synchronize()
    assert seen == [0, 1, 2, 3, 4, ((1,), {"key": 2})]


def test_functions_run_on_another_thread(stream):
    seen = []
    stream.launch_host_func(lambda: seen.append(threading.get_ident()))
    stream.synchronize()
    assert seen != [threading.get_ident()]


def test_functions_see_results(context, stream):
    pinned = context.allocate_pinned(4)
    numpy = pytest.importorskip("numpy")
    view, seen = numpy.asarray(pinned), []
    stream.fill(pinned, 5)
    stream.launch_host_func(lambda: seen.append(view.tolist()))
    stream.synchronize()
    assert seen == [[5] * 4]


class Strange(Exception):
    """A class whose methods raise exceptions."""

    @property
    def __traceback__(self):
        raise RuntimeError("no traceback, please")

    def with_traceback(self, traceback):
        raise RuntimeError("no traceback, please")

    def __str__(self):
        raise RuntimeError("no text, please")


def test_exceptions_of_any_class_reach_who_synchronises(stream):
    def fail():
        raise Strange

    stream.launch_host_func(fail)
    with pytest.raises(anabranch.AnabranchError, match="Strange") as caught:
        stream.synchronize()
    assert type(caught.value.__cause__) is Strange
    seen = []
    stream.launch_host_func(seen.append, 1)
    stream.synchronize()
    assert seen == [1]


def function_that_fails():
    raise LookupError("on purpose")


@pytest.mark.parametrize("wait", ["stream", "context", "event", "download"])
def test_exceptions_reach_who_synchronises(context, stream, wait):
    buffer = stream.allocate(1)
    stream.synchronize()
    stream.launch_host_func(function_that_fails)
    waits = {
        "stream": stream.synchronize,
        "context": context.synchronize,
        "event": lambda: (stream.record().synchronize(), stream.synchronize()),
        "download": lambda: stream.download(buffer),
    }
    with pytest.raises(anabranch.AnabranchError, match="LookupError: on purpose") as caught:
        waits[wait]()
    assert caught.value.is_asynchronous and not caught.value.is_sticky
    cause = caught.value.__cause__
    assert isinstance(cause, LookupError)
    assert "function_that_fails" in "".join(traceback.format_tb(cause.__traceback__))
    # It is told once, and later work runs.
    stream.synchronize()
    seen = []
    stream.launch_host_func(seen.append, 1)
    stream.synchronize()
    assert seen == [1]


def test_exceptions_are_not_printed(stream, capfd):
    stream.launch_host_func(function_that_fails)
    with pytest.raises(anabranch.AnabranchError):
        stream.synchronize()
    assert capfd.readouterr().err == ""


def test_exceptions_that_cannot_be_described(stream):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    def fail():
        raise Odd

    stream.launch_host_func(fail)
    with pytest.raises(anabranch.AnabranchError, match="Odd") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, Odd)


def test_system_exit_is_an_exception(stream):
    stream.launch_host_func(exit)
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, SystemExit)


def test_functions_must_not_call_the_library(context, stream):
    other, event, buffer = context.create_stream(), context.create_event(), stream.allocate(1)
    calls = [
        stream.synchronize,
        context.synchronize,
        event.synchronize,
        other.record,
        context.create_stream,
        lambda: other.fill(buffer, 1),
        lambda: other.download(buffer),
    ]
    names = []

    def run(call):
        try:
            call()
        except anabranch.AnabranchError as error:
            names.append(error.name)

    for call in calls:
        stream.launch_host_func(run, call)
    stream.synchronize()
    assert names == ["CUDA_ERROR_NOT_PERMITTED"] * len(calls)


def test_functions_may_drop_objects(context, stream):
    objects = [context.create_stream(), context.create_event(), stream.allocate(4), context.allocate_pinned(4)]
    stream.launch_host_func(objects.clear)
    stream.synchronize()
    assert not objects
    context.synchronize()


def test_graphs_run_functions_at_every_launch(stream):
    seen = []
    with stream.capture() as capture:
        stream.launch_host_func(seen.append, 1)
    assert not seen
    executable = capture.graph.instantiate()
    for _ in range(3):
        executable.launch(stream)
    stream.synchronize()
    assert seen == [1, 1, 1]


def test_callbacks(stream, gate):
    seen = []
    gate.hold(stream)
    stream.add_callback(lambda *arguments: seen.append(arguments))
    assert not seen
    gate.open()
    stream.synchronize()
    assert seen == [(stream, 0)]
    with pytest.raises(anabranch.AnabranchError):
        with stream.capture():
            stream.add_callback(print)


def test_callbacks_that_raise(stream):
    stream.add_callback(lambda stream, status: 1 / 0)
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_functions_of_several_streams_run_at_the_same_time(context, on_host):
    # CUDA runs the host functions of a context one after the other.
    barrier = threading.Barrier(3)
    streams = [context.create_stream() for _ in range(2)]
    for stream in streams:
        stream.launch_host_func(barrier.wait)
    barrier.wait()
    for stream in streams:
        stream.synchronize()


def test_functions_are_dropped(context, stream):
    class Function:
        def __call__(self):
            pass

    function = Function()
    reference = weakref.ref(function)
    stream.launch_host_func(function)
    stream.synchronize()
    del function
    assert is_deleted(reference)


def test_functions_that_wait_when_they_are_deleted(run_python):
    """What the library lets go of is deleted where nothing waits for that: not by a thread that is to call the next function."""
    result = run_python(
        """
import anabranch, os
context = anabranch.device(os.environ["ANABRANCH_TEST_DEVICE"]).context()
stream, deleted = context.create_stream(), []
class Function:
    def __call__(self):
        pass
    def __del__(self):
        stream.synchronize()
        deleted.append(None)
for _ in range(200):
    graph = context.create_graph()
    graph.add((), anabranch.NodeWork.host_func(Function()))
    executable = graph.instantiate()
    executable.launch(stream)
    # They are freed behind the launch.
    del graph, executable
    stream.launch_host_func(int)
    stream.launch_host_func(Function())
    stream.synchronize()
anabranch.flush_deferred_drops()
while len(deleted) < 400:
    stream.synchronize()
print("done")
"""
    )
    assert (result.stdout, result.stderr) == ("done\n", "")


def test_exceptions_that_are_not_reported_are_not_kept(stream):
    class Marked(Exception):
        pass

    references = []

    def fail():
        error = Marked()
        references.append(weakref.ref(error))
        raise error

    for _ in range(50):
        stream.launch_host_func(fail)
        stream.launch_host_func(fail)
        with pytest.raises(anabranch.AnabranchError) as caught:
            stream.synchronize()
        assert isinstance(caught.value.__cause__, Marked)
    del caught
    # A few of the last ones may be.
    assert sum(is_deleted(reference, 0.01) for reference in references) >= 70


def test_the_cause_is_kept_however_many_others_there_are(stream):
    def fail(number):
        raise ValueError(number)

    for number in range(1500):
        stream.launch_host_func(fail, number)
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ValueError) and caught.value.__cause__.args == (0,)


def test_functions_with_other_parameters(stream):
    stream.launch_host_func(lambda one: one)
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, TypeError)


def test_what_is_no_function_is_refused(stream):
    for wrong in (5, None, "text"):
        with pytest.raises(TypeError, match="function"):
            stream.launch_host_func(wrong)
        with pytest.raises(TypeError, match="function"):
            stream.add_callback(wrong)


def test_exceptions_that_nobody_asked_for_do_not_hide_later_ones(context):
    def fail():
        raise ValueError("on purpose")

    for _ in range(100):
        with context.create_stream() as stream:
            stream.launch_host_func(fail)
    context_streams = [context.create_stream() for _ in range(100)]
    for stream in context_streams:
        stream.launch_host_func(fail)
    for stream in context_streams:
        with pytest.raises(anabranch.AnabranchError) as caught:
            stream.synchronize()
        assert isinstance(caught.value.__cause__, ValueError)
    # The context reports what the streams did not that are gone.
    for _ in range(100):
        with pytest.raises(anabranch.AnabranchError):
            context.synchronize()
    context.synchronize()


def test_an_exception_from_elsewhere_ends_one_thread_only(run_python, on_host):
    """What waits for the thread is told, and others take its place."""
    result = run_python(
        """
import anabranch, ctypes, sys, threading, time
sys.unraisablehook = lambda unraisable: None
context = anabranch.device("host").context()
stream = context.create_stream()
stream.launch_host_func(int)
stream.synchronize()
interrupted = 0
for _ in range(5):
    time.sleep(0.02)
    for ident in sys._current_frames():
        if ident != threading.get_ident():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))
    called = threading.Event()
    while not called.is_set():
        stream.launch_host_func(called.set)
        try:
            stream.synchronize()
            assert called.is_set()
        except anabranch.AnabranchError as error:
            assert "has ended its thread" in str(error), error
            interrupted += 1
print("done", interrupted > 0)
"""
    )
    assert result.stdout == "done True\n", result.stderr


def test_an_exception_of_a_signal_handler_has_the_cause(run_python, on_host):
    result = run_python(
        """
import anabranch, anabranch._errors, signal
stream = anabranch.device("host").context().create_stream()
class Interrupted(Exception):
    pass
def interrupt(*details):
    raise Interrupted
anabranch._errors.make = interrupt
def fail():
    raise ValueError("the answer")
stream.launch_host_func(fail)
try:
    stream.synchronize()
except Interrupted as error:
    print(repr(error.__cause__))
"""
    )
    assert result.stdout == "ValueError('the answer')\n", result.stderr
