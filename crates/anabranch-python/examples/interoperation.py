"""Streams, memory and graphs shared with PyTorch, CuPy and cuda.core, on an NVIDIA GPU: a line for each way.

    python examples/interoperation.py [cuda:0]

What is not installed is skipped. The exit status is 1 if anything else fails.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import anabranch

# Adds a number to each of `count` numbers.
KERNEL = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 numbers, .param .s32 value, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [numbers];
    ld.param.s32 %r1, [value];
    ld.param.u32 %r2, [count];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r3, %r3, %r4, %r5;
    setp.ge.u32 %p, %r3, %r2;
    @%p ret;
    mul.wide.u32 %d2, %r3, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.s32 %r4, [%d3];
    add.s32 %r4, %r4, %r1;
    st.global.s32 [%d3], %r4;
    ret;
}
"""

# So much that what is not ordered is seen.
COUNT = 1 << 24

DEVICE = anabranch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
CONTEXT = DEVICE.context()
ADD = CONTEXT.load_module(KERNEL).kernel("add")


def add(stream: anabranch.Stream, buffer: anabranch.Buffer, value: int) -> None:
    """A kernel of ours."""
    stream.launch(ADD, anabranch.LaunchConfig.for_elements(buffer.size), buffer, value, buffer.size)


def expect(found: object, expected: object) -> None:
    """Compares numbers."""
    if found != expected:
        raise AssertionError(f"{found}, and {expected} is right")


def ends(buffer: anabranch.Buffer, stream: anabranch.Stream) -> set[int]:
    """The first and the last number."""
    numbers = stream.download(buffer)
    return {numbers[0], numbers[-1]}


def torch_reads_what_we_write() -> None:
    import torch

    stream = CONTEXT.create_stream()
    buffer = stream.allocate(COUNT, "int32")
    stream.fill(buffer, 5)
    add(stream, buffer, 2)
    # PyTorch passes its stream, which waits.
    tensor = torch.from_dlpack(buffer)
    tensor += 1
    expect({int(tensor[0]), int(tensor[-1])}, {8})
    del tensor
    expect(ends(buffer, stream), {8})


def we_read_what_torch_writes() -> None:
    import torch

    stream = CONTEXT.create_stream()
    tensor = torch.full((COUNT,), 3, dtype=torch.int32, device="cuda")
    tensor *= 4
    buffer = CONTEXT.from_dlpack(tensor, stream=stream)
    add(stream, buffer, 1)
    expect(ends(buffer, stream), {13})
    torch.cuda.current_stream().wait_stream(torch.cuda.ExternalStream(stream.handle))
    expect({int(tensor[0]), int(tensor[-1])}, {13})


def torch_works_on_our_stream() -> None:
    import torch

    stream = CONTEXT.create_stream()
    buffer = stream.allocate(COUNT, "int32")
    stream.fill(buffer, 1)
    with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)):
        tensor = torch.from_dlpack(buffer)
        tensor += 9
    add(stream, buffer, 1)
    expect(ends(buffer, stream), {11})
    del tensor


def our_kernel_runs_between_two_of_torch() -> None:
    import torch

    theirs = torch.cuda.Stream()
    ours = CONTEXT.stream_from(as_cuda_stream(theirs))
    with torch.cuda.stream(theirs):
        tensor = torch.full((COUNT,), 2, dtype=torch.int32, device="cuda")
        buffer = CONTEXT.from_dlpack(tensor, stream=ours)
        add(ours, buffer, 5)
        tensor *= 3
    theirs.synchronize()
    expect({int(tensor[0]), int(tensor[-1])}, {21})


def as_cuda_stream(theirs: object) -> object:
    """A stream with the protocol of streams, which older versions of PyTorch do not have."""
    if hasattr(theirs, "__cuda_stream__"):
        return theirs

    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, theirs.cuda_stream)  # type: ignore[attr-defined]

    return Stream()


def cupy_reads_what_we_write() -> None:
    import cupy

    stream = CONTEXT.create_stream()
    buffer = stream.allocate(COUNT, "int32")
    stream.fill(buffer, 5)
    add(stream, buffer, 2)
    array = cupy.from_dlpack(buffer)
    array += 1
    expect({int(array[0]), int(array[-1])}, {8})
    del array
    expect(ends(buffer, stream), {8})
    # The same by the older protocol.
    add(stream, buffer, 1)
    array = cupy.asarray(buffer)
    expect({int(array[0]), int(array[-1])}, {9})


