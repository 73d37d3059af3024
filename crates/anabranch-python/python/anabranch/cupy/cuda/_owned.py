"""Memory that is freed with the object that has it. Sizes of 0 are no memory, and the address 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch._anabranch import _free_later

from . import _devices
from ._errors import of_runtime
from ._runtime_memory import _POOLS
from .stream import _native_of

if TYPE_CHECKING:
    from anabranch._anabranch import _OwnedMemory


@of_runtime
def device_memory(size: int) -> _OwnedMemory | None:
    """Memory of the current device."""
    _free_later()
    return _devices.raw().memory._own(size) if size else None


@of_runtime
def managed_memory(size: int) -> _OwnedMemory | None:
    """Managed memory."""
    _free_later()
    return _devices.raw().memory._own_managed(size) if size else None


@of_runtime
def pinned_memory(size: int, flags: int) -> _OwnedMemory | None:
    """Pinned memory of the host."""
    _free_later()
    return _devices.raw().memory._own_pinned(size, flags) if size else None


@of_runtime
def memory_in_order(size: int, stream: Any) -> _OwnedMemory | None:
    """Memory of the current device in the order of a stream, from the device's current pool."""
    _free_later()
    if not size:
        return None
    return _devices.raw().memory._own_async(size, _native_of(stream), _POOLS.get(_devices.current()))
