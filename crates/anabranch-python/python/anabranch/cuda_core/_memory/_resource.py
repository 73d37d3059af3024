"""What all memory resources have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._stream import Stream
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType
    from ._buffer import Buffer

__all__ = ["MemoryResource"]


class MemoryResource:
    """Where buffers come from. A class of a program's own has these methods, and makes buffers by `Buffer.from_handle`.

    Each raises `TypeError` here.
    """

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> Buffer:
        """Allocates so many bytes in the order of a stream."""
        raise TypeError("MemoryResource.allocate must be implemented by subclasses.")

    def deallocate(self, ptr: DevicePointerType, size: int, *, stream: Stream | GraphBuilder) -> None:
        """Frees what was allocated, in the order of a stream."""
        raise TypeError("MemoryResource.deallocate must be implemented by subclasses.")

    @property
    def is_device_accessible(self) -> bool:
        """Whether devices can use the memory."""
        raise TypeError("MemoryResource.is_device_accessible must be implemented by subclasses.")

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can use the memory."""
        raise TypeError("MemoryResource.is_host_accessible must be implemented by subclasses.")

    @property
    def is_managed(self) -> bool:
        """Whether it is managed memory."""
        return False

    @property
    def device_id(self) -> int:
        """The number of the device, or -1."""
        raise TypeError("MemoryResource.device_id must be implemented by subclasses.")
