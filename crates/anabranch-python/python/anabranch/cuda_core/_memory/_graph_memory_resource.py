"""Memory that graphs allocate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _state
from .._stream import Stream, Stream_accept
from .._utils.classes import Uncopied
from .._utils.cuda_utils import call, read_bool, size_of
from ._buffer import Buffer
from ._pool import free
from ._resource import MemoryResource

if TYPE_CHECKING:
    from ... import _anabranch
    from .._device import Device
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType

__all__ = ["GraphMemoryResource"]


class GraphMemoryResourceAttributes:
    """How much memory the graphs of a device have for what they allocate, in bytes."""

    _device_id: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "GraphMemoryResourceAttributes cannot be instantiated directly. Please use MemoryResource APIs."
        )

    @classmethod
    def _init(cls, device_id: int) -> GraphMemoryResourceAttributes:
        attributes = cls.__new__(cls)
        attributes._device_id = device_id
        return attributes

    @property
    def _device(self) -> _anabranch.Device:
        # Not the object itself, which cannot be pickled.
        return _state.devices()[self._device_id]

    def _number(self, name: str) -> int:
        return call(self._device.graph_memory)[name]

    def _reset(self, name: str, value: int, *, reserved: bool) -> None:
        if value != 0:
            raise AttributeError(f"Attribute {name!r} may only be set to zero (got {value}).")
        call(self._device.reset_graph_memory_high, reserved=reserved)

    @property
    def reserved_mem_current(self) -> int:
        """What graphs have from the device."""
        return self._number("reserved_bytes")

    @property
    def reserved_mem_high(self) -> int:
        """The most that graphs have had from the device. Set it to 0 to begin anew."""
        return self._number("reserved_bytes_high")

    @reserved_mem_high.setter
    def reserved_mem_high(self, value: int) -> None:
        self._reset("reserved_mem_high", value, reserved=True)

    @property
    def used_mem_current(self) -> int:
        """What graphs use."""
        return self._number("used_bytes")

    @property
    def used_mem_high(self) -> int:
        """The most that graphs have used. Set it to 0 to begin anew."""
        return self._number("used_bytes_high")

    @used_mem_high.setter
    def used_mem_high(self, value: int) -> None:
        self._reset("used_mem_high", value, reserved=False)

    def __repr__(self) -> str:
        names = ("reserved_mem_current", "reserved_mem_high", "used_mem_current", "used_mem_high")
        return f"GraphMemoryResourceAttributes({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


class GraphMemoryResource(Uncopied, MemoryResource):
    """Memory that a graph allocates when it is launched. Only the builder that allocates it can use it."""

    _device_id: int

    def __init__(self, device_id: Device | int) -> None:
        from .._device import Device

        self._device_id = Device(device_id).device_id

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> Buffer:
        """Adds an allocation of so many bytes, filled with zeros, to a graph. Raises `RuntimeError` for a stream that does
        not capture.
        """
        size = size_of(size)
        into = Stream_accept(stream)
        inner = into._open()
        if not read_bool(inner, "is_capturing"):
            raise RuntimeError(
                f"{type(self).__name__} cannot perform memory operations on a non-capturing stream."
            )
        return Buffer._of(call(inner.allocate, size, "int8"), size, self, into)

    def deallocate(self, ptr: DevicePointerType, size: int, *, stream: Stream | GraphBuilder) -> None:
        """Adds the end of the buffer of this address to the graph."""
        free(ptr, size, stream)

    def close(self) -> None:
        """Does nothing."""

    def trim(self) -> None:
        """Returns memory that graphs have and do not use to the device."""
        call(_state.devices()[self._device_id].trim_graph_memory)

    @property
    def attributes(self) -> GraphMemoryResourceAttributes:
        """How much memory graphs have."""
        return GraphMemoryResourceAttributes._init(self._device_id)

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
