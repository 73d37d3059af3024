"""Streams."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from .. import _anabranch
from .._errors import AnabranchError
from . import _state
from ._context import Context
from ._event import Event, EventOptions
from ._utils.classes import CheckedOptions, Uncopied, optional_int
from ._utils.cuda_utils import call, check_or_create_options, failed, read_bool, read_int, size_of

if TYPE_CHECKING:
    from ._device import Device
    from .graph import GraphBuilder

__all__ = ["LEGACY_DEFAULT_STREAM", "PER_THREAD_DEFAULT_STREAM", "Stream", "StreamOptions"]

# The handles that CUDA has for its default streams.
LEGACY, PER_THREAD = 1, 2
_DEFAULT_STREAMS = {0: "legacy", LEGACY: "legacy", PER_THREAD: "per_thread"}


@dataclass(slots=True)
class StreamOptions(CheckedOptions):
    """How a stream is made: whether it is not ordered with the legacy default stream, and its priority. Smaller numbers are
    more urgent; the default is the least urgent one.
    """

    nonblocking: bool = True
    priority: int | None = None

    _checks = {"nonblocking": bool, "priority": optional_int}


class IsStreamType(Protocol):
    """Any object that stands for a stream."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, 0, and the handle of the stream."""
        ...


class Stream(Uncopied):
    """A queue of work that runs in order.

    `Device.create_stream` makes streams, and `Stream.from_handle` takes those of other libraries.
    """

    _inner: _anabranch.Stream | None
    _context: Context | None
    _default: str | None
    _handle_value: int
    _is_owned: bool
    _is_closed: bool
    _owner: object
    # What the builder of a graph knows of the capture that it has begun here.
    _capture: object = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "Stream objects cannot be instantiated directly. Please use Device APIs (create_stream) or other Stream APIs "
            "(from_handle)."
        )

    @classmethod
    def _of(cls, handle: int, inner: _anabranch.Stream | None, context: Context | None, *, owned: bool) -> Stream:
        stream = cls.__new__(cls)
        stream._inner, stream._context, stream._handle_value = inner, context, handle
        stream._default = _DEFAULT_STREAMS.get(handle)
        stream._is_owned, stream._is_closed, stream._owner = owned, False, None
        return stream

    @classmethod
    def _legacy_default(cls) -> Stream:
        return cls._of(LEGACY, None, None, owned=False)

    @classmethod
    def _per_thread_default(cls) -> Stream:
        return cls._of(PER_THREAD, None, None, owned=False)

    @classmethod
    def _init(
        cls,
        obj: IsStreamType | None = None,
        options: StreamOptions | None = None,
        device_id: int | None = None,
        ctx: Context | None = None,
    ) -> Stream:
        if obj is not None and options is not None:
            raise ValueError("obj and options cannot be both specified")
        if obj is not None:
            return cls._foreign(obj)
        chosen = check_or_create_options(StreamOptions, options, "Stream options")
        context = ctx
        if context is None:
            if _state.thread.context is None:
                raise RuntimeError("No current CUDA context. Call dev.set_current() before creating streams.")
            context = _state.thread.context
        library = context._open()
        high, low = library.device.stream_priority_range
        priority = high if chosen.priority is None else chosen.priority
        if not low <= priority <= high:
            raise ValueError(f"priority={priority!r} is out of range {[low, high]}")
        inner = call(library.create_stream, priority=priority, non_blocking=bool(chosen.nonblocking))
        stream = cls._of(inner.handle, inner, context, owned=True)
        _LIVE[stream._handle_value] = stream
        return stream

    @classmethod
    def _foreign(cls, obj: Any) -> Stream:
        # A stream of the package, or of another of its modules.
        inner = obj if isinstance(obj, (_anabranch.Stream, Stream)) else getattr(obj, "anabranch_stream", None)
        if isinstance(inner, _anabranch.Stream):
            library: _anabranch.Context = call(getattr, inner, "context")
            context = Context._of(library, _state.device_id_of(library.device))
            stream = cls._of(inner.handle, inner, context, owned=False)
            stream._owner = obj
            return stream
        stream = cls._of(_handle_from_protocol(obj), None, None, owned=False)
        stream._owner = obj
        return stream

    @staticmethod
    def from_handle(handle: int) -> Stream:
        """The stream of another library with that handle, which has to exist as long as the result is used.

        Raises `TypeError` for what is no integer. Drivers trust handles: a wrong one may end the process.
        """
        return Stream._of(size_of(handle), None, None, owned=False)

    def _open(self) -> _anabranch.Stream:
        """The stream of the package."""
        if self._inner is not None:
            return self._inner
        if self._is_closed:
            raise RuntimeError("Stream has been closed")
        if self._default is not None:
            return _state.default_stream(_state.current_context()._open(), self._default)
        # One of the drop-in itself, or another library's in the current context.
        live = _LIVE.get(self._handle_value)
        if live is not None and live._inner is not None:
            self._inner, self._context = live._inner, live._context
            return live._inner
        context = _state.current_context()
        self._inner = call(context._open().stream_from_handle, self._handle_value, self._owner)
        self._context = context
        return self._inner

    @property
    def anabranch_stream(self) -> _anabranch.Stream:
        """The stream of the package. For a default stream, that of the current context."""
        return self._open()

    def close(self) -> None:
        """Ends the stream; work that is queued still runs. One of another library is only given up.

        Do not close the default streams: they are the same objects for the whole process.
        """
        inner, self._inner, self._owner, self._is_closed = self._inner, None, None, True
        if inner is not None and self._is_owned:
            call(inner.close)

    @property
    def is_closed(self) -> bool:
        """Whether the stream is closed."""
        return self._is_closed

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, and the handle."""
        if self._is_closed:
            raise RuntimeError("Stream has been closed")
        return 0, self._handle_value

    @property
    def handle(self) -> int:
        """The handle of the driver: 1 and 2 for the default streams, and 0 for a closed stream."""
        return 0 if self._is_closed else self._handle_value

    @property
    def is_nonblocking(self) -> bool:
        """Whether it is not ordered with the legacy default stream."""
        return read_bool(self._open(), "is_non_blocking")

    @property
    def priority(self) -> int:
        """The priority. Smaller numbers are more urgent."""
        return read_int(self._open(), "priority")

    def sync(self) -> None:
        """Waits until all work is complete. Ctrl-C ends the wait."""
        inner = self._inner
        if inner is None:
            inner = self._open()
        try:
            inner.synchronize()
        except AnabranchError as error:
            raise failed(error) from error

    def record(self, event: Event | None = None, options: EventOptions | None = None) -> Event:
        """Records an event behind all work until now: the one that is passed, or a new one with these options.

        Raises `TypeError` for an event that other processes can use: those are recorded once.
        """
        inner = self._inner
        if inner is None:
            inner = self._open()
        if event is None:
            event = Event._init(self.context, options, is_bound=True)
            recorded = event._open()
        elif not isinstance(event, Event):
            raise TypeError(f"Event expected, got {type(event).__name__}")
        else:
            recorded = event._inner or event._open()
            if event._is_ipc:
                raise TypeError(
                    "IPC-enabled events should not be re-recorded, instead create a new event by supplying options."
                )
        try:
            inner.record(recorded)
        except AnabranchError as error:
            raise failed(error) from error
        return event

    def wait(self, event_or_stream: Event | Stream | IsStreamType) -> None:
        """Lets later work wait for an event, or for the work of another stream until now.

        Raises `ValueError` for anything else.
        """
        inner = self._inner
        if inner is None:
            inner = self._open()
        target: Any = event_or_stream
        if not isinstance(target, (Event, Stream)):
            try:
                target = Stream._foreign(target)
            except Exception as error:
                raise ValueError(
                    "only an Event, Stream, or object supporting __cuda_stream__ can be waited, got "
                    f"{type(event_or_stream)}"
                ) from error
        try:
            inner.wait(target._inner or target._open())
        except AnabranchError as error:
            raise failed(error) from error

    @property
    def device(self) -> Device:
        """The device. For a default stream, that of the current context."""
        from ._device import Device

        return Device(self.context._device_id)

    @property
    def context(self) -> Context:
        """The context. For a default stream, the current one."""
        if self._inner is None:
            self._open()
        return _state.current_context() if self._context is None else self._context

    def create_graph_builder(self) -> GraphBuilder:
        """Makes a builder that captures this stream."""
        from .graph import GraphBuilder

        if self._is_closed:
            raise RuntimeError("Stream has been closed")
        return GraphBuilder._init(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self.handle == other.handle

    def __hash__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        # Neither fails nor opens anything.
        context = _state.thread.context if self._default is not None else self._context
        handle = 0 if context is None or self._is_closed else context.handle or 0
        return f"<Stream handle={self.handle:#x} context={handle:#x}>"


# The streams that the drop-in has made, by their handles.
_LIVE: WeakValueDictionary[int, Stream] = WeakValueDictionary()

#: The stream that is ordered with all blocking streams, of whichever context is current.
LEGACY_DEFAULT_STREAM: Stream = Stream._legacy_default()
#: The default stream of whichever thread calls, in whichever context is current.
PER_THREAD_DEFAULT_STREAM: Stream = Stream._per_thread_default()


def default_stream() -> Stream:
    """`PER_THREAD_DEFAULT_STREAM` if the environment variable CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM is a number that is
    not 0, and otherwise `LEGACY_DEFAULT_STREAM`.
    """
    chosen = int(os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", 0))
    return PER_THREAD_DEFAULT_STREAM if chosen else LEGACY_DEFAULT_STREAM


def _handle_from_protocol(obj: Any) -> int:
    try:
        described: Any = obj.__cuda_stream__
    except AttributeError:
        raise TypeError(f"{type(obj)} object does not have a '__cuda_stream__' attribute") from None
    if callable(described):
        described = described()
    else:
        warnings.warn(
            "Implementing __cuda_stream__ as an attribute is deprecated; it must be implemented as a method",
            category=DeprecationWarning,
            stacklevel=4,
        )
    expected = "obj.__cuda_stream__ must return a sequence with 2 elements, got"
    try:
        count = len(described)
    except TypeError as error:
        raise RuntimeError(f"{expected} {type(described)}") from error
    if count != 2:
        raise RuntimeError(f"{expected} {count} elements")
    if described[0] != 0:
        raise RuntimeError(
            f"The first element of the sequence returned by obj.__cuda_stream__ must be 0, got {described[0]!r}"
        )
    return int(described[1])


def Stream_accept(arg: Any, allow_stream_protocol: bool = False) -> Stream:
    """The stream that an argument stands for: a `Stream`, or a `GraphBuilder`."""
    if isinstance(arg, Stream):
        return arg
    from .graph import GraphBuilder

    if isinstance(arg, GraphBuilder):
        return arg.stream
    if arg is None:
        raise TypeError(
            "stream is required and must not be None; pass device.default_stream explicitly to use the default stream."
        )
    if allow_stream_protocol and hasattr(arg, "__cuda_stream__"):
        stream = Stream._foreign(arg)
        warnings.warn(
            "Passing foreign stream objects to this function via the stream protocol is deprecated. Convert the object "
            "explicitly using Stream(obj) instead.",
            category=DeprecationWarning,
            stacklevel=3,
        )
        return stream
    raise TypeError(f"Stream or GraphBuilder expected, got {type(arg).__name__}")
