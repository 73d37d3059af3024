"""Exceptions of signal handlers, at every place where Python runs them.

Python runs signal handlers where a function of Python begins, among other places. So each block is run again and again, and an exception is raised where the
first function of the package begins, then in the second, and so on. Afterwards all is as before, and the exception has been raised.
"""

from __future__ import annotations

import itertools
import os
import sys

import pytest
from conftest import DEVICE

import anabranch
import anabranch.warp as wp
from anabranch import cuda_core
from anabranch.cupy import cuda
from anabranch.warp import _activity, _runtime

_FOLDER = os.path.dirname(anabranch.__file__)


class Interrupted(BaseException):
    """What the signal handler raises."""


class _Handler:
    """Raises an exception in the function of the package that begins with that number, if so many do."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(_FOLDER):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise Interrupted
        return None


def _run_until_told():
    """A finalizer's exception is raised where the main thread next runs code."""
    for _ in range(3):
        (lambda: None)()


@pytest.fixture(scope="module")
def world():
    wp.init()
    device = cuda_core.Device()
    device.set_current()
    return World(device)


class World:
    """What blocks use, and what they must leave as it was."""

    def __init__(self, device) -> None:
        self.device = device
        self.context = anabranch.device(DEVICE).context()
        self.stream = self.context.create_stream()
        self.warp_stream = wp.Stream()
        self.condition = self.warp_stream.anabranch_stream.allocate(1, "int32")
        self.cupy_stream = cuda.Stream(non_blocking=True)
        self.logger = wp.get_logger()

    def state(self):
        warp = wp.get_device()
        runtime = _runtime.get()
        streams = (self.stream, self.warp_stream.anabranch_stream, self.cupy_stream.anabranch_stream)
        return (
            anabranch.current_stream(),
            cuda.stream.current().state,
            cuda.runtime.getDevice(),
            cuda.device._ENTERED.numbers,
            cuda.memory.get_allocator(),
            warp,
            warp.stream,
            list(runtime.current._devices),
            dict(warp.captures),
            dict(runtime.captures),
            list(_activity._collections),
            wp.ScopedTimer._depth.value,
            wp.get_logger(),
            wp.config.log_level,
            [(stream, stream.capture_status) for stream in streams],
            # In a capture mode of the thread that is not relaxed, this is refused while the thread captures.
            self.context.raw.streams.exchange_capture_mode(0),
        )


def _stream(world):
    with world.stream:
        pass


def _streams(world):
    with world.stream, world.stream.context.create_stream() as other, world.stream:
        assert anabranch.current_stream() is world.stream
        other.close()


def _capture(world):
    with world.stream.capture():
        world.stream.record(world.stream.context.create_event())


def _cupy_stream(world):
    with world.cupy_stream, cuda.Stream.null, world.cupy_stream:
        pass


def _cupy_device(world):
    with cuda.Device(), cuda.Device(0):
        pass


def _cupy_allocator(world):
    with cuda.using_allocator(cuda.malloc_managed):
        pass


def _cupy_memory(world):
    cuda.Memory(64)
    cuda.ManagedMemory(64)
    cuda.PinnedMemory(64)
    cuda.MemoryAsync(64, world.cupy_stream)


def _warp_device(world):
    with wp.ScopedDevice("cuda:0"), wp.ScopedDevice("cpu"):
        pass


def _warp_nested(world):
    device, stream = wp.ScopedDevice("cuda:0"), wp.ScopedStream(world.warp_stream)
    with device, device, stream:
        assert len(_runtime.get().current._devices) >= 3


def _warp_stream(world):
    with wp.ScopedStream(world.warp_stream, sync_exit=True), wp.ScopedStream(wp.Stream()):
        pass


def _warp_capture(world):
    with wp.ScopedCapture(stream=world.warp_stream):
        other = wp.Stream()
        other.wait_stream(world.warp_stream)


def _warp_capture_of_the_current_stream(world):
    with wp.ScopedStream(world.warp_stream), wp.ScopedCapture():
        pass


def _warp_conditions(world):
    with wp.ScopedCapture(stream=world.warp_stream):
        wp.capture_if(world.condition, lambda: world.warp_stream.record_event(), stream=world.warp_stream)


def _warp_timer(world):
    with wp.ScopedTimer("block", print=False, synchronize=True, cuda_filter=wp.TIMING_ALL):
        pass


def _warp_messages(world):
    with wp.ScopedLogLevel(wp.LOG_ERROR), wp.ScopedLogger(None):
        pass


