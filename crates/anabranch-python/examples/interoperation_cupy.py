"""`anabranch.cupy` beside CuPy on an NVIDIA GPU.

The same calls of both modules are made, and their outcomes compared; and work of both is done in one stream.

    python examples/interoperation_cupy.py

Without CuPy or a GPU, only what this package does is said. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import anabranch.cupy

KERNEL = r"""
extern "C" __global__ void add(int* numbers, int value, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) numbers[index] += value;
}
"""

COUNT = 1 << 22

Module = Any


class Described:
    """A stream of another library."""

    def __init__(self, described: Any) -> None:
        self.described = described

    def __cuda_stream__(self) -> Any:
        return self.described


def default_streams(cupy: Module) -> Any:
    cuda = cupy.cuda
    null, ptds = cuda.Stream.null, cuda.Stream.ptds
    same = cuda.Stream(null=True) == null, cuda.Stream(ptds=True) == ptds, null == ptds, null == 0
    return repr(null), repr(ptds), hash(null), hash(ptds), same, null.__cuda_stream__(), null.priority


def compared(cupy: Module) -> Any:
    return cupy.cuda.Stream.null < cupy.cuda.Stream.ptds


def new_streams(cupy: Module) -> Any:
    cuda = cupy.cuda
    made = [cuda.Stream(), cuda.Stream(non_blocking=True), cuda.Stream(priority=-1), cuda.Stream(priority=-100)]
    return [(stream.is_non_blocking, stream.priority, stream.device_id, stream.done) for stream in made]


def current_streams(cupy: Module) -> Any:
    cuda = cupy.cuda
    seen: list[Any] = []
    streams = [cuda.Stream(non_blocking=True) for _ in range(3)]
    first, second, third = streams

    def see() -> None:
        current = cuda.get_current_stream()
        seen.append(streams.index(current) if current in streams else repr(current))

    see()
    first.use()
    see()
    with second:
        see()
        third.use()
        see()
        with first:
            see()
            with second:
                see()
            see()
        see()
    see()
    third.use()
    thread = threading.Thread(target=see)
    thread.start()
    thread.join()
    with cuda.Stream.null:
        see()
    see()
    cuda.Stream.null.use()
    return seen


def pending(cupy: Module) -> Any:
    cuda, gate = cupy.cuda, threading.Event()
    stream = cuda.Stream(non_blocking=True)
    before = cuda.Event()
    stream.launch_host_func(lambda _: gate.wait(), None)
    event = stream.record()
    seen = [stream.done, event.done, before.done]
    gate.set()
    stream.synchronize()
    return [*seen, stream.done, event.done, type(cuda.get_elapsed_time(event, event)).__name__]


def callbacks(cupy: Module) -> Any:
    stream = cupy.cuda.Stream(non_blocking=True)
    seen: list[Any] = []
    stream.add_callback(lambda *arguments: seen.append((arguments[0] is stream, *arguments[1:])), "data")
    stream.launch_host_func(seen.append, "argument")
    stream.synchronize()
    return seen


def graphs(cupy: Module) -> Any:
    cuda = cupy.cuda
    seen: list[Any] = []
    first, second = (cuda.Stream(non_blocking=True) for _ in range(2))
    first.begin_capture()
    states = [first.is_capturing(), second.is_capturing()]
    second.wait_event(first.record())
    states.append(second.is_capturing())
    second.launch_host_func(seen.append, 1)
    first.wait_event(second.record())
    graph = first.end_capture()
    graph.upload(first)
    for _ in range(3):
        graph.launch(first)
    first.synchronize()
    return states, seen, type(graph.debug_dot_str()).__name__


def unjoined(cupy: Module) -> Any:
    cuda = cupy.cuda
    first, second = (cuda.Stream(non_blocking=True) for _ in range(2))
    first.begin_capture()
    second.wait_event(first.record())
    second.launch_host_func(int, 0)
    return first.end_capture()


def waiting_in_a_capture(cupy: Module) -> Any:
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    calls = ("synchronize", "is_capturing", "end_capture", "is_capturing")
    return [outcome(lambda _, name=name: getattr(stream, name)(), cupy) for name in calls]  # type: ignore[misc]


def a_timing_event_that_measures_none(cupy: Module) -> Any:
    stream, event = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(disable_timing=True)
    stream.record(event)
    stream.synchronize()
    return cupy.cuda.get_elapsed_time(event, event)


def pools(cupy: Module) -> Any:
    cuda, runtime = cupy.cuda, cupy.cuda.runtime
    own = runtime.memPoolCreate(runtime.MemPoolProps(1, 0, 1, 0))
    former = runtime.deviceGetMemPool(0)
    pool = cuda.MemoryAsyncPool(own)
    try:
        memory = pool.malloc(1000)
        seen = [memory.mem.size, pool.used_bytes(), type(memory.mem).__name__, memory.device_id]
        del memory
        pool.free_all_blocks()
        pool.set_limit(size=12345)
        return [*seen, pool.used_bytes(), pool.total_bytes(), pool.get_limit()]
    finally:
        runtime.deviceSetMemPool(0, former)
        runtime.memPoolDestroy(own)


def addresses(cupy: Module) -> Any:
    runtime = cupy.cuda.runtime
    seen: list[Any] = []
    device, host, managed = runtime.malloc(64), runtime.hostAlloc(64, 0), runtime.mallocManaged(64)
    plain = ctypes.create_string_buffer(64)
    for address in (device, host, managed, ctypes.addressof(plain)):
        attributes = runtime.pointerGetAttributes(address)
        seen.append((attributes.type, attributes.device))
    runtime.free(device)
    runtime.freeHost(host)
    runtime.free(managed)
    return seen


def statuses(cupy: Module) -> Any:
    runtime, stream = cupy.cuda.runtime, cupy.cuda.Stream(non_blocking=True)
    event = runtime.eventCreate()
    seen = [runtime.streamQuery(stream.ptr), runtime.eventQuery(event), runtime.streamGetFlags(stream.ptr)]
    runtime.streamBeginCapture(stream.ptr)
    seen.append(runtime.streamQuery(stream.ptr))
    seen.append(outcome(lambda _: runtime.streamEndCapture(stream.ptr), cupy))
    runtime.eventDestroy(event)
    return seen


# Calls that fail, each with its name.
FAILURES: dict[str, Callable[[Module], Any]] = {
    "a capture of the legacy stream": lambda cupy: cupy.cuda.Stream.null.begin_capture(),
    "a capture in no mode": lambda cupy: cupy.cuda.Stream().begin_capture(9),
    "an end without a beginning": lambda cupy: cupy.cuda.Stream().end_capture(),
    "a stream that joined": unjoined,
    "time without a record": lambda cupy: cupy.cuda.get_elapsed_time(cupy.cuda.Event(), cupy.cuda.Event()),
    "time of an event without time": a_timing_event_that_measures_none,
    "an interprocess event with time": lambda cupy: cupy.cuda.Event(interprocess=True),
    "no device": lambda cupy: cupy.cuda.Device(99).use(),
    "no graph": lambda cupy: cupy.cuda.Graph(),
    "no stream": lambda cupy: cupy.cuda.Stream.from_external(3),
    "a stream of another version": lambda cupy: cupy.cuda.Stream.from_external(Described((1, 7))),
    "a stream that is no pair": lambda cupy: cupy.cuda.Stream.from_external(Described((0, 7, 8))),
    "no pool": lambda cupy: cupy.cuda.MemoryAsyncPool("x"),
    "no kind of copies": lambda cupy: cupy.cuda.runtime.memcpy(0, 0, 0, 9),
    "too much memory": lambda cupy: cupy.cuda.runtime.malloc(1 << 60),
    "too much memory of a pool": lambda cupy: cupy.cuda.MemoryAsyncPool().malloc(1 << 60),
    "no attribute": lambda cupy: cupy.cuda.runtime.deviceGetAttribute(100_000, 0),
    "flags of events": lambda cupy: cupy.cuda.runtime.eventCreateWithFlags(1 << 20),
    "flags of streams": lambda cupy: cupy.cuda.runtime.streamCreateWithFlags(1 << 20),
    "no kernel": lambda cupy: cupy.RawKernel(KERNEL, "nope").compile(),
    "an argument of another type": lambda cupy: cupy.RawKernel(KERNEL, "add")((1,), (1,), ("x",)),
    "streams in an order": compared,
}

CALLS: dict[str, Callable[[Module], Any]] = {
    "default streams": default_streams,
    "new streams": new_streams,
    "current streams": current_streams,
    "pending work": pending,
    "callbacks": callbacks,
    "graphs": graphs,
    "waiting in a capture": waiting_in_a_capture,
    "pools": pools,
    "addresses": addresses,
    "statuses": statuses,
    **FAILURES,
}


def outcome(call: Callable[[Module], Any], cupy: Module) -> str:
    """What a call returns or raises."""
    try:
        return repr(call(cupy))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def work_of_both(cupy: Module) -> None:
    """Kernels of both modules in one stream, on an array of CuPy, and events across."""
    ours = anabranch.cupy
    with cupy.cuda.Stream(non_blocking=True) as theirs:
        numbers = cupy.zeros(COUNT, dtype="int32")
    stream = ours.cuda.Stream.from_external(theirs)
    add = ours.RawKernel(KERNEL, "add")
    with theirs, stream:
        for _ in range(4):
            numbers += 1
            add((COUNT // 256,), (256,), (numbers, 2, COUNT))
    other = ours.cuda.Stream(non_blocking=True)
    other.wait_event(theirs.record())
    with other:
        add((COUNT // 256,), (256,), (numbers, 3, COUNT))
    with cupy.cuda.Stream.from_external(other):
        numbers *= 2
    other.synchronize()
    found = {int(numbers[0]), int(numbers[-1])}
    if found != {30}:
        raise AssertionError(f"{found}, and 30 is right")


def main() -> int:
    warnings.simplefilter("ignore")
    try:
        import cupy

        theirs = cupy if cupy.cuda.is_available() else None
    except ImportError:
        theirs = None
    failed = 0
    for name, call in CALLS.items():
        found = outcome(call, anabranch.cupy)
        if theirs is None:
            print(f"{name}: {found}")
            continue
        expected = outcome(call, theirs)
        failed += expected != found
        print(f"{name}: {found}" if expected == found else f"{name}: DIFFERENT\n    here {found}\n    CuPy {expected}")
    if theirs is not None:
        try:
            work_of_both(theirs)
            print("work of both: done")
        except Exception:
            traceback.print_exc()
            failed += 1
    print(f"{failed} different" if theirs is not None else "CuPy or a GPU is missing: nothing was compared")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
