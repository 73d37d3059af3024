"""Memory of devices: buffers of the package `anabranch`, where Warp has arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, Union

from .._anabranch import Buffer
from . import _runtime
from ._activity import TIMING_MEMCPY, TIMING_MEMSET, activity
from ._device import Device
from ._runtime import DeviceLike
from ._stream import Stream

Shape = Union[SupportsIndex, Sequence[int]]

# Types of elements are named, as everywhere in the package.
int8 = "int8"
uint8 = "uint8"
int16 = "int16"
uint16 = "uint16"
int32 = "int32"
uint32 = "uint32"
int64 = "int64"
uint64 = "uint64"
float16 = "float16"
bfloat16 = "bfloat16"
float32 = "float32"
float64 = "float64"

NUMBERS = frozenset("bBhHiIlLqQnNefd?")
"""The formats of numbers in the module `struct`."""


def _dtype_of(dtype: Any) -> Any:
    """The name of the type that a type of Python stands for."""
    if dtype is float:
        return float32
    return int32 if dtype is int else dtype


def empty(shape: Shape, dtype: Any = float, device: DeviceLike = None, *, pinned: bool = False) -> Buffer:
    """Allocates memory in the order of the current stream of a device. It is filled with zeros, as by `zeros`.

    `shape` is a number of elements or a sequence of extents. `dtype` is ``float`` for float32, ``int`` for int32, or a type of
    NumPy or its name. With `pinned`, it is memory of the host that all devices can use, and the device is "cpu" or any.

    Raises ``RuntimeError`` for the device "cpu" without `pinned`, and ``MemoryError`` if there is not enough memory.
    """
    found = _runtime.get_device(device)
    if pinned:
        return _host_device(found).anabranch_context.allocate_pinned(shape, _dtype_of(dtype))
    if not found.is_cuda:
        raise RuntimeError("the device cpu has no memory here but pinned memory: pass pinned=True, or use NumPy")
    return found.stream.anabranch_stream.allocate(shape, _dtype_of(dtype))


def zeros(shape: Shape, dtype: Any = float, device: DeviceLike = None, *, pinned: bool = False) -> Buffer:
    """Allocates memory that is filled with zeros. The arguments and errors are those of `empty`."""
    return empty(shape, dtype, device, pinned=pinned)


def ones(shape: Shape, dtype: Any = float, device: DeviceLike = None, *, pinned: bool = False) -> Buffer:
    """Allocates memory that is filled with ones. The arguments and errors are those of `empty`."""
    return full(shape, 1, dtype, device, pinned=pinned)


def full(
    shape: Shape, value: float = 0, dtype: Any = None, device: DeviceLike = None, *, pinned: bool = False
) -> Buffer:
    """Allocates memory that is filled with a number, by default of its type. The rest is as for `empty`."""
    buffer = empty(shape, type(value) if dtype is None else dtype, device, pinned=pinned)
    stream = _stream_of(buffer)
    with activity(TIMING_MEMSET, stream, "memset"):
        stream.anabranch_stream.fill(buffer, value)
    return buffer


def empty_like(src: Buffer, device: DeviceLike = None, *, pinned: bool | None = None) -> Buffer:
    """Allocates memory of the shape and type of a buffer: on its device and pinned as it is, unless others are passed."""
    _require_buffer(src)
    pinned = (device is None and _is_pinned(src)) if pinned is None else pinned
    return empty(src.shape, src.dtype, _device_of(src) if device is None else device, pinned=pinned)


def zeros_like(src: Buffer, device: DeviceLike = None, *, pinned: bool | None = None) -> Buffer:
    """Like `empty_like`."""
    return empty_like(src, device, pinned=pinned)


def full_like(src: Buffer, value: float, device: DeviceLike = None, *, pinned: bool | None = None) -> Buffer:
    """Like `empty_like`, filled with a number."""
    buffer = empty_like(src, device, pinned=pinned)
    stream = _stream_of(buffer)
    with activity(TIMING_MEMSET, stream, "memset"):
        stream.anabranch_stream.fill(buffer, value)
    return buffer


def ones_like(src: Buffer, device: DeviceLike = None, *, pinned: bool | None = None) -> Buffer:
    """Like `full_like` with the number 1."""
    return full_like(src, 1, device, pinned=pinned)


def clone(src: Buffer, device: DeviceLike = None, *, pinned: bool | None = None) -> Buffer:
    """Copies a buffer to new memory, which is as that of `empty_like`."""
    buffer = empty_like(src, device, pinned=pinned)
    copy(buffer, src)
    return buffer


def from_numpy(arr: Any, dtype: Any = None, shape: Shape | None = None, device: DeviceLike = None) -> Buffer:
    """Copies an array of NumPy, or other data of the host, to new memory in the order of the device's current stream.

    Returns when the data can be changed. A list of numbers needs a `dtype`. Raises ``TypeError`` for other data.
    """
    found = _runtime.get_device(device)
    with activity(TIMING_MEMCPY, found.stream, "memcpy HtoD"):
        buffer = found.stream.anabranch_stream.upload(arr, _dtype_of(dtype))
    return buffer if shape is None else buffer.reshape(shape)


def from_dlpack(source: Any, device: DeviceLike = None) -> Buffer:
    """A buffer of the array of another library, without a copy, for the current stream of a device.

    Raises ``TypeError`` for an object that is no such array, and ``RuntimeError`` if its memory is on another device.
    """
    if isinstance(source, Buffer):
        return source
    found = _runtime.get_device(device)
    return found.anabranch_context.from_dlpack(source, stream=found.stream.anabranch_stream)


def to_dlpack(wp_array: Buffer) -> Any:
    """A capsule of a buffer for the other libraries that take capsules; others take the buffer itself."""
    _require_buffer(wp_array)
    return wp_array.__dlpack__()


def copy(
    dest: Any,
    src: Any,
    dest_offset: int = 0,
    src_offset: int = 0,
    count: int = 0,
    stream: Stream | None = None,
) -> None:
    """Copies `count` elements, by default all of `src`, in the order of a stream.

    One of the two is a buffer; the other one is a buffer or memory of the host, such as an array of NumPy, in row-major order.
    The stream is by default the current one of the device of `dest`, or else of `src`. A copy to memory of the host waits for
    the copy, and one from it returns when the memory can be changed.

    Raises ``RuntimeError`` for other objects, for offsets and counts that do not fit, and for elements of another size.
    """
    try:
        src_offset, dest_offset, count = map(operator.index, (src_offset, dest_offset, count))
    except TypeError as error:
        raise RuntimeError("Copy src_offset, dest_offset, and count must be integers") from error
    for what, number in (
        ("Source offset", src_offset),
        ("Destination offset", dest_offset),
        ("Copy count", count),
    ):
        if number < 0:
            raise RuntimeError(f"{what} must be non-negative, got {number}")
    to, source = _elements(dest), _elements(src)
    if isinstance(to, _HostElements) and isinstance(source, _HostElements):
        raise RuntimeError("Copy source and destination must be arrays, and one of them a buffer of anabranch")
    count = count or len(source)
    if count == 0:
        return
    _require_range(to, source, dest_offset, src_offset, count)
    stream = _copy_stream(dest, src) if stream is None else stream
    native = stream.anabranch_stream
    if isinstance(to, Buffer) and isinstance(source, Buffer):
        with activity(TIMING_MEMCPY, stream, "memcpy DtoD"):
            native.copy(to[dest_offset : dest_offset + count], source[src_offset : src_offset + count])
    elif isinstance(to, Buffer) and isinstance(source, _HostElements):
        with activity(TIMING_MEMCPY, stream, "memcpy HtoD"):
            native.copy_from_host(to[dest_offset : dest_offset + count], source.part(src_offset, count))
    elif isinstance(to, _HostElements) and isinstance(source, Buffer):
        with activity(TIMING_MEMCPY, stream, "memcpy DtoH"):
            native.copy_to_host(to.part(dest_offset, count), source[src_offset : src_offset + count])


class _HostElements:
    """The elements of memory of the host, in one dimension."""

    def __init__(self, array: Any) -> None:
        try:
            view = memoryview(array)
        except TypeError as error:
            raise RuntimeError("Copy source and destination must be arrays") from error
        if not view.c_contiguous:
            raise RuntimeError("memory of the host is copied in row-major order: make a contiguous copy of it first")
        if view.format.lstrip("@=<") not in NUMBERS:
            raise RuntimeError(f"memory of the host with elements of {view.format!r} cannot be copied: convert them")
        self.itemsize = view.itemsize
        self.dtype = view.format
        # There is no view of no elements in several dimensions.
        self.bytes = view.cast("B") if view.nbytes else memoryview(b"")

    def __len__(self) -> int:
        return len(self.bytes) // self.itemsize

    def part(self, start: int, count: int) -> memoryview:
        """The bytes of a part."""
        return self.bytes[start * self.itemsize : (start + count) * self.itemsize]


def _elements(array: Any) -> Buffer | _HostElements:
    return array.reshape(array.size) if isinstance(array, Buffer) else _HostElements(array)


def _require_range(
    to: Buffer | _HostElements, source: Buffer | _HostElements, dest_offset: int, src_offset: int, count: int
) -> None:
    size = source.itemsize
    is_other = isinstance(to, Buffer) and isinstance(source, Buffer) and to.dtype != source.dtype
    if is_other or to.itemsize != size:
        raise RuntimeError(
            f"Incompatible array data types: destination dtype={to.dtype}, source dtype={source.dtype}"
        )
    for part, preposition, offset, whole in (
        ("source", "from", src_offset, source),
        ("destination", "to", dest_offset, to),
    ):
        if offset + count > len(whole):
            raise RuntimeError(
                f"Trying to copy source buffer with size ({count * size}) {preposition} offset ({offset * size}) "
                f"is larger than {part} size ({len(whole) * size})"
            )


def _require_buffer(array: object) -> None:
    if not isinstance(array, Buffer):
        raise TypeError(f"a buffer of anabranch is needed, and not {type(array).__name__}")


def _is_pinned(buffer: Buffer) -> bool:
    from .._anabranch import PinnedBuffer

    return isinstance(buffer, PinnedBuffer)


def _host_device(device: Device) -> Device:
    """The device whose context has pinned memory."""
    return device if device.is_cuda else _runtime.get_cuda_device()


def _device_of(buffer: Buffer) -> Device:
    return _runtime.get().device_of(buffer.context)


def _stream_of(buffer: Buffer) -> Stream:
    """The stream that uses a buffer if none is passed."""
    return _device_of(buffer).stream


def _copy_stream(dest: Any, src: Any) -> Stream:
    """The current stream of the destination's device, unless that is memory of the host."""
    if isinstance(dest, Buffer) and not (_is_pinned(dest) and isinstance(src, Buffer)):
        return _stream_of(dest)
    return _stream_of(src)
