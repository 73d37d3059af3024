"""Launches."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _anabranch
from ._launch_config import LaunchConfig
from ._memory._buffer import Buffer, buffer_at
from ._module import Kernel
from ._stream import Stream, Stream_accept
from ._utils.cuda_utils import call, check_argument
from .graph._condition import GraphCondition

if TYPE_CHECKING:
    from ._context import Context
    from .graph import GraphBuilder
    from .typing import IsStreamType

__all__ = ["launch"]

POINTER_BYTES = 8


def launch(
    stream: Stream | GraphBuilder | IsStreamType, config: LaunchConfig, kernel: Kernel, *kernel_args: Any
) -> None:
    """Launches a kernel in a stream, or adds it to the graph that a builder captures.

    Arguments are buffers, addresses and other ints, floats, bools, numbers of NumPy and ctypes, complex numbers, and
    conditions of graphs. They have to be of the sizes that the kernel declares; an int or a float gets that size.

    Raises `TypeError` for arguments of other types, and `ValueError` for a cooperative launch that is too large.
    """
    check_argument("config", config, LaunchConfig)
    check_argument("kernel", kernel, Kernel)
    into = Stream_accept(stream, allow_stream_protocol=True)
    inner, context = into._open(), into.context
    library = context._open()
    launched = kernel._in(context)
    if config.is_cooperative:
        _check_cooperative(config, launched, library.device)
    call(inner.launch, launched, config._to_library(), *library_arguments(kernel_args, launched, context))


def library_arguments(arguments: Iterable[Any], kernel: _anabranch.Kernel, context: Context) -> list[Any]:
    """Arguments as the package takes them."""
    library = context._open()
    return [_argument(value, position, kernel, library) for position, value in enumerate(arguments)]


def _check_cooperative(config: LaunchConfig, kernel: _anabranch.Kernel, device: _anabranch.Device) -> None:
    threads = math.prod(config.block)
    fitting = call(kernel.max_active_blocks, threads, dynamic_shared_bytes=config.shmem_size)
    limit = fitting * device.properties["multiprocessor_count"]
    if math.prod(config.grid) > limit:
        x, y, z = config.grid
        raise ValueError(f"The specified grid size ({x} * {y} * {z}) exceeds the limit ({limit})")


def _argument(value: Any, position: int, kernel: _anabranch.Kernel, context: _anabranch.Context) -> Any:
    """An argument as the package takes it."""
    if isinstance(value, Buffer):
        return value._open(context)
    if isinstance(value, (int, float)):
        # The address of a buffer stands for it, so that uses are ordered and the memory is kept.
        buffer = buffer_at(value) if type(value) is int else None
        if buffer is not None and _size(kernel, position) == POINTER_BYTES:
            return buffer._open(context)
        return value
    if isinstance(value, GraphCondition):
        return value.handle
    if isinstance(value, complex):
        return struct.pack("=ff" if _size(kernel, position) == POINTER_BYTES else "=dd", value.real, value.imag)
    if isinstance(value, (_anabranch.Buffer, _anabranch.Reads, _anabranch.Scalar)):
        return value
    try:
        memoryview(value)
    except TypeError:
        raise TypeError(f"the argument is of unsupported type: {type(value)}") from None
    return value


def _size(kernel: _anabranch.Kernel, position: int) -> int | None:
    """The bytes of a parameter, if they are known."""
    sizes = kernel.parameters or []
    return sizes[position] if position < len(sizes) else None
