"""Several threads at the same time, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import anabranch


ROUNDS = 400


def in_threads(count, body):
    failures = []

    def run(number):
        try:
            body(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_threads_use_one_buffer(context, module):
    add, first = module.kernel("add"), context.create_stream()
    numbers = first.upload([0] * 8, "uint32")

    def work(number):
        stream = context.create_stream()
        for _ in range(50):
            stream.launch(add, (1, 8), numbers, 1, 8)
            if number % 2:
                stream.download(numbers[number:])

    in_threads(4, work)
    assert first.download(numbers).tolist() == [200] * 8


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads by the kernel")
@pytest.mark.parametrize("kind", ["owners", "tensors"])
def test_deleting_takes_one_thread(context, on_host, kind):
    numpy = pytest.importorskip("numpy")
    memory = context.create_stream().allocate(64)

    def ours():
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
        # The kernel keeps 15 characters.
        return sum(name.startswith("anabranch-py") for name in names)

    before, interval = ours(), sys.getswitchinterval()
    if kind == "owners":
        buffers = [context.buffer_from_address(memory.address, 64, object()) for _ in range(100)]
    else:
        buffers = [context.from_dlpack(numpy.zeros(10)) for _ in range(100)]
    # All that is deleted waits for this thread.
    sys.setswitchinterval(1)
    try:
        buffers.clear()
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            pass
    finally:
        sys.setswitchinterval(interval)
    assert ours() <= before + 1


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without a global lock, objects are deleted by the threads that made them",
)
def test_an_owner_may_take_long_to_be_deleted(context, on_host):
    memory = context.create_stream().allocate(64)
    gate, begun, ended = threading.Event(), threading.Event(), threading.Event()

    class Owner:
        def __del__(self):
            begun.set()
            gate.wait(60)
            ended.set()

    context.buffer_from_address(memory.address, 64, Owner())
    assert begun.wait(60)
    stream = context.create_stream()

    async def wait():
        stream.launch_host_func(time.sleep, 0.05)
        await asyncio.wait_for(stream.completed(), 60)

    # Those who wait for work are told meanwhile.
    asyncio.run(wait())
    assert not ended.is_set()
    gate.set()
    assert ended.wait(60)


def test_threads_use_several_buffers(context, module):
    first = context.create_stream()
    buffers = [first.upload([number], "uint32") for number in range(3)]

    def work(number):
        stream = context.create_stream()
        for turn in range(50):
            # In every order, so that threads would wait for each other if the order of locks were theirs.
            source, target = buffers[(number + turn) % 3], buffers[turn % 3]
            if source is not target:
                stream.copy(target, source)

    in_threads(4, work)
    assert {first.download(buffer).tolist()[0] for buffer in buffers} <= {0, 1, 2}


def test_threads_close_what_others_use(context):
    def work(_number):
        for _ in range(30):
            stream = context.create_stream()
            buffer = stream.allocate(100)

            def use(stream=stream, buffer=buffer):
                try:
                    while True:
                        stream.fill(buffer, 1)
                        stream.record().query()
                except anabranch.AnabranchError as error:
                    assert error.name == "CUDA_ERROR_INVALID_HANDLE", error

            thread = threading.Thread(target=use)
            thread.start()
            stream.close()
            buffer.close()
            thread.join()

    in_threads(3, work)


def test_a_capture_of_one_thread_leaves_others_alone(context):
    def work(number):
        stream = context.create_stream()
        buffer = stream.allocate(4)
        stream.synchronize()
        for turn in range(20):
            with stream.capture("thread_local") as capture:
                stream.fill(buffer, number + turn)
            capture.graph.instantiate().launch(stream)
        assert stream.download(buffer).tolist() == [number + 19] * 4

    in_threads(4, work)


def test_nothing_is_left_behind(context, module):
    add = module.kernel("add")

    def work():
        stream = context.create_stream()
        numbers = stream.upload([1] * 10, "uint32")
        stream.launch(add, (1, 10), numbers, 1, 10)
        stream.launch_host_func(int)
        with stream.capture() as capture:
            stream.fill(numbers, 1)
        capture.graph.instantiate().launch(stream)
        stream.download(numbers)
        stream.record().synchronize()
        with stream:
            assert anabranch.current_stream() is stream
        with pytest.raises(anabranch.AnabranchError):
            stream.launch(add, (1, 1))
        return weakref.ref(stream), weakref.ref(numbers), weakref.ref(capture)

    # As often as below: without the interpreter's lock, it is freed later what other threads have used.
    for _ in range(ROUNDS):
        work()
    context.synchronize()
    gc.collect()
    before = sys.getallocatedblocks()
    references = [reference for _ in range(ROUNDS) for reference in work()]
    grown = 0
    for _ in range(500):
        # Other threads drop what their work has kept.
        context.synchronize()
        time.sleep(0.01)
        gc.collect()
        references = [reference for reference in references if reference() is not None]
        grown = sys.getallocatedblocks() - before
        if not references and grown < ROUNDS:
            break
    assert not references
    # Not an object for each round.
    assert grown < ROUNDS, grown


def test_memory_of_the_device_is_given_back(device, on_host):
    context = device.create_context()
    free, _ = context.memory_info()
    stream = context.create_stream()
    for _ in range(50):
        stream.fill(stream.allocate(1 << 20), 1)
        context.allocate_pinned(1 << 20).close()
    stream.synchronize()
    context.synchronize()
    left, _ = context.memory_info()
    assert left > free - (20 << 20)


def test_objects_are_closed_while_they_are_used(context):
    rounds = [(context.create_stream(), context.create_event(timing=False)) for _ in range(60)]

    def work(number):
        for stream, event in rounds:
            for _ in range(5):
                # Each call happens, or says that the object is closed.
                try:
                    stream.record(event)
                    stream.wait(event)
                    stream.query()
                except anabranch.AnabranchError as error:
                    assert "closed" in str(error)
            if number < 2:
                event.close()
                stream.close()

    in_threads(4, work)
    assert all("closed" in repr(stream) and "closed" in repr(event) for stream, event in rounds)
