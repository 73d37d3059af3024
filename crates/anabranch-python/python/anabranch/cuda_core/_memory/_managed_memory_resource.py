"""Managed memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._stream import Stream, Stream_accept
from .._utils.classes import CheckedOptions, Uncopied, optional_int
from .._utils.cuda_utils import call, check_or_create_options, size_of
from ..typing import ManagedMemoryLocationType
from ._at_once import AtOnceMemoryResource
from ._managed_buffer import ManagedBuffer

if TYPE_CHECKING:
    from ..graph import GraphBuilder

__all__ = ["ManagedMemoryResource", "ManagedMemoryResourceOptions"]


@dataclass(slots=True)
class ManagedMemoryResourceOptions(CheckedOptions):
    """Where managed memory is preferably. Only the defaults are supported here."""

    preferred_location: int | None = None
    preferred_location_type: ManagedMemoryLocationType | str | None = None

    _checks = {"preferred_location": optional_int}


class ManagedMemoryResource(Uncopied, AtOnceMemoryResource):
    """Managed memory, filled with zeros, which the host and devices use at one address. It is allocated at once, and freed behind
    its uses and the work of its stream.

    Raises `RuntimeError` for options other than the defaults.
    """

    def __init__(self, options: ManagedMemoryResourceOptions | None = None) -> None:
        chosen = check_or_create_options(ManagedMemoryResourceOptions, options, "ManagedMemoryResource options")
        if chosen != ManagedMemoryResourceOptions():
            raise RuntimeError("managed memory has no preferred location here: use the default options")
        self._begin(options)

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> ManagedBuffer:
        """Allocates so many bytes in the context of a stream."""
        size = size_of(size)
        into = Stream_accept(stream)
        inner = call(self._context_of(into).allocate_managed, size, "int8")
        return ManagedBuffer._of(inner, size, self, into)

    @property
    def preferred_location(self) -> tuple[ManagedMemoryLocationType, int | None] | None:
        """``None``: the driver decides."""
        return None

    @property
    def is_managed(self) -> bool:
        """True."""
        return True
