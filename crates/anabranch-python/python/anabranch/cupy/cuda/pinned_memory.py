"""Takes the place of ``cupy.cuda.pinned_memory``: memory of the host that copies in stream order use."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from ._arguments import c_long, c_size, refuse_to_copy
from ._owned import pinned_memory

__all__ = ["PinnedMemory", "PinnedMemoryPointer", "alloc_pinned_memory"]


class PinnedMemory:
    """Pinned memory, which is freed with this object. That waits until the device is idle."""

    def __init__(self, size: int, flags: int = 0) -> None:
        self.ptr = 0
        self.size = c_size(size)
        self._owned = pinned_memory(self.size, flags)
        self.ptr = self._owned.address if self._owned else 0

    def __int__(self) -> int:
        return self.ptr

    __reduce__ = refuse_to_copy


class PinnedMemoryPointer:
    """A place in pinned memory, which it keeps: ``offset`` bytes behind its beginning. NumPy sees what follows as bytes."""

    __slots__ = ("_mem", "_offset", "_ptr")

    def __init__(self, mem: PinnedMemory, offset: int) -> None:
        self._mem = mem
        self._offset = c_long(offset)
        self._ptr = mem.ptr + self._offset

    @property
    def mem(self) -> PinnedMemory:
        """The memory."""
        return self._mem

    @property
    def ptr(self) -> int:
        """The address."""
        return self._ptr

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(self._mem, self._offset + c_long(offset))

    __radd__ = __add__

    def __sub__(self, offset: int) -> PinnedMemoryPointer:
        return self + -offset

    def size(self) -> int:
        """The number of bytes that follow."""
        return self._mem.size - self._offset

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The bytes for NumPy."""
        return {"shape": (self.size(),), "typestr": "|u1", "data": (self.ptr, False), "strides": None, "version": 3}

    def _view(self) -> memoryview:
        """A view that keeps this object, whoever asks for it."""
        if not self.size():
            return memoryview(b"")
        array = (ctypes.c_uint8 * self.size()).from_address(self.ptr)
        array.owner = self  # type: ignore[attr-defined]  # arrays of ctypes have attributes
        return memoryview(array).cast("B")

    if sys.version_info >= (3, 12):

        def __buffer__(self, flags: int, /) -> memoryview:
            return self._view()


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Allocates pinned memory."""
    return PinnedMemoryPointer(PinnedMemory(size), 0)