def we_read_what_cupy_writes() -> None:
    import cupy

    stream = CONTEXT.create_stream()
    array = cupy.full(COUNT, 3, dtype=cupy.int32)
    array *= 4
    buffer = CONTEXT.from_dlpack(array, stream=stream)
    add(stream, buffer, 1)
    expect(ends(buffer, stream), {13})
    stream.synchronize()
    expect({int(array[0]), int(array[-1])}, {13})


def we_read_what_cupy_describes() -> None:
    import cupy

    theirs = cupy.cuda.Stream(non_blocking=True)
    with theirs:
        array = cupy.zeros(COUNT, cupy.int32)
        array += 2
        # It names the current stream.
        buffer = CONTEXT.from_cuda_array_interface(array)
    stream = CONTEXT.create_stream()
    add(stream, buffer, 3)
    expect(stream.download(buffer[-2:]).tolist(), [5, 5])


def cupy_works_on_our_stream() -> None:
    import cupy

    stream = CONTEXT.create_stream()
    buffer = stream.allocate(COUNT, "int32")
    stream.fill(buffer, 1)
    with cupy.cuda.ExternalStream(stream.handle):
        array = cupy.from_dlpack(buffer)
        array += 9
    add(stream, buffer, 1)
    expect(ends(buffer, stream), {11})


def we_work_on_a_stream_of_cupy() -> None:
    import cupy

    theirs = cupy.cuda.Stream(non_blocking=True)
    with theirs:
        array = cupy.full(COUNT, 6, dtype=cupy.int32)
    ours = CONTEXT.stream_from(theirs if hasattr(theirs, "__cuda_stream__") else _Handle(theirs.ptr))
    buffer = CONTEXT.from_dlpack(array, stream=ours)
    add(ours, buffer, 4)
    with theirs:
        array *= 2
    expect(ends(buffer, ours), {20})


class _Handle:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


def our_graph_captures_cupy() -> None:
    import cupy

    stream = CONTEXT.create_stream()
    array = cupy.zeros(COUNT, dtype=cupy.int32)
    double = cupy.ElementwiseKernel("int32 x", "int32 y", "y = 2 * x + 1", "twice_and_one")
    double(array, array)
    array.fill(0)
    cupy.cuda.get_current_stream().synchronize()
    with stream.capture("relaxed") as capture:
        with cupy.cuda.ExternalStream(stream.handle):
            double(array, array)
    executable = capture.graph.instantiate()
    for _ in range(3):
        executable.launch(stream)
    stream.synchronize()
    expect({int(array[0]), int(array[-1])}, {7})


def cuda_core_takes_our_stream() -> None:
    from cuda.core import Device

    device = Device(DEVICE.ordinal)
    device.set_current()
    stream = CONTEXT.create_stream()
    buffer = stream.allocate(COUNT, "int32")
    stream.fill(buffer, 3)
    theirs = device.create_stream(stream)
    event = theirs.record()
    event.sync()
    expect(ends(buffer, stream), {3})


def we_take_a_stream_of_cuda_core() -> None:
    from cuda.core import Device

    device = Device(DEVICE.ordinal)
    device.set_current()
    ours = CONTEXT.stream_from(device.create_stream())
    buffer = ours.allocate(COUNT, "int32")
    ours.fill(buffer, 3)
    add(ours, buffer, 1)
    expect(ends(buffer, ours), {4})


WAYS: list[Callable[[], None]] = [
    torch_reads_what_we_write,
    we_read_what_torch_writes,
    torch_works_on_our_stream,
    our_kernel_runs_between_two_of_torch,
    cupy_reads_what_we_write,
    we_read_what_cupy_writes,
    we_read_what_cupy_describes,
    cupy_works_on_our_stream,
    we_work_on_a_stream_of_cupy,
    our_graph_captures_cupy,
    cuda_core_takes_our_stream,
    we_take_a_stream_of_cuda_core,
]


def main() -> int:
    """Goes all ways."""
    failed = 0
    for way in WAYS:
        name = way.__name__.replace("_", " ")
        try:
            way()
            print(f"ok       {name}")
        except ImportError as error:
            print(f"skipped  {name}: {error}")
        except Exception as error:
            failed += 1
            traceback.print_exc()
            print(f"FAILED   {name}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
