"""Takes the place of ``cupy.cuda.memory``: memory by addresses, and the pool for stream-ordered allocation."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import runtime
from ._arguments import address, c_int, c_size, refuse_to_copy
from ._owned import device_memory, managed_memory, memory_in_order
from ._pool import MemoryAsyncPool, OutOfMemoryError
from ._pointer import BaseMemory, MemoryPointer
from .stream import _handle_of, get_current_stream

__all__ = [
    "BaseMemory",
    "ManagedMemory",
    "Memory",
    "MemoryAsync",
    "MemoryAsyncPool",
    "MemoryPointer",
    "OutOfMemoryError",
    "UnownedMemory",
    "alloc",
    "get_allocator",
    "malloc_async",
    "malloc_managed",
    "set_allocator",
    "using_allocator",
]


class Memory(BaseMemory):
    """Memory of the current device, which is freed with this object."""

    __slots__ = ("_owned",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = c_size(size)
        self.device_id = runtime.getDevice()
        self._owned = device_memory(self.size)
        self.ptr = self._owned.address if self._owned else 0

    __reduce__ = refuse_to_copy


class MemoryAsync(BaseMemory):
    """Memory of the current device that is allocated in stream order, and freed with this object in the same stream.

    All work that uses it is ordered before that, by the program. The stream is kept.
    """

    __slots__ = ("_owned", "_stream")

    def __init__(self, size: int, stream: Any) -> None:
        super().__init__()
        self.size = c_size(size)
        self.device_id = runtime.getDevice()
        self._stream = stream
        self._owned = memory_in_order(self.size, stream)
        self.ptr = self._owned.address if self._owned else 0

    @property
    def stream_ref(self) -> Callable[[], Any]:
        """A function that returns the stream."""
        stream = self._stream
        return lambda: stream

    __reduce__ = refuse_to_copy


class ManagedMemory(BaseMemory):
    """Managed memory, which is freed with this object."""

    __slots__ = ("_owned",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = c_size(size)
        self.device_id = runtime.getDevice()
        self._owned = managed_memory(self.size)
        self.ptr = self._owned.address if self._owned else 0

    def prefetch(self, stream: Any, *, device_id: int = runtime.cudaInvalidDeviceId) -> None:
        """Moves the memory in stream order to a device (by default its own), or to the host (-1)."""
        target = self.device_id if device_id == runtime.cudaInvalidDeviceId else device_id
        runtime.memPrefetchAsync(self.ptr, self.size, target, _handle_of(stream))

    __reduce__ = refuse_to_copy


class UnownedMemory(BaseMemory):
    """Memory of somebody else. ``owner`` is kept. Without a device, the driver is asked for it."""

    __slots__ = ("_owner",)

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        super().__init__()
        ptr, size, device_id = address(ptr), c_size(size), c_int(device_id)
        if device_id < 0:
            attributes = runtime.pointerGetAttributes(ptr) if ptr else None
            known = attributes is not None and attributes.device >= 0
            device_id = attributes.device if attributes is not None and known else runtime.getDevice()
        self.ptr = ptr
        self.size = size
        self.device_id = device_id
        self._owner = owner


def malloc_async(size: int) -> MemoryPointer:
    """Allocates memory in the order of the current stream."""
    return MemoryPointer(MemoryAsync(size, get_current_stream()), 0)


def malloc_managed(size: int) -> MemoryPointer:
    """Allocates managed memory."""
    return MemoryPointer(ManagedMemory(size), 0)


def _malloc(size: int) -> MemoryPointer:
    return MemoryPointer(Memory(size), 0)


_Allocator = Callable[[int], MemoryPointer]


class _Chosen(threading.local):
    allocator: _Allocator | None = None


_CHOSEN = _Chosen()
_allocator: _Allocator = malloc_async


def alloc(size: int) -> MemoryPointer:
    """Calls the current allocator."""
    return get_allocator()(size)


def get_allocator() -> Callable[[int], MemoryPointer]:
    """The current allocator of this thread: `malloc_async`, unless another one was chosen."""
    return _CHOSEN.allocator or _allocator


def set_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> None:
    """Chooses the allocator of all threads. ``None`` allocates and frees without streams."""
    global _allocator
    if _CHOSEN.allocator is not None:
        raise ValueError("Can't change the global allocator inside `using_allocator` context manager")
    _allocator = _malloc if allocator is None else allocator


@contextlib.contextmanager
def using_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> Iterator[None]:
    """Chooses the allocator of this thread within ``with``."""
    former = _CHOSEN.allocator
    _CHOSEN.allocator = _malloc if allocator is None else allocator
    try:
        yield
    finally:
        _CHOSEN.allocator = former
