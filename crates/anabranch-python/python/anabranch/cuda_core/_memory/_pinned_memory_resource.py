"""Pinned memory of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _state
from .._stream import Stream, Stream_accept
from .._utils.classes import CheckedOptions, optional_int
from .._utils.cuda_utils import call, check_or_create_options, size_of
from ._at_once import AtOnceMemoryResource
from ._buffer import Buffer
from ._pool import free
from ._resource import MemoryResource

if TYPE_CHECKING:
    from ... import _anabranch
    from ..graph import GraphBuilder
    from ..typing import DevicePointerType

__all__ = ["LegacyPinnedMemoryResource", "PinnedMemoryResource", "PinnedMemoryResourceOptions"]


@dataclass(slots=True)
class PinnedMemoryResourceOptions(CheckedOptions):
    """Options of a pool of pinned memory. Only the defaults are supported here."""

    ipc_enabled: bool = False
    max_size: int = 0
    numa_id: int | None = None

    _checks = {"ipc_enabled": bool, "max_size": optional_int, "numa_id": optional_int}


def _allocate(
    context: _anabranch.Context, size: int, resource: MemoryResource, stream: Stream | None
) -> Buffer:
    return Buffer._of(call(context.allocate_pinned, size, "int8"), size, resource, stream)


class PinnedMemoryResource(AtOnceMemoryResource):
    """Pinned memory, filled with zeros. It is allocated at once, and freed behind its uses and the work of its stream.

    Raises `RuntimeError` for options other than the defaults.
    """

    def __init__(self, options: PinnedMemoryResourceOptions | None = None) -> None:
        chosen = check_or_create_options(PinnedMemoryResourceOptions, options, "PinnedMemoryResource options")
        if chosen != PinnedMemoryResourceOptions():
            raise RuntimeError("pinned memory is not of pools here: use the default options")
        self._begin(options)

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> Buffer:
        """Allocates so many bytes in the context of a stream."""
        size = size_of(size)
        into = Stream_accept(stream)
        return _allocate(self._context_of(into), size, self, into)

    @property
    def numa_id(self) -> int:
        """-1: the operating system chooses the NUMA node."""
        return -1


class LegacyPinnedMemoryResource(MemoryResource):
    """Pinned memory, filled with zeros. It is allocated at once, and freed behind its uses."""

    def allocate(self, size: int, *, stream: Stream | GraphBuilder | None = None) -> Buffer:
        """Allocates so many bytes in the current context. The stream is not used."""
        if stream is not None:
            Stream_accept(stream)
        size = size_of(size)
        return _allocate(_state.current_context()._open(), size, self, None)

    def deallocate(
        self, ptr: DevicePointerType, size: int, *, stream: Stream | GraphBuilder | None = None
    ) -> None:
        """Frees the buffer of this address. With a stream, waits for its work before."""
        into = None if stream is None else Stream_accept(stream)
        if into is not None:
            into.sync()
        free(ptr or 0, size, into if into is not None else Stream._legacy_default())

    @property
    def device_id(self) -> int:
        """Raises `RuntimeError`: it is of no device."""
        raise RuntimeError("a pinned memory resource is not bound to any GPU")

    @property
    def is_device_accessible(self) -> bool:
        """True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """True."""
        return True
