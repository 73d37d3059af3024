"""Memory resources that allocate at once, where `cuda.core` has pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import _anabranch
from .._stream import Stream
from ._pool import free
from ._process import ProcessMemoryResource

if TYPE_CHECKING:
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType


class AtOnceMemoryResource(ProcessMemoryResource):
    """Memory that is allocated at once, and freed behind its uses and the work of its stream."""

    def _begin(self, options: Any) -> None:
        """Without options it is the memory of the driver, which is not closed."""
        self._is_owned, self._is_closed = options is not None, False

    def _context_of(self, stream: Stream) -> _anabranch.Context:
        if self._is_closed:
            raise RuntimeError(f"{type(self).__name__} has been closed")
        return stream._open().context

    def deallocate(self, ptr: DevicePointerType, size: int, *, stream: Stream | GraphBuilder) -> None:
        """Frees the buffer of this address in the order of a stream."""
        free(ptr, size, stream)

    def close(self) -> None:
        """Ends allocations, if the resource was made with options. Buffers remain valid."""
        self._is_closed = self._is_owned

    @property
    def device_id(self) -> int:
        """-1: it is of no device."""
        return -1

    @property
    def is_device_accessible(self) -> bool:
        """True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """True."""
        return True
