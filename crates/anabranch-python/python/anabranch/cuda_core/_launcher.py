"""Launches."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _anabranch
from .._errors import AnabranchError
from ._launch_config import LaunchConfig
from ._memory._buffer import Buffer, buffer_at
from ._module import Kernel
from ._stream import Stream, Stream_accept
from ._utils.cuda_utils import call, check_argument, failed
from .graph._condition import GraphCondition

if TYPE_CHECKING:
    from ._context import Context
    from .graph import GraphBuilder
    from .typing import IsStreamType

__all__ = ["launch"]

POINTER_BYTES = 8
# No buffer begins in the first page.
FIRST_ADDRESS = 4096
# Types of arguments that the package takes as they are.
_AS_THEY_ARE: set[type] = {bool, float, _anabranch.Buffer, _anabranch.Reads, _anabranch.Scalar}


def launch(
    stream: Stream | GraphBuilder | IsStreamType, config: LaunchConfig, kernel: Kernel, *kernel_args: Any
) -> None:
    """Launches a kernel in a stream, or adds it to the graph that a builder captures.

    Arguments are buffers, addresses and other ints, floats, bools, numbers of NumPy and ctypes, complex numbers, and
    conditions of graphs. They have to be of the sizes that the kernel declares; an int or a float gets that size.

    Raises `TypeError` for arguments of other types, and `ValueError` for a cooperative launch that is too large.
    """
    # Every call costs, and this one is made often: each step has a shorter way for what is usual.
    if not isinstance(config, LaunchConfig):
        check_argument("config", config, LaunchConfig)
    if not isinstance(kernel, Kernel):
        check_argument("kernel", kernel, Kernel)
    into = stream if isinstance(stream, Stream) else Stream_accept(stream, allow_stream_protocol=True)
    inner = into._inner or into._open()
    context = into._context or into.context
    launched = kernel._in(context)
    if config.is_cooperative:
        _check_cooperative(config, launched, context._open().device)
    converted = config._library or config._to_library()
    try:
        if kernel_args:
            inner.launch(launched, converted, *library_arguments(kernel_args, launched, context))
        else:
            inner.launch(launched, converted)
    except AnabranchError as error:
        raise failed(error) from error


def library_arguments(arguments: Iterable[Any], kernel: _anabranch.Kernel, context: Context) -> list[Any]:
    """Arguments as the package takes them."""
    library = context._open()
    converted: list[Any] = []
    sizes: list[int] | None = None
    for value in arguments:
        kind = type(value)
        if kind is Buffer and value._inner is not None:
            converted.append(value._inner)
        elif kind in _AS_THEY_ARE or (kind is int and 0 <= value < FIRST_ADDRESS):
            converted.append(value)
        else:
            if sizes is None:
                sizes = kernel.parameters or []
            size = sizes[len(converted)] if len(converted) < len(sizes) else None
            converted.append(_argument(value, size, library))
    return converted


def _check_cooperative(config: LaunchConfig, kernel: _anabranch.Kernel, device: _anabranch.Device) -> None:
    threads = math.prod(config.block)
    fitting = call(kernel.max_active_blocks, threads, dynamic_shared_bytes=config.shmem_size)
    limit = fitting * device.properties["multiprocessor_count"]
    if math.prod(config.grid) > limit:
        x, y, z = config.grid
        raise ValueError(f"The specified grid size ({x} * {y} * {z}) exceeds the limit ({limit})")


def _argument(value: Any, size: int | None, context: _anabranch.Context) -> Any:
    """An argument as the package takes it, for a parameter of so many bytes, if that is known."""
    if isinstance(value, Buffer):
        return value._open(context)
    if isinstance(value, (int, float)):
        # The address of a buffer stands for it, so that uses are ordered and the memory is kept.
        buffer = buffer_at(value) if type(value) is int else None
        if buffer is not None and size == POINTER_BYTES:
            return buffer._open(context)
        return value
    if isinstance(value, GraphCondition):
        return value.handle
    if isinstance(value, complex):
        return struct.pack("=ff" if size == POINTER_BYTES else "=dd", value.real, value.imag)
    if isinstance(value, (_anabranch.Buffer, _anabranch.Reads, _anabranch.Scalar)):
        return value
    try:
        memoryview(value)
    except TypeError:
        raise TypeError(f"the argument is of unsupported type: {type(value)}") from None
    if type(value).__module__ in ("numpy", "ctypes"):
        # A type of numbers, of which there are few.
        _AS_THEY_ARE.add(type(value))
    return value