def _builder(world):
    builder = world.device.create_graph_builder()
    builder.begin_building("thread_local")
    del builder


def _core_buffer(world):
    world.device.allocate(64, stream=world.device.default_stream)


BLOCKS = [
    _stream,
    _streams,
    _capture,
    _cupy_stream,
    _cupy_device,
    _cupy_allocator,
    _cupy_memory,
    _warp_device,
    _warp_nested,
    _warp_stream,
    _warp_capture,
    _warp_capture_of_the_current_stream,
    _warp_conditions,
    _warp_timer,
    _warp_messages,
    _builder,
    _core_buffer,
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__.strip("_"))
def test_an_interrupted_block_leaves_nothing_open(world, block):
    tracer = sys.gettrace()
    # What is made at the first call.
    block(world)
    before = world.state()
    for number in itertools.count(1):
        handler = _Handler(number)
        is_raised = False
        sys.settrace(handler)
        try:
            block(world)
            sys.settrace(None)
            _run_until_told()
        except Interrupted:
            is_raised = True
        finally:
            sys.settrace(tracer)
        if handler.left > 0:
            break
        assert is_raised, number
        assert world.state() == before, number


def _depth():
    """How many calls the thread is in."""
    frame, depth = sys._getframe(1), 1
    while frame := frame.f_back:
        depth += 1
    return depth


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__.strip("_"))
def test_a_block_at_the_limit_of_recursion_leaves_nothing_open(world, block):
    block(world)
    before = world.state()
    limit = sys.getrecursionlimit()
    is_done = False
    for room in range(1, 200):
        try:
            sys.setrecursionlimit(_depth() + room)
            block(world)
            is_done = True
        except RecursionError:
            pass
        finally:
            sys.setrecursionlimit(limit)
        _run_until_told()
        assert world.state() == before, room
        if is_done:
            break
    assert is_done


def test_an_interrupt_is_raised_rather_than_another_exception():
    """Of a method that fails each time, and of a handler that raises exceptions meanwhile."""
    for raised in (["own", "own"], ["own", "interrupt", "own", "own"], ["interrupt", "own", "own"], ["interrupt"]):
        kinds = {"own": ValueError, "interrupt": KeyboardInterrupt}
        calls = iter(raised)

        @anabranch._anabranch._restoring
        def leave(calls=calls, kinds=kinds):
            for kind in calls:
                raise kinds[kind](kind)

        expected = KeyboardInterrupt if "interrupt" in raised else ValueError
        with pytest.raises(expected) as caught:
            leave()
        if {"own", "interrupt"} <= set(raised):
            assert isinstance(caught.value.__context__, ValueError)
        assert next(calls, None) is None, raised


def test_a_buffer_whose_end_is_interrupted_is_freed_once_and_behind_its_stream(world):
    class Resource(cuda_core.MemoryResource):
        freed: list[object] = []

        def allocate(self, size, *, stream):
            raise NotImplementedError

        def deallocate(self, ptr, size, *, stream):
            self.freed.append(stream)

        @property
        def is_device_accessible(self):
            return True

        @property
        def is_host_accessible(self):
            return False

        @property
        def device_id(self):
            return 0

    memory = world.device.allocate(64, stream=world.device.default_stream)
    stream = world.device.create_stream()
    for number in itertools.count(1):
        resource = Resource()
        resource.freed = []
        buffer = cuda_core.Buffer.from_handle(memory.handle, 64, mr=resource)
        handler, tracer = _Handler(number), sys.gettrace()
        sys.settrace(handler)
        try:
            buffer.close(stream)
            sys.settrace(None)
        except Interrupted:
            pass
        finally:
            sys.settrace(tracer)
        is_over = handler.left > 0
        buffer.close(stream)
        assert buffer.is_closed and resource.freed == [stream], number
        del buffer
        if is_over:
            break


def test_timers_that_overlap_or_are_nested_end_their_own_collections(world):
    first, second = (wp.ScopedTimer(name, print=False, cuda_filter=wp.TIMING_ALL) for name in ("first", "second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert len(_activity._collections) == 1
    second.__exit__(None, None, None)
    with first, first:
        assert len(_activity._collections) == 2
    wp.timing_begin()
    with wp.ScopedTimer("printed", report_func=lambda results, indent: None):
        wp.timing_end()
        wp.timing_begin()
    wp.timing_end()
    assert not _activity._collections and wp.ScopedTimer._depth.value == 0
