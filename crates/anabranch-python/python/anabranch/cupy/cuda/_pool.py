"""The pool for stream-ordered allocation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from anabranch._anabranch import _free_later

from . import runtime
from ._arguments import c_size
from ._pointer import MemoryPointer
from .device import Device, get_device_id
from .stream import get_current_stream

_OUT_OF_MEMORY = 2
_BLOCK = 512


class OutOfMemoryError(MemoryError):
    """There is not enough memory on the device."""

    __module__ = "anabranch.cupy.cuda.memory"

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        self._arguments = (size, total, limit)
        message = f"Out of memory allocating {size:,} bytes"
        if (total, limit) != (-1, 0):
            bound = f", limit set to: {limit:,} bytes" if limit else ""
            message += f" (allocated so far: {total:,} bytes{bound})."
        super().__init__(message)

    def __reduce__(self) -> tuple[type[OutOfMemoryError], tuple[Any, ...]]:
        return type(self), self._arguments


def _limit() -> dict[str, Any]:
    """The limit that the environment variable CUPY_GPU_MEMORY_LIMIT sets: bytes, or a percentage."""
    text = os.environ.get("CUPY_GPU_MEMORY_LIMIT", "").strip()
    if not text:
        return {}
    try:
        return {"fraction": float(text[:-1]) / 100} if text.endswith("%") else {"size": int(text)}
    except ValueError:
        raise ValueError(
            "CUPY_GPU_MEMORY_LIMIT must contain either an integer (size in bytes) or a percentage (e.g. 90%)"
        ) from None


class MemoryAsyncPool:
    """Allocates in stream order from pools of the driver, one of each device.

    Args:
        pool_handles: ``'default'`` (the default pool of each device), ``'current'`` (the one that `mallocAsync` uses), the handle
            of a pool, or a sequence with one of these for each device.
    """

    __module__ = "anabranch.cupy.cuda.memory"
    __slots__ = ("_pools",)

    def __init__(self, pool_handles: str | int | Sequence[str | int] = "current") -> None:
        limit = _limit()
        self._pools: list[int] = []
        for number in range(runtime.getDeviceCount()):
            single = isinstance(pool_handles, (str, int))
            handle: Any = pool_handles if single else pool_handles[number]  # type: ignore[index]
            with Device(number):
                self._pools.append(_choose(handle, number))
                self.set_limit(**limit)

    @property
    def _pool(self) -> int:
        return self._pools[get_device_id()]

    def malloc(self, size: int) -> MemoryPointer:
        """Allocates memory of the current device in the order of the current stream.

        If there is not enough, waits for the current stream, and tries again.
        """
        from .memory import malloc_async

        size = c_size(size)
        rounded = (size + _BLOCK - 1) // _BLOCK * _BLOCK
        cause: Exception | None = None
        for _ in range(3):
            try:
                return malloc_async(rounded)
            except runtime.CUDARuntimeError as error:
                if error.status != _OUT_OF_MEMORY:
                    raise
                cause = error
                get_current_stream().synchronize()
        raise OutOfMemoryError(size, -1, 0) from cause

    def free_all_blocks(self, stream: Any = None) -> None:
        """Waits for a stream, or for the current one, and returns memory that nobody uses to the device."""
        _free_later()
        (get_current_stream() if stream is None else stream).synchronize()
        runtime.memPoolTrimTo(self._pool, 0)

    def n_free_blocks(self) -> int:
        """Not supported, as in CuPy: a pool of the driver does not say its blocks."""
        raise NotImplementedError("This function is not supported in MemoryAsyncPool")

    def used_bytes(self) -> int:
        """The number of bytes in use by allocations."""
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrUsedMemCurrent)

    def free_bytes(self) -> int:
        """The number of bytes that the pool has and nobody uses."""
        return self.total_bytes() - self.used_bytes()

    def total_bytes(self) -> int:
        """The number of bytes that the pool has."""
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrReservedMemCurrent)

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Sets how many bytes the pool keeps at a synchronization, as a number or as a fraction of the device's memory."""
        if size is None:
            if fraction is None:
                size = 0
            elif not 0 <= fraction <= 1:
                raise ValueError(f"memory limit fraction out of range: {fraction}")
            else:
                size = int(fraction * runtime.memGetInfo()[1])
        elif fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        runtime.memPoolSetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold, size)

    def get_limit(self) -> int:
        """How many bytes the pool keeps at a synchronization."""
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold)


def _choose(handle: Any, number: int) -> int:
    if handle == "default":
        pool = runtime.deviceGetDefaultMemPool(number)
    elif handle == "current":
        pool = runtime.deviceGetMemPool(number)
    elif isinstance(handle, int):
        pool = handle
    else:
        raise ValueError(
            "handle must be 'default' (for the device's default pool), 'current' (for the device's current pool), "
            "or int (a pointer to cudaMemPool_t)"
        )
    runtime.deviceSetMemPool(number, pool)
    return pool
