"""Contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from . import _state
from ._utils.classes import Uncopied

if TYPE_CHECKING:
    from .. import _anabranch
    from ._stream import Stream, StreamOptions

__all__ = ["Context"]


class Context(Uncopied):
    """A context of a device. `Device.context` and `Stream.context` return it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Context objects cannot be instantiated directly. Please use Device or Stream APIs.")

    _inner: _anabranch.Context | None
    _handle_value: int
    # That of the package's context.
    _id: int
    _device_id: int

    @classmethod
    def _of(cls, inner: _anabranch.Context, device_id: int) -> Context:
        context = cls.__new__(cls)
        context._inner, context._handle_value, context._device_id = inner, inner.handle, device_id
        context._id = inner.id
        return context

    def _open(self) -> _anabranch.Context:
        if self._inner is None:
            raise RuntimeError("Context has been closed")
        return self._inner

    @property
    def anabranch_context(self) -> _anabranch.Context:
        """The context of the package."""
        return self._open()

    @property
    def handle(self) -> int | None:
        """The handle of the driver, or ``None`` if this object is closed."""
        return None if self._inner is None else self._handle_value

    @property
    def _handle(self) -> int | None:
        return self.handle

    @property
    def is_closed(self) -> bool:
        """Whether this object is closed."""
        return self._inner is None

    @property
    def is_green(self) -> bool:
        """Whether it has a part of the device's multiprocessors only. It never has here."""
        self._open()
        return False

    def create_stream(self, options: StreamOptions | None = None) -> NoReturn:
        """Raises `RuntimeError`, as for every context that is not green: use `Device.create_stream`."""
        self._open()
        raise RuntimeError(
            "Context.create_stream() is only supported on green contexts. Use Device.create_stream() for primary contexts."
        )

    def close(self) -> None:
        """Gives up this object's hold on the context. Streams, events and memory of it go on.

        Raises `RuntimeError` if the context is current in this thread.
        """
        if self._inner is None:
            return
        if _state.thread.context is self:
            raise RuntimeError(
                "Cannot close a CUDA context while it is current. Restore a previous context before closing this context."
            )
        self._inner = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return self.handle == other.handle

    def __hash__(self) -> int:
        return hash(self.handle or 0)

    def __repr__(self) -> str:
        return f"<Context handle={self.handle or 0:#x} device={self._device_id}>"
