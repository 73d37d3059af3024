"""Devices, by the former names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _device

if TYPE_CHECKING:
    from .._memory import Buffer
    from .._stream import Stream
    from ..graph import GraphBuilder

__all__ = ["Device"]


class Device(_device.Device):
    """A device by its number, or the current one, whose `allocate` needs no stream."""

    def allocate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, size: int, stream: Stream | GraphBuilder | None = None
    ) -> Buffer:
        """Allocates so many bytes in the order of a stream, or of the default stream."""
        return super().allocate(size, stream=self.default_stream if stream is None else stream)
