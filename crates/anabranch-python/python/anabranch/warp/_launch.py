"""Launches of kernels."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from .._anabranch import Kernel
from . import _runtime, config
from ._activity import TIMING_KERNEL, activity
from ._logger import get_logger
from ._runtime import DeviceLike
from ._stream import Stream
from ._synchronize import synchronize_stream

DEFAULT_BLOCK = 256


def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    device: DeviceLike = None,
    stream: Stream | None = None,
    block_dim: int | None = None,
) -> None:
    """Launches a kernel of the package `anabranch` in a stream, or in the current stream of a device.

    It runs in as many blocks of `block_dim` threads, by default 256, as are needed for the product of `dim`: the last block may
    have threads too many, so that the kernel compares its index with a number that is passed. Its arguments are `inputs`, and
    then `outputs`, as for ``anabranch.Stream.launch``. Without elements, nothing is launched.

    Raises ``RuntimeError`` for other kernels, negative extents, and arguments that do not fit.
    """
    if not isinstance(kernel, Kernel):
        raise RuntimeError("Error launching kernel, can only launch functions decorated with @wp.kernel.")
    if stream is None:
        stream = _runtime.get_device(device).stream
    extents = [operator.index(extent) for extent in (dim if isinstance(dim, Sequence) else [dim])]
    if any(extent < 0 for extent in extents):
        raise RuntimeError(f"the extents of a launch are not negative: {extents}")
    arguments = [*inputs, *outputs]
    if config.print_launches:
        get_logger().info(f"kernel: {kernel.name} dim: {dim} inputs: {inputs} outputs: {outputs} device: {stream.device}")
    count = math.prod(extents)
    if count == 0:
        return
    block = DEFAULT_BLOCK if block_dim is None else block_dim
    if block < 1:
        raise RuntimeError(f"a block has at least one thread, and not {block}")
    with activity(TIMING_KERNEL, stream, f"forward kernel {kernel.name}"):
        stream.anabranch_stream.launch(kernel, (-(-count // block), block), *arguments)
    if config.verify_cuda:
        synchronize_stream(stream)
