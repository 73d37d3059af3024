"""Memory that graphs allocate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _state
from .._stream import Stream, Stream_accept
from .._utils.cuda_utils import call, read_bool
from ._buffer import Buffer
from ._pool import free
from ._resource import MemoryResource

if TYPE_CHECKING:
    from .._device import Device
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType

__all__ = ["GraphMemoryResource"]


class GraphMemoryResource(MemoryResource):
    """Memory that a graph allocates when it is launched. Only the builder that allocates it can use it."""

    _device_id: int

    def __init__(self, device_id: Device | int) -> None:
        from .._device import Device

        self._device_id = Device(device_id).device_id

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> Buffer:
        """Adds an allocation of so many bytes, filled with zeros, to a graph. Raises `RuntimeError` for a stream that does
        not capture.
        """
        into = Stream_accept(stream)
        inner = into._open()
        if not read_bool(inner, "is_capturing"):
            raise RuntimeError(
                f"{type(self).__name__} cannot perform memory operations on a non-capturing stream."
            )
        return Buffer._of(call(inner.allocate, size, "int8"), size, self, into)

    def deallocate(self, ptr: DevicePointerType, size: int, *, stream: Stream | GraphBuilder) -> None:
        """Adds the end of the buffer of this address to the graph."""
        Stream_accept(stream)
        free(ptr, stream)

    def close(self) -> None:
        """Does nothing."""

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._device_id

    @property
    def is_device_accessible(self) -> bool:
        """True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can use the memory: that of the software device, and not that of a GPU."""
        return _state.devices()[self._device_id].backend == "host"
