"""Memory resources that are pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import _anabranch
from .._stream import Stream, Stream_accept
from .._utils.classes import Uncopied
from .._utils.cuda_utils import CUDAError, call, read_bool, read_int, size_of
from ._buffer import Buffer, buffer_at
from ._process import ProcessMemoryResource

if TYPE_CHECKING:
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType


class _MemPoolAttributes(Uncopied):
    """How much memory a pool has, in bytes."""

    _pool: _anabranch.MemoryPool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "_MemPoolAttributes cannot be instantiated directly. Please use MemoryResource APIs."
        )

    @classmethod
    def _init(cls, pool: _anabranch.MemoryPool) -> _MemPoolAttributes:
        attributes = cls.__new__(cls)
        attributes._pool = pool
        return attributes

    @property
    def release_threshold(self) -> int:
        """What the pool keeps when it could return memory to the device."""
        return read_int(self._pool, "release_threshold")

    @property
    def reserved_mem_current(self) -> int:
        """What the pool has from the device."""
        return read_int(self._pool, "reserved_bytes")

    @property
    def reserved_mem_high(self) -> int:
        """The most that the pool has had from the device."""
        return read_int(self._pool, "reserved_bytes_high")

    @property
    def used_mem_current(self) -> int:
        """What allocations use."""
        return read_int(self._pool, "used_bytes")

    @property
    def used_mem_high(self) -> int:
        """The most that allocations have used."""
        return read_int(self._pool, "used_bytes_high")

    def __repr__(self) -> str:
        names = ("release_threshold", "reserved_mem_current", "reserved_mem_high", "used_mem_current", "used_mem_high")
        listed = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"_MemPoolAttributes({listed})"


class PoolMemoryResource(ProcessMemoryResource):
    """A memory resource that is a pool of the package."""

    _pool: _anabranch.MemoryPool

    def _open(self) -> _anabranch.MemoryPool:
        if self._is_closed:
            raise RuntimeError(f"{type(self).__name__} has been closed")
        return self._pool

    def close(self) -> None:
        """Gives up the pool. Buffers of it remain valid. Has no effect on the device's default pool."""
        if self._is_owned and not self._is_closed:
            self._is_closed = True
            call(self._pool.close)

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> Buffer:
        """Allocates so many bytes, filled with zeros, in the order of a stream.

        Raises `RuntimeError` for a stream that captures: use `GraphMemoryResource` there.
        """
        size = size_of(size)
        into = Stream_accept(stream)
        pool = self._open()
        inner = into._open()
        if read_bool(inner, "is_capturing"):
            raise RuntimeError(
                f"{type(self).__name__} cannot perform memory operations on a capturing stream (consider using "
                "GraphMemoryResource)."
            )
        return Buffer._of(call(inner.allocate, size, "int8", pool=pool), size, self, into)

    def deallocate(self, ptr: DevicePointerType, size: int, *, stream: Stream | GraphBuilder) -> None:
        """Frees the buffer of this address in the order of a stream. Raises `CUDAError` if there is none."""
        free(ptr, size, stream)

    @property
    def attributes(self) -> _MemPoolAttributes:
        """How much memory the pool has."""
        return _MemPoolAttributes._init(self._open())

    @property
    def handle(self) -> int:
        """The handle of the driver."""
        return read_int(self._open(), "handle")



def free(ptr: DevicePointerType, size: int, stream: Stream | GraphBuilder) -> None:
    """Frees the buffer of this address in the order of a stream."""
    size_of(size)
    Stream_accept(stream)
    address = size_of(ptr)
    buffer = buffer_at(address)
    if buffer is not None:
        buffer.close(stream)
    elif address:
        raise CUDAError(f"CUDA_ERROR_INVALID_VALUE: no buffer begins at {address:#x}")
