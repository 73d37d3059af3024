"""Buffers of managed memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from ..._errors import AnabranchError
from .._device import Device
from .._host import Host
from .._stream import Stream_accept
from .._utils.cuda_utils import CUDAError, call, describe
from ._buffer import Buffer

if TYPE_CHECKING:
    from .._stream import Stream
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType
    from ._resource import MemoryResource

__all__ = ["ManagedBuffer"]

INVALID_VALUE = 1


class ManagedBuffer(Buffer):
    """Managed memory of so many bytes. `ManagedMemoryResource.allocate` makes it."""

    @classmethod
    def from_handle(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        ptr: DevicePointerType,
        size: int,
        mr: MemoryResource | None = None,
        owner: object | None = None,
        *,
        stream: Stream | GraphBuilder | None = None,
    ) -> ManagedBuffer:
        """A buffer of managed memory at an address, as `Buffer.from_handle` makes it."""
        return cls._from_handle(ptr, size, mr, owner, stream)

    def _no_advice(self) -> NoReturn:
        self._require_open()
        raise CUDAError("CUDA_ERROR_NOT_SUPPORTED: the driver contract has no advice about managed memory")

    @property
    def read_mostly(self) -> bool:
        """Raises `CUDAError`: there is no advice about managed memory."""
        self._no_advice()

    @read_mostly.setter
    def read_mostly(self, value: bool) -> None:
        self._no_advice()

    @property
    def preferred_location(self) -> Device | Host | None:
        """Raises `CUDAError`: there is no advice about managed memory."""
        self._no_advice()

    @preferred_location.setter
    def preferred_location(self, value: Device | Host | None) -> None:
        self._no_advice()

    @property
    def accessed_by(self) -> set[Device | Host]:
        """Raises `CUDAError`: there is no advice about managed memory."""
        self._no_advice()

    @accessed_by.setter
    def accessed_by(self, locations: Iterable[Device | Host]) -> None:
        self._no_advice()

    def prefetch(self, location: Device | Host, *, stream: Stream | GraphBuilder) -> None:
        """Moves the memory to a device or to the host in the order of a stream, ahead of its use there.

        Raises `TypeError` for a NUMA node, and `ValueError` for memory that is not managed.
        """
        self._require_open()
        _require_location(location)
        inner = Stream_accept(stream)._open()
        memory = self._open(inner.context)
        try:
            if isinstance(location, Host) or location._library == inner.device:
                inner.prefetch(memory, to_host=isinstance(location, Host))
            else:
                raw = inner.context.raw.memory
                raw.prefetch_async(self._address, self._size, location._library.ordinal, inner.handle)
                inner.note_use(memory)
        except AnabranchError as error:
            if error.status == INVALID_VALUE:
                raise ValueError("prefetch requires a managed-memory allocation") from error
            raise CUDAError(describe(error)) from error

    def discard(self, *, stream: Stream | GraphBuilder) -> None:
        """Raises `NotImplementedError`: the contents are kept until the end of the memory."""
        self._require_open()
        Stream_accept(stream)
        raise NotImplementedError("discard is not in the driver contract")

    def discard_prefetch(self, location: Device | Host, *, stream: Stream | GraphBuilder) -> None:
        """Raises `NotImplementedError`: the contents are kept until the end of the memory."""
        self._require_open()
        _require_location(location)
        Stream_accept(stream)
        raise NotImplementedError("discard_prefetch is not in the driver contract")


def _require_location(location: Any) -> None:
    """Raises `TypeError` for what is no place, and `ValueError` for ``None``."""
    if location is None:
        raise ValueError("location is required")
    if not isinstance(location, (Device, Host)):
        raise TypeError(f"location must be a Device, Host, or None; got {type(location).__name__}")
    if isinstance(location, Host) and (location.numa_id is not None or location.is_numa_current):
        raise TypeError("Host(numa_id=...) / Host.numa_current() are not in the driver contract; use Host() instead")
