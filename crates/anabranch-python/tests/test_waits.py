"""Waits that are given up, that no thread can be had for, and that nothing would end."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import anabranch


class GivenUp(Exception):
    """A program has given a wait up."""


def give_up_soon(wait: Callable[[], object]) -> None:
    """Begins a wait, and gives it up."""

    def give_up(*_: Any) -> None:
        raise GivenUp

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(GivenUp):
            wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["context", "array"])
def test_waits_that_are_given_up_need_one_thread(context, stream, gate, on_host, kind):
    memory = context.allocate_pinned(4)
    stream.synchronize()
    gate.hold(stream)
    stream.fill(memory, 7)
    wait = context.synchronize if kind == "context" else lambda: numpy.asarray(memory)
    with open("/proc/self/stat", "rb") as stat:

        def threads() -> int:
            stat.seek(0)
            return int(stat.read().rpartition(b")")[2].split()[17])

        give_up_soon(wait)
        before = threads()
        for _ in range(20):
            give_up_soon(wait)
        assert threads() <= before + 3
    gate.open()
    context.synchronize()
    assert numpy.asarray(memory).tolist() == [7] * 4


@pytest.mark.parametrize("how", ["completed", "synchronize"])
def test_an_event_of_a_full_stream_lets_other_threads_go_on(run_python, on_host, how):
    """The thread that records the event waits for room in the stream."""
    result = run_python(
        f"""
import anabranch, threading, time
context = anabranch.device("host").context()
stream, event, gate, recorded = context.create_stream(), context.create_event(), threading.Event(), 0
def record():
    global recorded
    while not gate.is_set():
        stream.record(event)
        recorded += 1
stream.launch_host_func(gate.wait)
thread = threading.Thread(target=record)
thread.start()
before = -1
while before != recorded:
    before = recorded
    time.sleep(0.5)
threading.Timer(0.2, gate.set).start()
event.{how}()
thread.join()
stream.synchronize()
print("done")
"""
    )
    assert result.stdout == "done\n", result.stderr


def test_others_read_what_a_thread_reads_that_waits_for_room(context, gate, fill_up):
    full, other = context.create_stream(), context.create_stream()
    source = other.upload([7] * 4, "uint8")
    targets = [other.allocate(4, "uint8") for _ in range(500)]
    fill_up(full)
    began = threading.Event()

    def copy() -> None:
        for target in targets:
            full.copy(target, source)
            began.set()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    began.wait()
    # It waits for room by now.
    time.sleep(0.5)
    end = threading.Timer(20, gate.open)
    end.start()
    assert other.download(source).tolist() == [7] * 4 and thread.is_alive() and not gate.is_open()
    # What writes the memory has to wait, and can be given up.
    give_up_soon(lambda: other.fill(source, 1))
    assert not gate.is_open()
    end.cancel()
    gate.open()
    thread.join()
    assert full.download(source).tolist() == [7] * 4


def test_a_wait_that_is_given_up_leaves_exceptions_to_others(context, stream):
    release = threading.Event()

    def fail() -> None:
        release.wait()
        raise ValueError("the answer")

    stream.launch_host_func(fail)
    give_up_soon(context.synchronize)
    release.set()
    # The wait that was given up ends before that.
    time.sleep(0.05)
    with pytest.raises(anabranch.AnabranchError) as caught:
        context.synchronize()
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("wait", ["context.synchronize()", "numpy.asarray(memory)", "context.load_module(image)"])
def test_without_another_thread_a_wait_is_made_by_the_caller(run_python, on_host, wait):
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("without a global lock, the interpreter itself needs more memory than is left here")
    result = run_python(
        f"""
import anabranch, numpy, resource, threading
context = anabranch.device("host").context()
stream = context.create_stream()
memory = stream.upload([1], "int8")
image = ".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry k() {{ ret; }}"
stream.synchronize()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    {wait}
    print("done")
else:
    print("threads can be started still")
"""
    )
    assert result.stdout == "done\n", result.stderr


def test_a_wait_behind_the_end_of_the_interpreter_ends(run_python):
    """No function of a stream is called any more, so that what is behind one is never complete."""
    result = run_python(
        """
import atexit, os
def wait():
    try:
        stream.synchronize()
    except anabranch.AnabranchError as error:
        os.write(1, error.name.encode())
# What was registered first runs last, behind the handler of the package.
atexit.register(wait)
import anabranch, threading
stream = anabranch.device(os.environ["ANABRANCH_TEST_DEVICE"]).context().create_stream()
began = threading.Event()
stream.launch_host_func(lambda: (began.set(), threading.Event().wait()))
began.wait()
"""
    )
    assert result.stdout == "CUDA_ERROR_DEINITIALIZED", result.stderr
